# task: wright/linear_bias
# expect: correct
# why: self.modules(), named_parameters() and train()/eval() are every module's own methods
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


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.requires_grad_(False)
        self.eval()

    def forward(self, x):
        weights = dict(self.named_parameters())
        w, b = weights["linear.weight"], weights["linear.bias"]
        m, k = x.shape
        n = w.shape[0]
        y = torch.empty(m, n, device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(m, 64), triton.cdiv(n, 64))](x, w, b, y, m, n, k, BLOCK=64)
        return y
