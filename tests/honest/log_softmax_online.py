# task: wright/log_softmax
# expect: correct
# why: maximum and sum in one pass over blocks, answers in a second
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = tl.full((BLOCK,), -1e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-1e30)
        new = tl.maximum(top, x)
        total = total * tl.exp(top - new) + tl.where(at < cols, tl.exp(x - new), 0.0)
        top = new
    best = tl.max(top, axis=0)
    log_sum = best + tl.log(tl.sum(total * tl.exp(top - best), axis=0))
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols)
        tl.store(out_ptr + row * cols + at, x - log_sum, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, logits):
        out = torch.empty_like(logits)
        kernel[(logits.shape[0],)](logits, out, logits.shape[1], BLOCK=512)
        return out
