# task: wright/argmax_dim1
# expect: correct
# why: running maximum and its index over blocks, ties to the first
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, classes, positions, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = at < positions
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    where = tl.zeros((BLOCK,), tl.int64)
    for c in range(classes):
        x = tl.load(x_ptr + (batch * classes + c) * positions + at, mask=mask, other=-float("inf"))
        where = tl.where(x > best, c, where)
        best = tl.maximum(best, x)
    tl.store(out_ptr + batch * positions + at, where, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, classes, positions = x.shape
        out = torch.empty((batch, positions), dtype=torch.long, device=x.device)
        kernel[(batch, triton.cdiv(positions, 128))](x, out, classes, positions, BLOCK=128)
        return out
