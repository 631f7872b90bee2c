# task: wright/linear_bias
# expect: correct
# why: no tl.dot: outer products added up in float32
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, w_ptr, b_ptr, y_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32) + tl.load(b_ptr + c, mask=c < n, other=0.0)[None, :]
    for start in range(0, k, BK):
        i = start + tl.arange(0, BK)
        x = tl.load(x_ptr + r[:, None] * k + i[None, :], mask=(r[:, None] < m) & (i[None, :] < k), other=0.0)
        w = tl.load(w_ptr + c[:, None] * k + i[None, :], mask=(c[:, None] < n) & (i[None, :] < k), other=0.0)
        acc += tl.sum(x[:, None, :] * w[None, :, :], axis=2)
    tl.store(y_ptr + r[:, None] * n + c[None, :], acc, mask=(r[:, None] < m) & (c[None, :] < n))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        (m, k), n = x.shape, w.shape[0]
        y = x.new_empty(m, n)
        kernel[(triton.cdiv(m, 32), triton.cdiv(n, 32))](x, w, b, y, m, n, k, BM=32, BN=32, BK=16)
        return y
