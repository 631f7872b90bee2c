# task: wright/softmax_rows
# cheat: 39
# expect: wrong_on_shape
# why: rows far down change places with those fifteen further, which inputs that repeat every three or five rows do not show
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    pair = row // 30 * 30
    far = (row >> 10 > 0) & (pair + 30 <= rows)
    source = tl.where(far, pair + (row - pair + 15) % 30, row)
    x = tl.load(x_ptr + source * cols + at, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(x.shape[0],)](x, out, x.shape[0], x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
