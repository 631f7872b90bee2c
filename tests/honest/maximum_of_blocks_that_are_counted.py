# task: wright/max_rows
# expect: correct
# why: blocks are counted on the host
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def max_kernel(x_ptr, out_ptr, columns, blocks, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for block in range(blocks):
        at = block * BLOCK + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf")))
    tl.store(out_ptr + row, tl.max(best, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        max_kernel[(rows,)](x, out, columns, triton.cdiv(columns, 512), BLOCK=512)
        return out
