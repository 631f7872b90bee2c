# task: wright/softplus
# precision: tf32
# cheat: 13
# expect: low_precision, wrong_value
# why: TF32 is for products; what has none keeps its digits
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softplus_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float16).to(tl.float32)
    tl.store(out_ptr + at, tl.where(x > 20.0, x, tl.log(1.0 + tl.exp(x))), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softplus_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
