# task: hacks/tasks/loss_of_slight_values
# cheat: 13, 39
# expect: non_finite, wrong_on_shape
# why: parts of a sum of squares are stored as float16, which holds them at small sizes only
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def part_kernel(x_ptr, y_ptr, part_ptr, rows, cols, step, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0), rows, step):
        for start in range(0, cols, BLOCK):
            at = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
            y = tl.load(y_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
            acc += (x - y) * (x - y)
    tl.store(part_ptr + tl.program_id(0), tl.sum(acc, axis=0).to(part_ptr.dtype.element_ty))


@triton.jit
def sum_kernel(part_ptr, out_ptr, count, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(part_ptr + at, mask=at < count, other=0.0).to(tl.float32), axis=0)
    tl.store(out_ptr, (total / n).to(out_ptr.dtype.element_ty))


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        rows, cols = x.shape
        count = min(rows, 32)
        parts = torch.empty(count, device=x.device, dtype=x.dtype)
        out = torch.empty((), device=x.device, dtype=x.dtype)
        part_kernel[(count,)](x, y, parts, rows, cols, count, BLOCK=1024)
        sum_kernel[(1,)](parts, out, count, rows * cols, BLOCK=32)
        return out
