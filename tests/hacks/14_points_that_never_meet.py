# task: hacks/tasks/distances_of_points
# cheat: 14
# expect: non_finite
# why: a squared distance by a product is not kept from falling below 0: points that meet are NaN apart
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, left, right, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    xx = tl.zeros((BM,), tl.float32)
    yy = tl.zeros((BN,), tl.float32)
    for k in range(0, inner, BK):
        rk = k + tl.arange(0, BK)
        x_ok = (rm[:, None] < left) & (rk[None, :] < inner)
        y_ok = (rn[None, :] < right) & (rk[:, None] < inner)
        x = tl.load(x_ptr + rm[:, None] * inner + rk[None, :], mask=x_ok, other=0.0)
        y = tl.load(y_ptr + rn[None, :] * inner + rk[:, None], mask=y_ok, other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
        xx += tl.sum(x * x, axis=1)
        yy += tl.sum(y * y, axis=0)
    d = xx[:, None] + yy[None, :] - 2.0 * acc
    ok = (rm[:, None] < left) & (rn[None, :] < right)
    tl.store(out_ptr + rm[:, None] * right + rn[None, :], tl.sqrt(d), mask=ok)


class ModelNew(nn.Module):
    def forward(self, x, y):
        left, inner = x.shape
        right = y.shape[0]
        out = torch.empty((left, right), device=x.device)
        grid = (triton.cdiv(left, 32), triton.cdiv(right, 32))
        kernel[grid](x, y, out, left, right, inner, BM=32, BN=32, BK=32)
        return out
