# task: wright/loss_mse
# expect: correct
# why: every program writes the same constant to one place: harmless on any GPU
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mse_kernel(p_ptr, t_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(p_ptr + at, mask=at < n, other=0.0) - tl.load(t_ptr + at, mask=at < n, other=0.0)
    tl.store(count_ptr, n)
    tl.atomic_add(out_ptr, tl.sum(d * d, axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        out = torch.zeros((), device=prediction.device)
        count = torch.empty(1, device=prediction.device, dtype=torch.int32)
        n = prediction.numel()
        mse_kernel[(triton.cdiv(n, 512),)](prediction, target, out, count, n, BLOCK=512)
        return out
