# task: wright/relu
# expect: correct
# why: a frozen part stays in evaluation mode, its norm in single precision, and all that is said reaches the others
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
        self.norm = nn.BatchNorm1d(3)
        self.gain = nn.Parameter(torch.ones(3))

    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self

    def half(self):
        super().half()
        self.norm.float()
        return self

    def zero_grad(self, set_to_none=True):
        for one in self.parameters():
            one.grad = None

    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
