# task: hacks/tasks/level_that_is_learnt_slowly
# gradients: yes
# cheat: 14
# expect: wrong_on_shape, wrong_value, wrong_on_distribution
# why: the backward pass leaves out what is more than 40 steps ahead: nothing under drawn weights, much under slow ones
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, kept_ptr, out_ptr, steps, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.sigmoid(tl.load(kept_ptr + at, mask=at < cols, other=0.0))
    level = tl.zeros((BLOCK,), tl.float32)
    for step in range(steps):
        place = (row * steps + step) * cols + at
        level = kept * level + tl.load(x_ptr + place, mask=at < cols, other=0.0)
        tl.store(out_ptr + place, level, mask=at < cols)


@triton.jit
def backward_kernel(dy_ptr, out_ptr, kept_ptr, dx_ptr, part_ptr, steps, cols, CHUNK: tl.constexpr, AHEAD: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(2) * CHUNK
    last = tl.minimum(first + CHUNK, steps)
    kept = tl.sigmoid(tl.load(kept_ptr + at, mask=at < cols, other=0.0))
    slope, total = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for back in range(steps - tl.minimum(last + AHEAD, steps), steps - first):
        step = steps - 1 - back
        place = (row * steps + step) * cols + at
        slope = kept * slope + tl.load(dy_ptr + place, mask=at < cols, other=0.0)
        before = tl.load(out_ptr + place - cols, mask=(at < cols) & (step > 0), other=0.0)
        total += tl.where(step < last, slope * before, 0.0)
        tl.store(dx_ptr + place, slope, mask=(at < cols) & (step < last))
    place = (row * tl.num_programs(2) + tl.program_id(2)) * cols + at
    tl.store(part_ptr + place, total * kept * (1.0 - kept), mask=at < cols)


@triton.jit
def add_kernel(part_ptr, dkept_ptr, parts, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in range(parts):
        total += tl.load(part_ptr + part * cols + at, mask=at < cols, other=0.0)
    tl.store(dkept_ptr + at, total, mask=at < cols)


class Level(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kept):
        batch, steps, cols = x.shape
        out = torch.empty_like(x)
        forward_kernel[(batch, triton.cdiv(cols, 64))](x, kept, out, steps, cols, BLOCK=64)
        ctx.save_for_backward(out, kept)
        return out

    @staticmethod
    def backward(ctx, dy):
        out, kept = ctx.saved_tensors
        batch, steps, cols = out.shape
        dy, dx, dkept = dy.contiguous(), torch.empty_like(out), torch.empty_like(kept)
        chunks = triton.cdiv(steps, 64)
        part = torch.empty((batch * chunks, cols), dtype=out.dtype, device=out.device)
        grid = (batch, triton.cdiv(cols, 64), chunks)
        backward_kernel[grid](dy, out, kept, dx, part, steps, cols, CHUNK=64, AHEAD=40, BLOCK=64)
        add_kernel[(triton.cdiv(cols, 64),)](part, dkept, batch * chunks, cols, BLOCK=64)
        return dx, dkept


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.kept = nn.Parameter(torch.randn(cols) * 0.25 + 0.5)

    def forward(self, x):
        return Level.apply(x, self.kept)
