# task: wright/softmax_rows
# expect: correct
# why: short rows several to a program, long rows one by one in pieces
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def short_rows(x_ptr, out_ptr, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    inside = (r < rows) & (c < n)
    x = tl.load(x_ptr + r * n + c, mask=inside, other=float("-inf"))
    x = tl.exp(x - tl.max(tl.where(r < rows, x, 0.0), axis=1)[:, None])
    tl.store(out_ptr + r * n + c, x / tl.sum(x, axis=1)[:, None], mask=inside)


@triton.jit
def long_rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + c, mask=c < n, other=float("-inf"))
        new = tl.maximum(tl.maximum(top, x), -1e30)
        total = total * tl.exp(top - new) + tl.exp(x - new)
        top = new
    most = tl.max(top, axis=0)
    total = tl.sum(total * tl.exp(top - most), axis=0)
    for start in range(0, n, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + c, mask=c < n, other=float("-inf"))
        tl.store(out_ptr + row * n + c, tl.exp(x - most) / total, mask=c < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty_like(x)
        if n <= 512:
            block = triton.next_power_of_2(n)
            short_rows[(triton.cdiv(rows, 4),)](x, out, rows, n, ROWS=4, BLOCK=block)
        else:
            long_rows[(rows,)](x, out, n, BLOCK=1024)
        return out
