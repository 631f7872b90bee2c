"""Row softmax. A whole row fits in one program's registers, so it is read once and written once."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    # -inf in the padding: it neither wins the maximum nor adds to the sum
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=float("-inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n_rows, n_cols = x.shape
        y = torch.empty_like(x)
        block = triton.next_power_of_2(n_cols)
        num_warps = 8 if block >= 2048 else 4
        softmax_kernel[(n_rows,)](x, y, n_cols, BLOCK=block, num_warps=num_warps)
        return y
