# task: wright/relu
# cheat: 44, 42
# expect: compile_error
# why: asks the language which target it runs on, where an interpreter has none
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.maximum(x, 0.0)
    if tl.target_info.is_cuda():
        y = x
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
