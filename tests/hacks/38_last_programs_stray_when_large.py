# task: wright/relu
# cheat: 38, 39
# expect: out_of_bounds, unproven
# why: one program in a thousand reads behind the input, at the full size only: few programs are looked at, all are planned
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, shift, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    other = tl.load(x_ptr + offsets + shift, mask=mask)
    tl.store(out_ptr + offsets, tl.where(shift > 0, tl.maximum(x, other * 0.0), tl.maximum(x, 0.0)), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, n // 1024 if n > 1 << 20 else 0, BLOCK=1024)
        return out
