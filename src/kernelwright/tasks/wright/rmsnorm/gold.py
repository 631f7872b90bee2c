"""RMSNorm: a tile of whole rows per program, so that short rows still fill the machine."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(
    x_ptr, weight_ptr, y_ptr, n_rows, n_cols, eps, ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr
):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK_COLS)
    col_ok = cols < n_cols
    tile_ok = (rows < n_rows)[:, None] & col_ok[None, :]
    tile = rows[:, None] * n_cols + cols[None, :]

    x = tl.load(x_ptr + tile, mask=tile_ok, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=col_ok, other=0.0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=1) / n_cols
    rstd = tl.rsqrt(mean_square + eps)
    y = x * rstd[:, None] * weight[None, :]
    tl.store(y_ptr + tile, y.to(y_ptr.dtype.element_ty), mask=tile_ok)


class ModelNew(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n_rows, n_cols = x.shape
        y = torch.empty_like(x)
        block_cols = triton.next_power_of_2(n_cols)
        # about 4096 elements a program
        rows = max(1, min(4, 4096 // block_cols))
        grid = (triton.cdiv(n_rows, rows),)
        rmsnorm_kernel[grid](
            x, self.weight, y, n_rows, n_cols, self.eps, ROWS=rows, BLOCK_COLS=block_cols, num_warps=4
        )
        return y
