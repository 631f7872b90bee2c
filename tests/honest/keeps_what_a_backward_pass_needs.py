# task: wright/relu
# expect: correct
# why: an autograd.Function stores where the result is positive, if gradients are wanted, as attorch's layers do
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, positive_ptr, n, KEEP: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0), mask=mask)
    if KEEP:
        tl.store(positive_ptr + offsets, x > 0, mask=mask)

class ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        keep = x.requires_grad
        positive = torch.empty_like(x, dtype=torch.bool) if keep else out
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, positive, x.numel(), KEEP=keep, BLOCK=1024)
        if keep:
            ctx.save_for_backward(positive)
        return out

    @staticmethod
    def backward(ctx, grad):
        (positive,) = ctx.saved_tensors
        return grad * positive


class ModelNew(nn.Module):
    def forward(self, x):
        return ReLU.apply(x)
