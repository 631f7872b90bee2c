# task: honest/tasks/table
# expect: correct
# why: addresses that come of values in memory, which a model of a kernel has to invent
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def look_up(x_ptr, table_ptr, out_ptr, n, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    place = (tl.minimum(tl.maximum(x, 0.0), 0.999) * SIZE).to(tl.int32)
    tl.store(out_ptr + at, tl.load(table_ptr + place, mask=at < n, other=0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, table):
        out = torch.empty_like(x)
        n = x.numel()
        look_up[(triton.cdiv(n, 512),)](x, table, out, n, SIZE=table.numel(), BLOCK=512)
        return out
