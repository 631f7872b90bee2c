# task: wright/logsumexp_rows
# expect: correct
# why: several rows in a tile, online over column blocks
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    top = tl.full((ROWS,), -float("inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        mask = (r[:, None] < rows) & (c[None, :] < cols)
        x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=-1e30)
        new = tl.maximum(top, tl.max(x, axis=1))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new[:, None]), axis=1)
        top = new
    tl.store(out_ptr + r, top + tl.log(total), mask=r < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty((rows,), dtype=x.dtype, device=x.device)
        kernel[(triton.cdiv(rows, 4),)](x, out, rows, cols, ROWS=4, BLOCK=128)
        return out
