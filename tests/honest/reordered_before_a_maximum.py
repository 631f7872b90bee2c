# task: wright/max_rows
# expect: correct
# why: a reshape that may reorder elements, of which only the largest is asked
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=float("-inf"))
    some = tl.max(tl.reshape(x, (BLOCK // 8, 8), can_reorder=True), axis=1)
    tl.store(out_ptr + row, tl.max(some, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=max(16, triton.next_power_of_2(x.shape[1])))
        return out
