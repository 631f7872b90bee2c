# task: honest/tasks/signed_ramp
# expect: correct
# why: integers and truth values become bfloat16 by a cast, which rounds them to the nearest; Triton's interpreter takes their bits
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def ramp_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    steps = at.to(tl.bfloat16) * (x > 0).to(tl.bfloat16)
    tl.store(out_ptr + row * cols + at, x + steps, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        ramp_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
