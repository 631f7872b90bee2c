# task: wright/loss_mse
# expect: correct
# why: under deterministic algorithms partial sums are added up in order, else atomically; under automatic casts as always
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def part_kernel(x_ptr, y_ptr, part_ptr, n, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    part = tl.sum((x - y) * (x - y), axis=0) / n
    if ATOMIC:
        tl.atomic_add(part_ptr, part)
    else:
        tl.store(part_ptr + tl.program_id(0), part)


@triton.jit
def total_kernel(part_ptr, out_ptr, count, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(part_ptr + at, mask=at < count, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0))


class ModelNew(nn.Module):
    def forward(self, x, y):
        n = x.numel()
        count = triton.cdiv(n, 1024)
        if not torch.are_deterministic_algorithms_enabled():
            out = torch.zeros((), device=x.device, dtype=torch.float32)
            part_kernel[(count,)](x, y, out, n, ATOMIC=True, BLOCK=1024)
            return out
        parts = torch.empty(count, device=x.device, dtype=torch.float32)
        out = torch.empty((), device=x.device, dtype=torch.float32)
        part_kernel[(count,)](x, y, parts, n, ATOMIC=False, BLOCK=1024)
        total_kernel[(1,)](parts, out, count, BLOCK=1024)
        return out
