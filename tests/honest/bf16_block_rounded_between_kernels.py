# task: honest/tasks/linear_gelu_norm
# precision: bf16
# expect: correct
# why: an intermediate result in bfloat16, where torch has two
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_gelu_kernel(x_ptr, w_ptr, b_ptr, y_ptr, m, n, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        ks = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + rows[:, None] * k + ks[None, :], mask=(rows[:, None] < m) & (ks[None, :] < k), other=0.0)
        w = tl.load(w_ptr + cols[None, :] * k + ks[:, None], mask=(cols[None, :] < n) & (ks[:, None] < k), other=0.0)
        acc = tl.dot(x, w, acc)
    acc += tl.load(b_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)[None, :]
    acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    tl.store(y_ptr + rows[:, None] * n + cols[None, :], acc.to(tl.bfloat16), mask=(rows[:, None] < m) & (cols[None, :] < n))


@triton.jit
def norm_kernel(y_ptr, w_ptr, b_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    y = tl.load(y_ptr + row * n + cols, mask=mask, other=0.0).to(tl.float32)
    centred = tl.where(mask, y - tl.sum(y, axis=0) / n, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + eps)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * n + cols, (centred * scale * w + b).to(tl.bfloat16), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        m, k = x.shape
        n = self.linear.weight.shape[0]
        y, out = torch.empty(m, n, device=x.device, dtype=x.dtype), torch.empty(m, n, device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
        linear_gelu_kernel[grid](x, self.linear.weight, self.linear.bias, y, m, n, k, BLOCK=32)
        block = triton.next_power_of_2(n)
        norm_kernel[(m,)](y, self.norm.weight, self.norm.bias, out, n, self.norm.eps, BLOCK=block)
        return out
