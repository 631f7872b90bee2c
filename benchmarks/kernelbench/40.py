"""Layer norm over millions of elements: partial moments, then their merge and the normalisation."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def moments_kernel(x_ptr, mean_ptr, m2_ptr, n, parts, BLOCK: tl.constexpr):
    row, part = tl.program_id(1).to(tl.int64), tl.program_id(0)
    at = part * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + row * n + at, mask=mask, other=0.0)
    count = tl.minimum(n - part * BLOCK, BLOCK)
    mean = tl.sum(x, axis=0) / count
    d = tl.where(mask, x - mean, 0.0)
    tl.store(mean_ptr + row * parts + part, mean)
    tl.store(m2_ptr + row * parts + part, tl.sum(d * d, axis=0))


@triton.jit
def normalize_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, m2_ptr, n, parts, eps,
    BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    row, part = tl.program_id(1).to(tl.int64), tl.program_id(0)
    every = tl.arange(0, PARTS)
    known = every < parts
    means = tl.load(mean_ptr + row * parts + every, mask=known, other=0.0)
    m2 = tl.load(m2_ptr + row * parts + every, mask=known, other=0.0)
    counts = tl.where(known, tl.minimum(n - every * BLOCK, BLOCK), 0).to(tl.float32)
    mean = tl.sum(means * counts, axis=0) / n
    d = tl.where(known, means - mean, 0.0)
    variance = (tl.sum(m2, axis=0) + tl.sum(d * d * counts, axis=0)) / n
    at = part * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + row * n + at, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + at, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + at, mask=mask, other=0.0)
    tl.store(y_ptr + row * n + at, (x - mean) * tl.rsqrt(variance + eps) * weight + bias, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x):
        x = x.contiguous()
        n = self.ln.weight.numel()
        rows = x.numel() // n
        block = 4096
        parts = triton.cdiv(n, block)
        mean = torch.empty((rows, parts), device=x.device, dtype=torch.float32)
        m2 = torch.empty_like(mean)
        y = torch.empty_like(x)
        moments_kernel[(parts, rows)](x, mean, m2, n, parts, BLOCK=block, num_warps=8)
        normalize_kernel[(parts, rows)](
            x, self.ln.weight, self.ln.bias, y, mean, m2, n, parts, self.ln.eps,
            BLOCK=block, PARTS=triton.next_power_of_2(parts), num_warps=8,
        )  # fmt: skip
        return y
