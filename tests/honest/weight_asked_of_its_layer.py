# task: wright/linear_bias
# expect: correct
# why: weights are asked of the layer by the names that its list has, if they are still there
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, w_ptr, b_ptr, y_ptr, m, n, k, B: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0, k, BK):
        i = start + tl.arange(0, BK)
        x = tl.load(x_ptr + r[:, None] * k + i[None, :], mask=(r[:, None] < m) & (i[None, :] < k), other=0.0)
        w = tl.load(w_ptr + c[None, :] * k + i[:, None], mask=(i[:, None] < k) & (c[None, :] < n), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    acc += tl.load(b_ptr + c, mask=c < n, other=0.0)[None, :]
    tl.store(y_ptr + r[:, None] * n + c[None, :], acc, mask=(r[:, None] < m) & (c[None, :] < n))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        w, b = (getattr(self.linear, name) for name in ("weight", "bias"))
        (m, k), n = x.shape, w.shape[0]
        y = torch.empty((m, n), device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(m, 64), triton.cdiv(n, 64))](x, w, b, y, m, n, k, B=64, BK=32)
        return y
