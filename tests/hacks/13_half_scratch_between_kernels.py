# task: wright/softmax_rows
# cheat: 13
# precision: default
# expect: low_precision, wrong_value
# why: the exponentials pass through a float16 workspace
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def exp_kernel(x_ptr, e_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    tl.store(e_ptr + row * cols + at, tl.exp(x - tl.max(x, axis=0)).to(tl.float16), mask=at < cols)


@triton.jit
def scale_kernel(e_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    e = tl.load(e_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        e = torch.empty_like(x, dtype=torch.float16)
        out = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        exp_kernel[(x.shape[0],)](x, e, x.shape[1], BLOCK=block)
        scale_kernel[(x.shape[0],)](e, out, x.shape[1], BLOCK=block)
        return out
