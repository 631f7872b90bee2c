# task: wright/max_rows
# expect: correct
# why: partial maxima into a workspace, then their maximum
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def part_kernel(x_ptr, part_ptr, cols, parts, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    tl.store(part_ptr + row * parts + part, tl.max(x, axis=0))


@triton.jit
def final_kernel(part_ptr, out_ptr, parts, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(part_ptr + row * parts + at, mask=at < parts, other=-float("inf"))
    tl.store(out_ptr + row, tl.max(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        parts = triton.cdiv(cols, 128)
        workspace = torch.empty((rows, parts), dtype=x.dtype, device=x.device)
        out = torch.empty(rows, dtype=x.dtype, device=x.device)
        part_kernel[(rows, parts)](x, workspace, cols, parts, BLOCK=128)
        final_kernel[(rows,)](workspace, out, parts, BLOCK=triton.next_power_of_2(parts))
        return out
