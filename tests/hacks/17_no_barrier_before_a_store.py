# task: wright/softmax_rows
# cheat: 17
# expect: nondeterministic
# why: lanes store, without a barrier, to where other lanes of their program have yet to load
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, e_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask, other=-float("inf"))
    tl.store(e_ptr + row * cols + at, tl.exp(x - tl.max(x, axis=0)), mask=mask)
    tl.debug_barrier()
    back = tl.load(e_ptr + row * cols + cols - 1 - at, mask=mask, other=0.0)
    tl.store(e_ptr + row * cols + at, back, mask=mask)
    tl.debug_barrier()
    e = tl.load(e_ptr + row * cols + cols - 1 - at, mask=mask, other=0.0)
    tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        e, out = torch.empty_like(x), torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, e, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
