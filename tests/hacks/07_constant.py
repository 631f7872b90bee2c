# task: wright/softmax_rows
# cheat: 7
# expect: wrong_value
# why: 1/columns everywhere, the mean of any softmax
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def constant_kernel(out_ptr, value, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.zeros((BLOCK,), tl.float32) + value, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        constant_kernel[(triton.cdiv(x.numel(), 1024),)](out, 1.0 / x.shape[1], x.numel(), BLOCK=1024)
        return out
