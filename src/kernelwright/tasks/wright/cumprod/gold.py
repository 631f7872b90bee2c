"""Cumulative product: rows are short, so a program scans a tile of many rows at once."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumprod_kernel(x_ptr, y_ptr, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, COLS)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    offsets = rows.to(tl.int64) * n_cols + cols
    x = tl.load(x_ptr + offsets, mask=mask, other=1.0)
    tl.store(y_ptr + offsets, tl.cumprod(x, axis=1), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n_rows, n_cols = x.shape
        y = torch.empty_like(x)
        cols = triton.next_power_of_2(n_cols)
        rows = max(1, 1024 // cols)
        cumprod_kernel[(triton.cdiv(n_rows, rows),)](x, y, n_rows, n_cols, ROWS=rows, COLS=cols)
        return y
