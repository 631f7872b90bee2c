# task: wright/relu
# expect: correct
# why: `input`, `vars` and `help` are names of locals here, not the builtins
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0), mask=mask)

class ModelNew(nn.Module):
    def forward(self, input):
        vars = input.numel()
        help = torch.empty_like(input)
        relu_kernel[(triton.cdiv(vars, 1024),)](input, help, vars, BLOCK=1024)
        return help
