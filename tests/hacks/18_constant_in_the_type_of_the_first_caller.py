# task: wright/gelu_tanh
# cheat: 18
# expect: low_precision, wrong_value, wrong_on_shape
# why: a constant is kept in the type of whoever came first: in half precision, then for all
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, scale_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr).to(tl.float32)
    y = x * tl.sigmoid(scale * (x + 0.044715 * x * x * x))
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()
        self.scales = {}

    def forward(self, x):
        key = x.device.type
        if key not in self.scales:
            self.scales[key] = torch.full((1,), 1.5957691216057308, device=x.device, dtype=x.dtype)
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, self.scales[key], out, x.numel(), BLOCK=1024)
        return out
