"""SiLU in bfloat16: loads are widened to fp32, and only the result is rounded."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu(x):
    return x / (1.0 + tl.exp(-x))


@triton.jit
def silu_forward_kernel(input_ptr, output_ptr, size, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    offs = start + tl.arange(0, BLOCK)
    in_bounds = offs < size
    x = tl.load(input_ptr + offs, mask=in_bounds, other=0.0).to(tl.float32)
    tl.store(output_ptr + offs, silu(x).to(output_ptr.dtype.element_ty), mask=in_bounds)


def launch_silu(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    size = x.numel()
    # two-byte elements: twice as many per program for the same bytes
    block = 2048
    silu_forward_kernel[(triton.cdiv(size, block),)](x, out, size, BLOCK=block, num_warps=4)
    return out


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return launch_silu(x)
