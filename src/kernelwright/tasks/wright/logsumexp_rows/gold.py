"""Row-wise log-sum-exp with the row's maximum taken out, so that exp cannot overflow."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({}, num_warps=w) for w in (2, 4, 8)],
    key=["n_cols"],
)
@triton.jit
def logsumexp_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    offsets = row.to(tl.int64) * n_cols + cols
    x = tl.load(x_ptr + offsets, mask=cols < n_cols, other=float("-inf"))
    peak = tl.max(x, axis=0)
    tl.store(out_ptr + row, peak + tl.log(tl.sum(tl.exp(x - peak), axis=0)))


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n_rows, n_cols = x.shape
        out = torch.empty((n_rows,), device=x.device, dtype=x.dtype)
        logsumexp_kernel[(n_rows,)](x, out, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return out
