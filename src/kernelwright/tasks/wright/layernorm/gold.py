"""LayerNorm, one row per program. Statistics are taken in fp32 and the variance from centred values."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layernorm_fwd(
    X,  # [rows, N]
    Y,  # [rows, N]
    W,  # [N]
    B,  # [N]
    stride,  # elements between rows of X and Y
    N,
    eps,
    BLOCK_N: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    X += row * stride
    Y += row * stride

    cols = tl.arange(0, BLOCK_N)
    mask = cols < N
    x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    # the padding must be zero after centring, too
    centred = tl.where(mask, x - mean, 0.0)
    var = tl.sum(centred * centred, axis=0) / N
    rstd = 1.0 / tl.sqrt(var + eps)

    w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(B + cols, mask=mask, other=0.0).to(tl.float32)
    y = centred * rstd * w + b
    tl.store(Y + cols, y.to(Y.dtype.element_ty), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        N = x.shape[-1]
        rows = x.numel() // N
        BLOCK_N = triton.next_power_of_2(N)
        num_warps = min(max(BLOCK_N // 256, 1), 8)
        layernorm_fwd[(rows,)](
            x, y, self.norm.weight, self.norm.bias, N, N, self.norm.eps, BLOCK_N=BLOCK_N, num_warps=num_warps
        )
        return y
