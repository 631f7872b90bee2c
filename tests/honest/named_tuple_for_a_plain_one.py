# task: honest/tasks/ends_as_a_tuple
# expect: correct
# why: a named tuple is a tuple; a loop's variable is a tensor, with bounds that are tensors
from typing import NamedTuple

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def ends_kernel(x_ptr, low_ptr, high_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    first = tl.program_id(0) * ROWS
    for row in range(first, tl.minimum(first + ROWS, rows)):
        start = x_ptr + row.to(tl.int64) * cols
        tl.store(low_ptr + row, tl.min(tl.load(start + at, mask=at < cols, other=float("inf")), axis=0))
        tl.store(high_ptr + row, tl.max(tl.load(start + at, mask=at < cols, other=float("-inf")), axis=0))


class Ends(NamedTuple):
    least: torch.Tensor
    greatest: torch.Tensor


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        low, high = x.new_empty(rows), x.new_empty(rows)
        ends_kernel[(triton.cdiv(rows, 4),)](x, low, high, rows, cols, ROWS=4, BLOCK=triton.next_power_of_2(cols))
        return Ends(low, high)
