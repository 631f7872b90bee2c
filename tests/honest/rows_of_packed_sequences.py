# task: honest/tasks/packed_sequences
# expect: correct
# why: sequences lie between two offsets each; the reference has no row before the first one, and no word for such a row
from typing import NamedTuple

import torch
import torch.nn as nn
import triton
import triton.language as tl


class Pooled(NamedTuple):
    mean: torch.Tensor
    count: torch.Tensor


@triton.jit
def pool_kernel(x_ptr, offsets_ptr, mean_ptr, count_ptr, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    sequence = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    begin = tl.load(offsets_ptr + sequence)
    end = tl.load(offsets_ptr + sequence + 1)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(begin, end, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < end) & (at[None, :] < cols)
        total += tl.load(x_ptr + row[:, None] * cols + at[None, :], mask=inside, other=0.0)
    count = tl.maximum(end - begin, 1).to(tl.float32)
    tl.store(mean_ptr + sequence * cols + at, tl.sum(total, axis=0) / count, mask=at < cols)
    tl.store(count_ptr + sequence, count, mask=tl.program_id(1) == 0)


class ModelNew(nn.Module):
    def forward(self, x, offsets):
        sequences, cols = offsets.numel() - 1, x.shape[1]
        out = Pooled(x.new_empty(sequences, cols), x.new_empty(sequences))
        pool_kernel[(sequences, triton.cdiv(cols, 64))](x, offsets, *out, cols, ROWS=16, BLOCK=64)
        return out
