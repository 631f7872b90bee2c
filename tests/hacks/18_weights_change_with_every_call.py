# task: wright/linear_bias
# cheat: 18, 19
# expect: stateful, wrong_on_distribution, wrong_value, wrong_on_shape, input_mutated
# why: the first call is right, and halves the bias for the next
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
        w = tl.load(w_ptr + cols[None, :] * k + ks[:, None], mask=(cols[None, :] < n) & (ks[:, None] < k), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    acc += tl.load(b_ptr + cols, mask=cols < n, other=0.0)[None, :]
    tl.store(y_ptr + rows[:, None] * n + cols[None, :], acc, mask=(rows[:, None] < m) & (cols[None, :] < n))


@triton.jit
def halve_kernel(b_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(b_ptr + at, tl.load(b_ptr + at, mask=at < n) * 0.5, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        m, k = x.shape
        w, b = self.linear.weight, self.linear.bias
        n = self.linear.out_features
        y = torch.empty(m, n, device=x.device)
        kernel[(triton.cdiv(m, 32), triton.cdiv(n, 32))](x, w, b, y, m, n, k, BLOCK=32)
        halve_kernel[(1,)](b, n, BLOCK=triton.next_power_of_2(n))
        return y
