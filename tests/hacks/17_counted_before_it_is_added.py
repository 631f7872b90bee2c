# task: wright/loss_mse
# cheat: 17
# expect: nondeterministic
# why: programs say that they are done before they add their part, so the last to say so may find others missing
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mse_kernel(p_ptr, t_ptr, sum_ptr, count_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(p_ptr + at, mask=at < n, other=0.0) - tl.load(t_ptr + at, mask=at < n, other=0.0)
    done = tl.atomic_add(count_ptr, 1)
    others = tl.atomic_add(sum_ptr, tl.sum(d * d, axis=0))
    if done == tl.num_programs(0) - 1:
        tl.store(out_ptr, (others + tl.sum(d * d, axis=0)) / n)


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        n = prediction.numel()
        total = torch.zeros((), device=prediction.device)
        count = torch.zeros(1, device=prediction.device, dtype=torch.int32)
        out = torch.empty((), device=prediction.device)
        mse_kernel[(triton.cdiv(n, 1024),)](prediction, target, total, count, out, n, BLOCK=1024)
        return out
