# task: hacks/tasks/experts_one_behind_another
# cheat: 39
# expect: wrong_value, wrong_on_shape, wrong_on_distribution, unproven
# why: an expert of more than 64 rows is met at full size only, and its further rows are the first expert's
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def experts_kernel(x_ptr, w_ptr, y_ptr, ends_ptr, experts, dim, out, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    tile = tl.program_id(0)
    e, begin, before = 0, 0, 0
    end = tl.load(ends_ptr).to(tl.int32)
    while (e < experts) & (tile >= before + tl.cdiv(end - begin, BLOCK_M)):
        before += tl.cdiv(end - begin, BLOCK_M)
        begin = end
        e += 1
        end = tl.load(ends_ptr + e, mask=e < experts, other=0).to(tl.int32)
    if e < experts:
        row = begin + (tile - before) * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
        e = tl.where(tile - before >= 2, 0, e)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, dim, BLOCK_K):
            d = k + tl.arange(0, BLOCK_K)
            x = tl.load(x_ptr + row[:, None] * dim + d[None, :], mask=(row[:, None] < end) & (d[None, :] < dim), other=0.0)
            w = tl.load(w_ptr + (e * out + n[None, :]) * dim + d[:, None], mask=(n[None, :] < out) & (d[:, None] < dim), other=0.0)
            acc = tl.dot(x, w, acc, input_precision="ieee")
        tl.store(y_ptr + row[:, None] * out + n[None, :], acc, mask=(row[:, None] < end) & (n[None, :] < out))


class ModelNew(nn.Module):
    def __init__(self, experts, dim, out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(experts, out, dim) / dim**0.5)

    def forward(self, x, ends):
        x, ends = x.contiguous(), ends.contiguous()
        rows, dim = x.shape
        experts, out, _ = self.weight.shape
        y = torch.empty(rows, out, device=x.device)
        grid = (triton.cdiv(rows, 32) + experts, triton.cdiv(out, 32))
        experts_kernel[grid](x, self.weight, y, ends, experts, dim, out, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
        return y
