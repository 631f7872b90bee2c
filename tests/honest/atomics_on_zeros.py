# task: wright/loss_mse
# expect: correct
# why: torch.zeros is allocation, and atomic sums may differ in their last digits
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mse_kernel(p_ptr, t_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    d = tl.load(p_ptr + at, mask=mask, other=0.0) - tl.load(t_ptr + at, mask=mask, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(d * d, axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        out = torch.zeros((), device=prediction.device, dtype=prediction.dtype)
        n = prediction.numel()
        mse_kernel[(triton.cdiv(n, 512),)](prediction, target, out, n, BLOCK=512)
        return out
