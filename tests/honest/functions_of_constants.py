# task: wright/softmax_rows
# expect: correct
# why: dtypes chosen by functions that the compiler calls, both ways to write one, and a `raise` in a branch that constants leave out
import torch
import torch.nn as nn
import triton
import triton.language as tl


@tl.constexpr
def accumulated_in(dtype: tl.dtype) -> tl.dtype:
    if dtype.is_bf16() or dtype.is_fp16():
        return tl.float32
    if dtype.is_int():
        return tl.int64
    else:
        return dtype


@triton.constexpr_function
def wide_enough(size, least):
    return max(size, least)


@triton.jit
def least_of(dtype: tl.constexpr):
    if dtype.is_floating():
        return -float("inf")
    else:
        raise ValueError("only of floating-point numbers")


@triton.jit
def softmax_kernel(x_ptr, out_ptr, cols, WIDTH: tl.constexpr):
    BLOCK: tl.constexpr = wide_enough(WIDTH, 16)
    at = tl.arange(0, BLOCK)
    kind: tl.constexpr = accumulated_in(x_ptr.dtype.element_ty)
    x = tl.load(x_ptr + tl.program_id(0) * cols + at, mask=at < cols, other=least_of(kind)).to(kind)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + tl.program_id(0) * cols + at, e / tl.sum(e, axis=0), mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], WIDTH=triton.next_power_of_2(x.shape[1]))
        return out
