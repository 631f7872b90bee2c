"""Distillation KL, fused: both softmaxes, the divergence and the batch mean in one kernel.

Neither probability matrix ever reaches memory: two reads per row and one atomic add.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kl_kernel(student_ptr, teacher_ptr, loss_ptr, batch, classes, BLOCK: tl.constexpr):
    row_start = tl.program_id(0).to(tl.int64) * classes
    cols = tl.arange(0, BLOCK)
    mask = cols < classes
    q = tl.load(student_ptr + row_start + cols, mask=mask, other=float("-inf"))
    p = tl.load(teacher_ptr + row_start + cols, mask=mask, other=float("-inf"))

    q -= tl.max(q, axis=0)
    p -= tl.max(p, axis=0)
    exp_p = tl.exp(p)
    sum_q = tl.sum(tl.exp(q), axis=0)
    sum_p = tl.sum(exp_p, axis=0)
    # log p - log q with one logarithm: close distributions would cancel in the difference of two
    log_ratio = (p - q) - tl.log(sum_p / sum_q)
    # the padding is -inf - -inf: select zero, do not multiply by it
    terms = tl.where(mask, exp_p * log_ratio, 0.0) / sum_p
    tl.atomic_add(loss_ptr, tl.sum(terms, axis=0) / batch)


class ModelNew(nn.Module):
    def forward(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        batch, classes = student.shape
        loss = torch.zeros((), device=student.device, dtype=student.dtype)
        kl_kernel[(batch,)](
            student, teacher, loss, batch, classes, BLOCK=triton.next_power_of_2(classes), num_warps=8
        )
        return loss
