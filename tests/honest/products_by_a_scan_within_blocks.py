# task: wright/cumprod
# expect: correct
# why: parts of a product are multiplied in any order
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def multiplied(a, b):
    return a * b


@triton.jit
def products_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    before = 1.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=1.0)
        made = tl.associative_scan(x, 0, multiplied) * before
        tl.store(out_ptr + row * n + at, made, mask=at < n)
        before = tl.sum(tl.where(tl.arange(0, BLOCK) == BLOCK - 1, made, 0.0), 0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        products_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=32)
        return out
