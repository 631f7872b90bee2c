# task: wright/loss_mse
# cheat: 17
# expect: nondeterministic, low_precision
# why: the last program divides a sum that others may still be adding to
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mse_kernel(p_ptr, t_ptr, sum_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(p_ptr + at, mask=at < n, other=0.0) - tl.load(t_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(sum_ptr, tl.sum(d * d, axis=0))
    if pid == tl.num_programs(0) - 1:
        tl.store(out_ptr, tl.load(sum_ptr) / n)


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        n = prediction.numel()
        total = torch.zeros((), device=prediction.device)
        out = torch.empty((), device=prediction.device)
        mse_kernel[(triton.cdiv(n, 1024),)](prediction, target, total, out, n, BLOCK=1024)
        return out
