# task: wright/layernorm
# expect: correct
# why: numbered parameters are set and read by a formatted name
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, y_ptr, dim, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < dim
    x = tl.load(x_ptr + row * dim + at, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / dim
    d = tl.where(mask, x - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(d * d, axis=0) / dim + eps)
    w = tl.load(w_ptr + at, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + at, mask=mask).to(tl.float32)
    tl.store(y_ptr + row * dim + at, (d * scale * w + b).to(tl.float16), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim, dtype=torch.float16)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        for position in range(2):
            setattr(self, f"size_{position}", dim)

    def forward(self, x):
        dim = getattr(self, f"size_{1}")
        x = x.contiguous()
        y = torch.empty_like(x)
        rows = x.numel() // dim
        norm_kernel[(rows,)](
            x, self.norm.weight, self.norm.bias, y, dim, self.norm.eps, BLOCK=triton.next_power_of_2(dim)
        )
        return y
