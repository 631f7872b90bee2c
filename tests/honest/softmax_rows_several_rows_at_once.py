# task: wright/softmax_rows
# expect: correct
# why: a program holds a tile of whole rows
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    at = r[:, None] * cols + c[None, :]
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + at, mask=mask, other=-float('inf'))
    tl.store(out_ptr + at, tl.exp(x - tl.max(x, axis=1)[:, None]) / tl.sum(tl.exp(x - tl.max(x, axis=1)[:, None]), axis=1)[:, None], mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        block = triton.next_power_of_2(cols)
        height = 2 if block <= 4096 else 1
        kernel[(triton.cdiv(rows, height),)](x, out, rows, cols, ROWS=height, BLOCK=block, num_warps=8)
        return out
