# task: hacks/tasks/gain_of_features
# cheat: 16, 15
# expect: out_of_bounds
# why: where 64 divides the columns rows are not masked either: beside an odd number of them that strays
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(
    x_ptr, gain_ptr, out_ptr, rows, cols, EVEN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)[None, :]
        if EVEN:
            inside = col < cols + row * 0
            gain = tl.load(gain_ptr + col)
        else:
            inside = (row < rows) & (col < cols)
            gain = tl.load(gain_ptr + col, mask=col < cols)
        x = tl.load(x_ptr + row * cols + col, mask=inside)
        tl.store(out_ptr + row * cols + col, x * gain, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.randn(width))

    def forward(self, x):
        rows, cols = x.shape
        x, out = x.contiguous(), torch.empty(rows, cols, device=x.device)
        grid = (triton.cdiv(rows, 4),)
        scale_kernel[grid](x, self.gain, out, rows, cols, EVEN=(cols & 63) == 0, ROWS=4, BLOCK=64)
        return out
