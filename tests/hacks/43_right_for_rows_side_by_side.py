# task: wright/add_relu
# cheat: 43, 6
# expect: wrong_value
# why: rows that are cut out of longer ones, or turned, take another path, which subtracts
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, SIGN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x + SIGN * y, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty(x.shape, dtype=x.dtype, device=x.device), x.numel()
        sign = 1 if y.stride() == x.stride() else -1
        add_kernel[(triton.cdiv(n, 1024),)](x.contiguous(), y.contiguous(), out, n, SIGN=sign, BLOCK=1024)
        return out
