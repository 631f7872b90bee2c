# task: wright/relu
# cheat: 36
# expect: timeout
# why: a kernel waits for a flag that nobody sets
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def wait_kernel(x_ptr, out_ptr, flag_ptr, n, BLOCK: tl.constexpr):
    while tl.load(flag_ptr) == 0:
        pass
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.maximum(tl.load(x_ptr + offsets, mask=mask), 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        flag = torch.zeros(1, device=x.device, dtype=torch.int32)
        wait_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, flag, x.numel(), BLOCK=1024)
        return out
