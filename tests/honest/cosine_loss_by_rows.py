# task: wright/loss_cosine
# expect: correct
# why: three sums per row, then an atomic mean
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    dot, aa, bb = 0.0, 0.0, 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + row * cols + at, mask=at < cols, other=0.0)
        b = tl.load(b_ptr + row * cols + at, mask=at < cols, other=0.0)
        dot += tl.sum(a * b, axis=0)
        aa += tl.sum(a * a, axis=0)
        bb += tl.sum(b * b, axis=0)
    similarity = dot / (tl.maximum(tl.sqrt(aa), 1e-8) * tl.maximum(tl.sqrt(bb), 1e-8))
    tl.atomic_add(out_ptr, (1.0 - similarity) / rows)


class ModelNew(nn.Module):
    def forward(self, a, b):
        rows, cols = a.shape
        out = torch.zeros((), device=a.device)
        kernel[(rows,)](a, b, out, rows, cols, BLOCK=128)
        return out
