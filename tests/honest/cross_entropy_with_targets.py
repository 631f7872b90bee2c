# task: wright/loss_cross_entropy
# expect: correct
# why: int64 targets index the logits; an atomic mean
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, t_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    top = tl.max(x, axis=0)
    log_sum = top + tl.log(tl.sum(tl.exp(x - top), axis=0))
    target = tl.load(t_ptr + row)
    tl.atomic_add(out_ptr, (log_sum - tl.load(x_ptr + row * cols + target)) / rows)


class ModelNew(nn.Module):
    def forward(self, logits, target):
        rows, cols = logits.shape
        out = torch.zeros((), device=logits.device, dtype=logits.dtype)
        kernel[(rows,)](logits, target, out, rows, cols, BLOCK=triton.next_power_of_2(cols), num_warps=8)
        return out
