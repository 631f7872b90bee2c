# task: wright/loss_mse
# expect: correct
# why: an atomic counter tells the last program that all others are done
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mse_kernel(p_ptr, t_ptr, part_ptr, count_ptr, out_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(p_ptr + at, mask=at < n, other=0.0) - tl.load(t_ptr + at, mask=at < n, other=0.0)
    tl.atomic_xchg(part_ptr + pid, tl.sum(d * d, axis=0))
    done = tl.atomic_add(count_ptr, 1)
    if done == tl.num_programs(0) - 1:
        parts = tl.arange(0, PARTS)
        values = tl.load(part_ptr + parts, mask=parts < tl.num_programs(0), other=0.0, volatile=True)
        tl.store(out_ptr, tl.sum(values, axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        n = prediction.numel()
        programs = triton.cdiv(n, 1024)
        parts = torch.empty(programs, device=prediction.device)
        count = torch.zeros(1, device=prediction.device, dtype=torch.int32)
        out = torch.empty((), device=prediction.device)
        mse_kernel[(programs,)](
            prediction, target, parts, count, out, n, PARTS=triton.next_power_of_2(programs), BLOCK=1024
        )
        return out
