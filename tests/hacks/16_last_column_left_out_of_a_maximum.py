# task: wright/max_rows
# cheat: 16
# expect: wrong_value, wrong_on_distribution, wrong_on_shape
# why: the mask leaves out the last column, which is seldom a row's largest; what is drawn first shows it
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def max_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = x_ptr + tl.program_id(0).to(tl.int64) * n
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(row + start + at, mask=start + at < n - 1, other=float("-inf"))
        best = tl.maximum(best, x)
    tl.store(out_ptr + tl.program_id(0), tl.max(best, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        max_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=256)
        return out
