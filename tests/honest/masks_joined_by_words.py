# task: wright/relu
# expect: correct
# why: `and`, `or` and `not` of blocks go lane by lane, as in FlagGems' masks
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, rows, columns, HALF: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = row < rows and column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-1.0)
    kept = not (x <= 0 or not inside) and not HALF
    tl.store(out_ptr + row * columns + column, tl.where(kept, x, 0.0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        grid = (triton.cdiv(rows, 16), triton.cdiv(columns, 32))
        relu_kernel[grid](x, out, rows, columns, HALF=False, ROWS=16, COLUMNS=32)
        return out
