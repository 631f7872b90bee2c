# task: wright/softmax_rows
# cheat: 39, 15
# expect: wrong_on_shape
# why: one block is enough at small sizes; at the priced one sums of earlier blocks are not rescaled
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
        top = tl.maximum(top, tl.max(x, axis=0))
        total += tl.sum(tl.exp(x - top), axis=0)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
        tl.store(out_ptr + row * cols + at, tl.exp(x - top) / total, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=1024)
        return out
