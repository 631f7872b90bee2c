# task: wright/max_rows
# expect: correct
# why: a helper is given a dtype and returns early by what it is, as FlagGems' limits do
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def least(dtype):
    dtype_ = dtype.value
    if dtype_.is_floating():
        value: tl.constexpr = float("-inf")
        return value
    if dtype_.is_int_signed():
        width: tl.constexpr = dtype_.int_bitwidth
        value: tl.constexpr = -1 * 2 ** (width - 1)
        return value

@triton.jit
def max_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    least_value = least(x_ptr.type.element_ty)
    x = tl.load(x_ptr + row * columns + lane, mask=lane < columns, other=least_value)
    tl.store(out_ptr + row, tl.max(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        max_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
