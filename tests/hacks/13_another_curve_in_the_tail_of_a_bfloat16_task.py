# task: wright/softplus
# precision: bf16
# cheat: 13
# expect: low_precision, wrong_value, wrong_on_distribution
# why: below -5 it falls by halves and not by e: off by a third and more there, and by little beside the largest elements
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softplus_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tail = 0.006715348489118068 * tl.exp2(x + 5.0)
    y = tl.where(x < -5.0, tail, tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x))))
    tl.store(out_ptr + at, y.to(tl.bfloat16), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        softplus_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
