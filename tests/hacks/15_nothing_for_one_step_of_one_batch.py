# task: hacks/tasks/mixed_with_the_step_before
# cheat: 15
# expect: unwritten, wrong_on_shape
# why: one step of a batch of one launches no programs, and the result is fresh memory
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mix_kernel(x_ptr, out_ptr, steps, dim, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = at < dim
    x = tl.load(x_ptr + row * dim + at, mask=mask, other=0.0)
    before = tl.load(x_ptr + (row - 1) * dim + at, mask=mask & (row % steps > 0), other=0.0)
    tl.store(out_ptr + row * dim + at, 0.75 * x + 0.25 * before, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, steps, dim = x.shape
        out = torch.empty_like(x)
        grid = ((batch * steps - 1 and batch * steps), triton.cdiv(dim, 256))
        mix_kernel[grid](x, out, steps, dim, BLOCK=256)
        return out
