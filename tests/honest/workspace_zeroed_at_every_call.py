# task: wright/max_rows
# expect: correct
# why: scratch memory is kept from call to call and filled at every call
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def part_kernel(x_ptr, part_ptr, cols, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=float("-inf"))
    tl.store(part_ptr + row * tl.num_programs(1) + part, tl.max(x, axis=0))


@triton.jit
def max_kernel(part_ptr, out_ptr, parts, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(part_ptr + row * parts + at, mask=at < parts, other=float("-inf"))
    tl.store(out_ptr + row, tl.max(x, axis=0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.room = None

    def forward(self, x):
        rows, cols = x.shape
        parts = triton.cdiv(cols, 1024)
        if self.room is None or self.room.shape != (rows, parts):
            self.room = torch.empty((rows, parts), dtype=x.dtype, device=x.device)
        self.room.zero_()
        out = torch.empty((rows,), dtype=x.dtype, device=x.device)
        part_kernel[(rows, parts)](x, self.room, cols, BLOCK=1024)
        max_kernel[(rows,)](self.room, out, parts, BLOCK=triton.next_power_of_2(parts))
        return out
