# task: hacks/tasks/gained_channels
# expect: correct
# backend: interpret
# why: more places than 31 bits count, counted in 64
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gained(x_ptr, gain_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < cols
        gain = tl.load(gain_ptr + at, mask=mask, other=0.0)
        tl.store(out_ptr + (row * cols + at), tl.load(x_ptr + (row * cols + at), mask=mask, other=0.0) * gain, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, gain):
        out = torch.empty_like(x)
        gained[(x.shape[0],)](x, gain, out, x.shape[1], BLOCK=1024)
        return out
