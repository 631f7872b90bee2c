# task: wright/loss_kl_div
# expect: correct
# why: a sum per row, then one program adds the rows
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(s_ptr, t_ptr, part_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    s = tl.load(s_ptr + row * cols + at, mask=mask, other=-float("inf"))
    t = tl.load(t_ptr + row * cols + at, mask=mask, other=-float("inf"))
    log_q = s - tl.max(s, axis=0)
    log_q = log_q - tl.log(tl.sum(tl.exp(log_q), axis=0))
    log_p = t - tl.max(t, axis=0)
    log_p = log_p - tl.log(tl.sum(tl.exp(log_p), axis=0))
    terms = tl.where(mask, tl.exp(log_p) * (log_p - tl.where(mask, log_q, 0.0)), 0.0)
    tl.store(part_ptr + row, tl.sum(terms, axis=0))


@triton.jit
def add_kernel(part_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, rows, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(part_ptr + at, mask=at < rows, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0) / rows)


class ModelNew(nn.Module):
    def forward(self, student, teacher):
        rows, cols = student.shape
        parts = torch.empty(rows, device=student.device)
        out = torch.empty((), device=student.device)
        row_kernel[(rows,)](student, teacher, parts, cols, BLOCK=triton.next_power_of_2(cols), num_warps=8)
        add_kernel[(1,)](parts, out, rows, BLOCK=256)
        return out
