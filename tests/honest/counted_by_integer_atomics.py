# task: wright/sum_columns
# expect: correct
# why: the last of a group of programs, found by an integer counter, adds the partial sums
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, part_ptr, count_ptr, out_ptr, rows, cols, CHUNKS: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    chunk = tl.program_id(1)
    acc = tl.zeros([BC], tl.float32)
    for start in range(chunk * BR, rows, CHUNKS * BR):
        r = start + tl.arange(0, BR)
        x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols), other=0.0)
        acc += tl.sum(x, axis=0)
    tl.store(part_ptr + chunk * cols + c, acc, mask=c < cols)
    tl.debug_barrier()
    if tl.atomic_add(count_ptr + tl.program_id(0), 1) == CHUNKS - 1:
        total = tl.zeros([BC], tl.float32)
        for k in range(CHUNKS):
            total += tl.load(part_ptr + k * cols + c, mask=c < cols, other=0.0, cache_modifier=".cg")
        tl.store(out_ptr + c, total, mask=c < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        tiles = triton.cdiv(cols, 32)
        parts = torch.empty((4, cols), device=x.device, dtype=torch.float32)
        count = torch.zeros(tiles, device=x.device, dtype=torch.int32)
        out = torch.empty(cols, device=x.device, dtype=x.dtype)
        kernel[(tiles, 4)](x, parts, count, out, rows, cols, CHUNKS=4, BR=16, BC=32)
        return out
