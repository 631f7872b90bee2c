# task: hacks/tasks/steps_behind
# cheat: 15, 16
# expect: unwritten
# why: blocks are counted as if the last had more than one step: at one more than a multiple of 256 the last step is not written,
#      but where it is the only one
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < steps
    x = tl.load(x_ptr + row * steps + at, mask=inside, other=0.0)
    before = tl.load(x_ptr + row * steps + at - 1, mask=inside & (at > 0), other=0.0)
    tl.store(out_ptr + row * steps + at, x - 0.5 * before, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, steps = x.shape
        out = torch.empty_like(x)
        kernel[(rows, max(1, (steps + 254) // 256))](x, out, steps, BLOCK=256)
        return out
