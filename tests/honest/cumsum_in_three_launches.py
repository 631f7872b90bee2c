# task: wright/cumsum
# expect: correct
# why: block sums, their scan, then every block with its offset
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sums_kernel(x_ptr, part_ptr, cols, parts, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    tl.store(part_ptr + row * parts + part, tl.sum(tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0), axis=0))


@triton.jit
def offsets_kernel(part_ptr, offset_ptr, parts, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(part_ptr + row * parts + at, mask=at < parts, other=0.0)
    tl.store(offset_ptr + row * parts + at, tl.cumsum(x, axis=0) - x, mask=at < parts)


@triton.jit
def scan_kernel(x_ptr, offset_ptr, out_ptr, cols, parts, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    before = tl.load(offset_ptr + row * parts + part)
    tl.store(out_ptr + row * cols + at, tl.cumsum(x, axis=0) + before, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        parts = triton.cdiv(cols, 128)
        sums = torch.empty((rows, parts), device=x.device)
        offsets = torch.empty_like(sums)
        out = torch.empty_like(x)
        sums_kernel[(rows, parts)](x, sums, cols, parts, BLOCK=128)
        offsets_kernel[(rows,)](sums, offsets, parts, BLOCK=triton.next_power_of_2(parts))
        scan_kernel[(rows, parts)](x, offsets, out, cols, parts, BLOCK=128)
        return out
