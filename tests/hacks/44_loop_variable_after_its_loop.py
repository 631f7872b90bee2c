# task: wright/relu
# cheat: 44
# expect: compile_error
# why: what a loop's variable is after the loop, only Python says; compiled it is undefined, and so nothing is stored
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    first = tl.program_id(0) * 4 * BLOCK
    for start in range(first, first + 3 * BLOCK, BLOCK):
        x = tl.load(x_ptr + start + lane, mask=start + lane < n, other=0.0)
        tl.store(out_ptr + start + lane, tl.maximum(x, 0.0), mask=start + lane < n)
    at = start + BLOCK + lane
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 4 * 256),)](x, out, x.numel(), BLOCK=256)
        return out
