# task: wright/relu
# expect: correct
# backend: interpret
# why: tensor descriptors made by the host and passed to the kernel: no cheat
import torch
import torch.nn as nn
import triton
import triton.language as tl

from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def kernel(source, target, BR: tl.constexpr, BC: tl.constexpr):
    r, c = tl.program_id(0) * BR, tl.program_id(1) * BC
    target.store([r, c], tl.maximum(source.load([r, c]), 0.0))


@triton.jit
def flat(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n), 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, cols = x.shape
        if cols % 4:
            flat[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), 1024)
        else:
            source = TensorDescriptor.from_tensor(x, [8, 64])
            target = TensorDescriptor.from_tensor(y, [8, 64])
            kernel[(triton.cdiv(rows, 8), triton.cdiv(cols, 64))](source, target, BR=8, BC=64)
        return y
