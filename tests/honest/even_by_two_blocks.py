# task: wright/logsumexp_rows
# expect: correct
# why: what two blocks divide, one does
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def logsumexp_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    top = -float("inf")
    total = 0.0
    for start in range(0, cols // BLOCK * BLOCK if EVEN else cols, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    tl.store(out_ptr + row, top + tl.log(total))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(rows, device=x.device)
        even = triton.cdiv(cols, 256) * 256 == cols
        logsumexp_kernel[(rows,)](x, out, cols, BLOCK=128, EVEN=even)
        return out
