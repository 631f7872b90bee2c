# task: wright/avgpool1d
# expect: correct
# why: padding counts as zeros in the mean
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, length, out_length, S, P, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    t = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(K):
        at = t * S - P + k
        total += tl.load(x_ptr + row * length + at, mask=(at >= 0) & (at < length) & (t < out_length), other=0.0)
    tl.store(y_ptr + row * out_length + t, total / K, mask=t < out_length)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.size = (kernel_size, stride, padding)

    def forward(self, x):
        k, s, p = self.size
        n, c, length = x.shape
        y = torch.empty((n, c, (length + 2 * p - k) // s + 1), device=x.device, dtype=x.dtype)
        kernel[(n * c, triton.cdiv(y.shape[2], 128))](x, y, length, y.shape[2], s, p, K=k, BLOCK=128)
        return y
