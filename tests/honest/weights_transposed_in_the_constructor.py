# task: wright/linear_bias
# expect: correct
# why: drawn in the reference's order under the same seed, then laid out anew in the constructor
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, w_ptr, b_ptr, y_ptr, m, n, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        ks = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + rows[:, None] * k + ks[None, :], mask=(rows[:, None] < m) & (ks[None, :] < k), other=0.0)
        w = tl.load(w_ptr + ks[:, None] * n + cols[None, :], mask=(cols[None, :] < n) & (ks[:, None] < k), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    acc += tl.load(b_ptr + cols, mask=cols < n, other=0.0)[None, :]
    tl.store(y_ptr + rows[:, None] * n + cols[None, :], acc, mask=(rows[:, None] < m) & (cols[None, :] < n))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        linear = nn.Linear(in_features, out_features)
        self.weight = nn.Parameter(linear.weight.detach().t().contiguous())
        self.bias = nn.Parameter(linear.bias.detach().clone())

    def forward(self, x):
        m, k = x.shape
        n = self.weight.shape[1]
        y = torch.empty(m, n, device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(m, 64), triton.cdiv(n, 64))](x, self.weight, self.bias, y, m, n, k, BLOCK=64)
        return y
