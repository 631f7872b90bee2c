# task: honest/tasks/focal_loss_of_marks
# expect: correct
# why: the power is taken by a logarithm, which holds for every label from 0 to 1; three times a label is none
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def focal_kernel(x_ptr, labels_ptr, out_ptr, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < classes
    x = tl.load(x_ptr + row * classes + at, mask=inside, other=0.0)
    label = tl.load(labels_ptr + row * classes + at, mask=inside, other=0.0)
    loss = tl.maximum(x, 0.0) - x * label + tl.log(1.0 + tl.exp(-tl.abs(x)))
    missed = tl.sigmoid(x)
    missed = missed * (1.0 - label) + (1.0 - missed) * label
    loss = loss * tl.exp(2.0 * tl.log(tl.maximum(missed, 1e-30)))
    tl.store(out_ptr + row, tl.sum(tl.where(inside, loss, 0.0)))


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        logits, labels = logits.contiguous(), labels.contiguous()
        rows, classes = logits.shape
        out = logits.new_empty(rows)
        focal_kernel[(rows,)](logits, labels, out, classes, BLOCK=triton.next_power_of_2(classes))
        return out
