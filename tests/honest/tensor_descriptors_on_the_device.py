# task: wright/relu
# expect: correct
# why: tensor descriptors made inside the kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, shape=[rows, cols], strides=[cols, 1], block_shape=[BR, BC])
    target = tl.make_tensor_descriptor(y_ptr, shape=[rows, cols], strides=[cols, 1], block_shape=[BR, BC])
    r, c = tl.program_id(0) * BR, tl.program_id(1) * BC
    target.store([r, c], tl.maximum(source.load([r, c]), 0.0))


def allocate(size, alignment, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)


class ModelNew(nn.Module):
    def forward(self, x):
        # rows of a descriptor begin at multiples of 16 bytes: odd widths go as one long row of four columns
        triton.set_allocator(allocate)
        y = torch.empty_like(x)
        cols = x.shape[-1] if x.shape[-1] % 4 == 0 else 0
        if not cols:
            flat[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), 1024)
            return y
        rows = x.numel() // cols
        kernel[(triton.cdiv(rows, 8), triton.cdiv(cols, 64))](x, y, rows, cols, BR=8, BC=64)
        return y


@triton.jit
def flat(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n), 0.0), mask=i < n)
