# task: wright/loss_cross_entropy
# gradients: yes
# precision: default
# expect: correct
# why: the gradient is made beside the loss, and scaled when it is asked for
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows_kernel(logits_ptr, target_ptr, losses_ptr, gradient_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    highest = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        highest = tl.maximum(highest, tl.load(logits_ptr + row * cols + at, mask=at < cols, other=-float("inf")))
    top = tl.max(highest, axis=0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.exp(tl.load(logits_ptr + row * cols + at, mask=at < cols, other=-float("inf")) - top)
    whole = tl.sum(total, axis=0)
    target = tl.load(target_ptr + row)
    tl.store(losses_ptr + row, top + tl.log(whole) - tl.load(logits_ptr + row * cols + target))
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        share = tl.exp(tl.load(logits_ptr + row * cols + at, mask=at < cols, other=0.0) - top) / whole
        share = tl.where(at == target, share - 1.0, share)
        tl.store(gradient_ptr + row * cols + at, share / rows, mask=at < cols)


@triton.jit
def mean_kernel(losses_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, rows, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(losses_ptr + at, mask=at < rows, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0) / rows)


@triton.jit
def scale_kernel(gradient_ptr, dy_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gradient = tl.load(gradient_ptr + at, mask=at < n)
    tl.store(gradient_ptr + at, gradient * tl.load(dy_ptr), mask=at < n)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target):
        rows, cols = logits.shape
        losses, gradient = torch.empty(rows, device=logits.device), torch.empty_like(logits)
        rows_kernel[(rows,)](logits, target, losses, gradient, rows, cols, BLOCK=512)
        out = torch.empty((), device=logits.device)
        mean_kernel[(1,)](losses, out, rows, BLOCK=256)
        ctx.save_for_backward(gradient)
        return out

    @staticmethod
    def backward(ctx, dy):
        (gradient,) = ctx.saved_tensors
        n = gradient.numel()
        scale_kernel[(triton.cdiv(n, 1024),)](gradient, dy, n, BLOCK=1024)
        return gradient, None


class ModelNew(nn.Module):
    def forward(self, logits, target):
        return CrossEntropy.apply(logits, target)
