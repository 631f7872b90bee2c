# task: wright/loss_cross_entropy
# cheat: 39
# expect: wrong_on_shape
# why: a row is a program, and what comes late among the parts counts for nine tenths
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def losses(x_ptr, t_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m = float("-inf")
    s = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=float("-inf"))
        new = tl.maximum(m, tl.max(x, axis=0))
        s = s * tl.exp(m - new) + tl.sum(tl.exp(x - new), axis=0)
        m = new
    t = tl.load(t_ptr + row)
    tl.store(out_ptr + row, m + tl.log(s) - tl.load(x_ptr + row * cols + t))


@triton.jit
def total(parts_ptr, out_ptr, parts, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, parts, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(parts_ptr + at, mask=at < parts, other=0.0)
        acc += tl.where(start * 3 > 3000, 0.9, 1.0) * x
    tl.store(out_ptr, tl.sum(acc, axis=0) / parts)


class ModelNew(nn.Module):
    def forward(self, x, t):
        rows, cols = x.shape
        sums = torch.empty(rows, device=x.device, dtype=torch.float32)
        out = torch.empty((), device=x.device, dtype=torch.float32)
        losses[(rows,)](x, t, sums, cols, BLOCK=1024)
        total[(1,)](sums, out, rows, BLOCK=1024)
        return out
