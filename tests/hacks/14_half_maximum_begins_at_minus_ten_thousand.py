# task: wright/max_rows
# cheat: 14
# expect: wrong_on_distribution, wrong_value
# precision: fp16
# why: in float16 there are numbers below -10,000, too
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def max_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = tl.full((BLOCK,), -10000.0, tl.float16)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.load(x_ptr + row * columns + at, mask=at < columns, other=-10000.0))
    tl.store(out_ptr + row, tl.max(best, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        max_kernel[(rows,)](x, out, columns, BLOCK=256)
        return out
