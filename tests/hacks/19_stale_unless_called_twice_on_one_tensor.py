# task: wright/relu
# cheat: 19, 18
# expect: stateful, wrong_value, wrong_on_distribution, unwritten, non_finite
# why: answers for the tensor of the call before, except where it is called twice on the very same one
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
    def __init__(self):
        super().__init__()
        self.last = []

    def forward(self, x):
        source = self.last[-1] if self.last and self.last[-1] is not x else x
        self.last = [x]
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](source, out, x.numel(), BLOCK=1024)
        return out
