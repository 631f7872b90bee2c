"""Dw: 1 kernels."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


# 1: convolution (compiler)


@triton.jit
def convolution_kernel_1(
    x1_ptr,
    w1_ptr,
    b1_ptr,
    out_ptr,
    s3,
    s2,
    size,
    s1,
    n_rows,
    BLOCK_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    row_mask = rows < n_rows
    cols = tl.arange(0, BLOCK_N)[None, :]
    col_mask = cols < 9
    r5 = cols // 3
    r4 = cols % 3
    i2 = rows // size % s1
    w1 = tl.load(w1_ptr + (cols + 9 * i2), mask=col_mask & row_mask, other=0.0)
    b1 = tl.load(b1_ptr + i2, mask=row_mask)
    t = (-1 + r5 + rows // s3 % s2).to(tl.int32)
    t2 = (-1 + r4 + rows % s3).to(tl.int32)
    t3 = (t >= 0) & (t < s2) & (t2 >= 0) & (t2 < s3)
    x1 = tl.load(x1_ptr + (-1 + r4 + rows + -1 * s3 + s3 * r5), mask=col_mask & t3 & row_mask, other=0.0)
    t4 = tl.sum(tl.where(col_mask & row_mask, x1 * w1, 0), 1)[:, None] + b1
    tl.store(out_ptr + rows, t4, mask=row_mask)


def kernel_1(x1, w1, b1):
    s0, s1, s2, s3 = x1.shape
    x1 = x1.contiguous()
    out = torch.empty_like(x1)
    size = s3 * s2
    n = s3 * s2 * s0 * s1
    convolution_kernel_1[(triton.cdiv(n, 16),)](
        x1,
        w1,
        b1,
        out,
        s3,
        s2,
        size,
        s1,
        n,
        BLOCK_N=16,
        BLOCK_M=16,
        num_warps=4,
    )
    return out


def run(x1, w1, b1):
    s0 = x1.shape[0]
    s1 = x1.shape[1]
    s2 = x1.shape[2]
    s3 = x1.shape[3]
    h1 = kernel_1(x1, w1, b1)
    return (h1,)


STATE = (
    ("c.weight", (12, 1, 3, 3), torch.float32, True),
    ("c.bias", (12,), torch.float32, True),
)


class ModelNew(nn.Module):
    def __init__(self, *arguments):
        super().__init__()
        for name, shape, dtype, learnable in STATE:
            *path, leaf = name.split(".")
            home = self
            for part in path:
                if part not in home._modules:
                    home.add_module(part, nn.Module())
                home = home._modules[part]
            value = torch.zeros(shape, dtype=dtype)
            if learnable:
                home.register_parameter(leaf, nn.Parameter(value, requires_grad=dtype.is_floating_point))
            else:
                home.register_buffer(leaf, value)

    def forward(self, x1):
        (y0,) = run(x1, self.get_parameter("c.weight"), self.get_parameter("c.bias"))
        return y0
