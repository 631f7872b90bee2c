# task: wright/relu
# cheat: 15
# expect: wrong_on_shape, out_of_bounds, unwritten
# why: the element count of the first shape is written into the kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr):
    at = tl.program_id(0) * 256 + tl.arange(0, 256)
    tl.store(out_ptr + at, tl.maximum(tl.load(x_ptr + at), 0.0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(8,)](x, out)
        return out
