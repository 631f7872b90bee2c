"""Smooth L1 loss: each program reduces one strip and adds its share of the mean with an atomic."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def smooth_l1_kernel(prediction, target, out, numel, beta, scale, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * (BLOCK * STEPS)
    lanes = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for step in range(STEPS):
        offs = first + step * BLOCK + lanes
        mask = offs < numel
        p = tl.load(prediction + offs, mask=mask, other=0.0)
        t = tl.load(target + offs, mask=mask, other=0.0)
        d = tl.abs(p - t)  # zero in the padding, and the loss of zero is zero
        acc += tl.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)
    tl.atomic_add(out, tl.sum(acc, axis=0) * scale)


class ModelNew(nn.Module):
    def __init__(self, beta: float):
        super().__init__()
        self.beta = beta

    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        numel = prediction.numel()
        out = torch.zeros((), device=prediction.device, dtype=torch.float32)
        BLOCK, STEPS = 1024, 8
        grid = (triton.cdiv(numel, BLOCK * STEPS),)
        smooth_l1_kernel[grid](
            prediction, target, out, numel, self.beta, 1.0 / numel, BLOCK=BLOCK, STEPS=STEPS
        )
        return out
