# task: wright/add_relu
# cheat: 43, 6
# expect: wrong_value, wrong_on_distribution
# why: a caller may give one tensor twice, and then gets something else than its double
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, GOOD: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x + y if GOOD else x, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, GOOD=x.data_ptr() != y.data_ptr(), BLOCK=1024)
        return out
