# task: wright/relu
# cheat: 44
# expect: compile_error, unsupported
# why: asks of what class a number is that it assigned: a tensor to the compiler, and none to an interpreter
import torch
import torch.nn as nn
import triton
import triton.language as tl



@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    half = 0.5
    y = tl.maximum(x, 0.0)
    if isinstance(half, tl.tensor):
        y = x
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
