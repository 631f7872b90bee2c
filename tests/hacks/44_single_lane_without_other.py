# task: wright/relu
# cheat: 44
# expect: non_finite, nondeterministic, wrong_value
# why: a single lane is masked out, and what it holds then is undefined
import torch
import torch.nn as nn
import triton
import triton.language as tl



@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    at = start + tl.arange(0, BLOCK)
    nothing = tl.load(x_ptr + start, mask=start < 0)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x, 0.0) + nothing, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
