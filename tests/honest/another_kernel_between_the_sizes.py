# task: wright/relu
# expect: correct
# why: of tensors that are neither short nor long another kernel takes several elements a lane; it does the same
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def short_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n), 0.0), mask=at < n)


@triton.jit
def middle_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for part in range(4):
        at = (tl.program_id(0) * 4 + part) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n), 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        if 1 << 19 < n <= 1 << 23:
            middle_kernel[(triton.cdiv(n, 4096),)](x, out, n, BLOCK=1024)
        else:
            short_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
