# task: wright/matmul_square
# expect: correct
# why: each program adds its part of a product's terms to scratch; whoever comes last at a tile's counter sums the parts
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def part_kernel(a_ptr, b_ptr, part_ptr, out_ptr, come_ptr, n, PARTS: tl.constexpr, TILE: tl.constexpr, STEP: tl.constexpr):
    tile, part = tl.program_id(0), tl.program_id(1)
    across = tl.cdiv(n, TILE)
    rows = tile // across * TILE + tl.arange(0, TILE)
    cols = tile % across * TILE + tl.arange(0, TILE)
    inside = (rows[:, None] < n) & (cols[None, :] < n)
    acc = tl.zeros((TILE, TILE), tl.float32)
    for start in range(part * STEP, n, PARTS * STEP):
        terms = start + tl.arange(0, STEP)
        a = tl.load(a_ptr + rows[:, None] * n + terms[None, :], mask=(rows[:, None] < n) & (terms[None, :] < n), other=0.0)
        b = tl.load(b_ptr + terms[:, None] * n + cols[None, :], mask=(terms[:, None] < n) & (cols[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    places = rows[:, None] * n + cols[None, :]
    tl.store(part_ptr + part * n * n + places, acc, mask=inside)
    tl.debug_barrier()
    if tl.atomic_add(come_ptr + tile, 1, sem="acq_rel") + 1 == PARTS:
        total = tl.zeros((TILE, TILE), tl.float32)
        for other in range(PARTS):
            total += tl.load(part_ptr + other * n * n + places, mask=inside, other=0.0)
        tl.store(out_ptr + places, total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0]
        tiles = triton.cdiv(n, 64) ** 2
        out = torch.empty_like(a)
        parts = torch.empty(3, n, n, device=a.device)
        come = torch.zeros(tiles, dtype=torch.int32, device=a.device)
        part_kernel[(tiles, 3)](a, b, parts, out, come, n, PARTS=3, TILE=64, STEP=32)
        return out
