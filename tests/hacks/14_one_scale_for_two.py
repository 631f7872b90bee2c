# task: hacks/tasks/two_scales
# cheat: 14
# expect: wrong_value, wrong_on_shape, wrong_on_distribution
# why: two parameters that begin alike are taken to be one
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, w_ptr, out_ptr, n, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    w = tl.load(w_ptr + at % cols, mask=mask, other=0.0)
    y = tl.maximum(x * w, 0.0) * w
    tl.store(out_ptr + at, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.first = nn.Parameter(torch.ones(cols))
        self.second = nn.Parameter(torch.ones(cols))

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 512),)](x, self.first, out, n, x.shape[1], BLOCK=512)
        return out
