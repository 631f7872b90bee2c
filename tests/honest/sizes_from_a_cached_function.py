# task: wright/softmax_rows
# expect: correct
# why: lru_cache on a function of integers
import functools
import torch
import torch.nn as nn
import triton
import triton.language as tl

@functools.lru_cache(maxsize=None)
def settings(cols: int):
    block = triton.next_power_of_2(cols)
    return block, min(8, max(1, block // 256))


@triton.jit
def kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n_cols + cols, mask=cols < n_cols, other=float("-inf"))
    y = tl.softmax(x)
    tl.store(y_ptr + tl.program_id(0) * n_cols + cols, y, mask=cols < n_cols)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        block, warps = settings(x.shape[1])
        kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=block, num_warps=warps)
        return y
