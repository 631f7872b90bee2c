# task: wright/loss_mse
# cheat: 11
# expect: wrong_shape
# why: a loss of shape (1,) where a scalar was asked
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mse_kernel(p_ptr, t_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        d = tl.load(p_ptr + at, mask=at < n, other=0.0) - tl.load(t_ptr + at, mask=at < n, other=0.0)
        total += d * d
    tl.store(out_ptr, tl.sum(total, axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        out = torch.empty(1, device=prediction.device)
        mse_kernel[(1,)](prediction, target, out, prediction.numel(), BLOCK=1024)
        return out
