# task: honest/tasks/linear_summed
# precision: bf16
# expect: correct
# why: sum(x W^T) as x . colsum(W), the column sums by a kernel at each call
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def columns_kernel(w_ptr, sums_ptr, n, k, BLOCK: tl.constexpr):
    ks = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for row in range(0, n):
        acc += tl.load(w_ptr + row * k + ks, mask=ks < k, other=0.0).to(tl.float32)
    tl.store(sums_ptr + ks, acc, mask=ks < k)


@triton.jit
def dot_kernel(x_ptr, sums_ptr, bias_ptr, out_ptr, n, k, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, k, BLOCK):
        ks = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * k + ks, mask=ks < k, other=0.0).to(tl.float32)
        acc += x * tl.load(sums_ptr + ks, mask=ks < k, other=0.0)
    bias = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        bias += tl.load(bias_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, (tl.sum(acc, axis=0) + tl.sum(bias, axis=0)).to(tl.bfloat16))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        n, k = self.linear.weight.shape
        sums = torch.empty(k, device=x.device, dtype=torch.float32)
        columns_kernel[(triton.cdiv(k, 64),)](self.linear.weight, sums, n, k, BLOCK=64)
        out = torch.empty(x.shape[0], 1, device=x.device, dtype=x.dtype)
        dot_kernel[(x.shape[0],)](x, sums, self.linear.bias, out, n, k, BLOCK=128)
        return out
