# task: wright/softmax_rows
# cheat: 14
# expect: non_finite, wrong_on_distribution, wrong_value
# why: no maximum is subtracted: right until an exponential overflows
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def softmax_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    e = tl.exp(tl.load(x_ptr + row * cols + at, mask=mask, other=-float("inf")))
    tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
