# task: wright/mean_middle
# expect: correct
# why: a docstring that says single pass, torch.mean and fallback; a comment with a @ b
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, s, d, BS: tl.constexpr, BD: tl.constexpr):
    """Single pass over x: what torch.mean(x, dim=1) computes. pass

    No fallback to torch; `x @ ones / n` would be a matmul. try: nothing, except: nothing.
    """
    # a @ b is not needed here; F.avg_pool1d neither
    b = tl.program_id(0)
    c = tl.program_id(1) * BD + tl.arange(0, BD)
    acc = tl.zeros((BS, BD), tl.float32)
    for start in range(0, s, BS):
        r = start + tl.arange(0, BS)
        acc += tl.load(x_ptr + (b * s + r[:, None]) * d + c[None, :], mask=(r[:, None] < s) & (c[None, :] < d), other=0.0)
    tl.store(out_ptr + b * d + c, tl.sum(acc, axis=0) / s, mask=c < d)


class ModelNew(nn.Module):
    """Replaces torch.mean by one Triton kernel (single pass)."""

    def forward(self, x):
        b, s, d = x.shape
        out = torch.empty((b, d), device=x.device, dtype=x.dtype)
        kernel[(b, triton.cdiv(d, 64))](x, out, s, d, BS=16, BD=64)
        return out
