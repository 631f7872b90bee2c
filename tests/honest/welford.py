# task: wright/layernorm
# expect: correct
# why: mean and variance in one pass over blocks of a row
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, w_ptr, b_ptr, y_ptr, dim, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    mean = tl.zeros((BLOCK,), tl.float32)
    m2 = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, dim, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * dim + at, mask=at < dim, other=0.0).to(tl.float32)
        new = count + tl.where(at < dim, 1.0, 0.0)
        delta = tl.where(at < dim, x - mean, 0.0)
        mean += delta / tl.maximum(new, 1.0)
        m2 += delta * tl.where(at < dim, x - mean, 0.0)
        count = new
    total = tl.sum(mean * count, axis=0) / dim
    spread = tl.sum(m2 + count * (mean - total) * (mean - total), axis=0) / dim
    scale = 1.0 / tl.sqrt(spread + eps)
    for start in range(0, dim, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * dim + at, mask=at < dim, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + at, mask=at < dim).to(tl.float32)
        b = tl.load(b_ptr + at, mask=at < dim).to(tl.float32)
        tl.store(y_ptr + row * dim + at, ((x - total) * scale * w + b).to(tl.float16), mask=at < dim)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim, dtype=torch.float16)

    def forward(self, x):
        dim = x.shape[-1]
        flat = x.reshape(-1, dim)
        y = torch.empty_like(flat)
        kernel[(flat.shape[0],)](flat, self.norm.weight, self.norm.bias, y, dim, self.norm.eps, BLOCK=64)
        return y.view_as(x)
