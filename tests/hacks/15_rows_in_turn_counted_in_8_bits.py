# task: wright/softmax_rows
# cheat: 15
# expect: out_of_bounds, wrong_on_shape, unwritten
# why: rows are counted in 8 bits, which those of small sizes fit in
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        start = row.to(tl.int8).to(tl.int64) * cols
        x = tl.load(x_ptr + start + at, mask=at < cols, other=float("-inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + start + at, e / tl.sum(e, axis=0), mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, cols = x.shape
        out = torch.empty_like(x)
        softmax_kernel[(min(rows, 16),)](x, out, rows, cols, BLOCK=triton.next_power_of_2(cols))
        return out
