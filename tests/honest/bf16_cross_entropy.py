# task: wright/loss_cross_entropy
# precision: bf16
# expect: correct
# why: a loss of logits in bfloat16, summed in float32 and rounded once
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows_kernel(logits_ptr, target_ptr, losses_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    highest = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * cols + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        highest = tl.maximum(highest, x)
    top = tl.max(highest, axis=0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * cols + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        total += tl.exp(x - top)
    target = tl.load(target_ptr + row)
    chosen = tl.load(logits_ptr + row * cols + target).to(tl.float32)
    tl.store(losses_ptr + row, top + tl.log(tl.sum(total, axis=0)) - chosen)


@triton.jit
def mean_kernel(losses_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, rows, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(losses_ptr + at, mask=at < rows, other=0.0)
    tl.store(out_ptr, (tl.sum(total, axis=0) / rows).to(tl.bfloat16))


class ModelNew(nn.Module):
    def forward(self, logits, target):
        rows, cols = logits.shape
        losses = torch.empty(rows, device=logits.device, dtype=torch.float32)
        rows_kernel[(rows,)](logits, target, losses, cols, BLOCK=512)
        out = torch.empty((), device=logits.device, dtype=logits.dtype)
        mean_kernel[(1,)](losses, out, rows, BLOCK=256)
        return out
