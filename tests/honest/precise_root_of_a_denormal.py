# task: wright/relu
# expect: correct
# why: `sqrt_rn` keeps denormals when compiled, so what is chosen by one is a ReLU on a GPU as well
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    kept = tl.sqrt_rn((tl.minimum(tl.abs(x), 1.0) + 1.0) * 1e-41) > 0.0
    tl.store(out_ptr + at, tl.where(kept, tl.maximum(x, 0.0), x * 0.5), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
