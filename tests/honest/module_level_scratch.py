# task: wright/loss_mse
# expect: correct
# why: a workspace in a module-level table, made on first use and kept for ever
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def partial_kernel(p_ptr, t_ptr, part_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(p_ptr + at, mask=at < n, other=0.0) - tl.load(t_ptr + at, mask=at < n, other=0.0)
    tl.store(part_ptr + pid, tl.sum(d * d, axis=0))


@triton.jit
def total_kernel(part_ptr, out_ptr, parts, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, parts, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(part_ptr + at, mask=at < parts, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0) / n)


SCRATCH = {}


def scratch(device, size):
    if device not in SCRATCH or SCRATCH[device].numel() < size:
        SCRATCH[device] = torch.empty(size, device=device, dtype=torch.float32)
    return SCRATCH[device]


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        n = prediction.numel()
        parts = triton.cdiv(n, 1024)
        part = scratch(prediction.device, parts)
        out = torch.empty((), device=prediction.device)
        partial_kernel[(parts,)](prediction, target, part, n, BLOCK=1024)
        total_kernel[(1,)](part, out, parts, n, BLOCK=256)
        return out
