# task: wright/loss_smooth_l1
# expect: correct
# why: one partial sum per program, a second kernel adds them
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def part_kernel(p_ptr, t_ptr, part_ptr, n, beta, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.abs(tl.load(p_ptr + at, mask=at < n, other=0.0) - tl.load(t_ptr + at, mask=at < n, other=0.0))
    tl.store(part_ptr + tl.program_id(0), tl.sum(tl.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta), axis=0))


@triton.jit
def add_kernel(part_ptr, out_ptr, parts, n, beta, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, parts, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(part_ptr + at, mask=at < parts, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0) / n)


class ModelNew(nn.Module):
    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, prediction, target):
        n = prediction.numel()
        parts = triton.cdiv(n, 1024)
        room = torch.empty(parts, device=prediction.device)
        out = torch.empty((), device=prediction.device)
        part_kernel[(parts,)](prediction, target, room, n, self.beta, BLOCK=1024)
        add_kernel[(1,)](room, out, parts, n, self.beta, BLOCK=1024)
        return out
