# task: wright/linear_bias
# expect: correct
# why: a transposed copy of the weight, made again whenever the weight is written or lies elsewhere
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def transpose(w_ptr, t_ptr, n, k, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    c = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    mask = (r < n) & (c < k)
    tl.store(t_ptr + c * n + r, tl.load(w_ptr + r * k + c, mask=mask), mask=mask)


@triton.jit
def kernel(x_ptr, t_ptr, b_ptr, y_ptr, m, n, k, B: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0, k, BK):
        i = start + tl.arange(0, BK)
        x = tl.load(x_ptr + r[:, None] * k + i[None, :], mask=(r[:, None] < m) & (i[None, :] < k), other=0.0)
        w = tl.load(t_ptr + i[:, None] * n + c[None, :], mask=(i[:, None] < k) & (c[None, :] < n), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    acc += tl.load(b_ptr + c, mask=c < n, other=0.0)[None, :]
    tl.store(y_ptr + r[:, None] * n + c[None, :], acc, mask=(r[:, None] < m) & (c[None, :] < n))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self._made_of, self._turned = None, None

    def turned(self):
        w = self.linear.weight
        made_of = w.data_ptr(), w._version
        if self._made_of != made_of:
            n, k = w.shape
            self._turned = torch.empty((k, n), device=w.device, dtype=w.dtype)
            transpose[(triton.cdiv(n, 32), triton.cdiv(k, 32))](w, self._turned, n, k, B=32)
            self._made_of = made_of
        return self._turned

    def forward(self, x):
        t, b = self.turned(), self.linear.bias
        (m, k), n = x.shape, t.shape[1]
        y = torch.empty((m, n), device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(m, 64), triton.cdiv(n, 64))](x, t, b, y, m, n, k, B=64, BK=32)
        return y
