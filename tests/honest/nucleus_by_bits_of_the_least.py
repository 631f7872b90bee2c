# task: hacks/tasks/nucleus_of_each_row
# expect: correct
# why: the least probability is found bit by bit, however many lie above it
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _nucleus(X, Y, V, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    x = tl.load(X + r * V + i, mask=i < V, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    p = e / tl.sum(e, 0)
    low = 0
    high = 1065353216
    for _ in range(30):
        middle = (low + high) // 2
        t = middle.to(tl.float32, bitcast=True)
        enough = tl.sum(tl.where(p > t, p, 0.0), 0) < 0.9
        high = tl.where(enough, middle, high)
        low = tl.where(enough, low, middle + 1)
    least = high.to(tl.float32, bitcast=True)
    q = tl.where(p >= least, p, 0.0)
    tl.store(Y + r * V + i, q / tl.sum(q, 0), mask=i < V)


def kernel(logits):
    logits = logits.contiguous()
    V = logits.shape[-1]
    y = torch.empty_like(logits)
    _nucleus[(logits.numel() // V,)](logits, y, V, BLOCK=triton.next_power_of_2(V), num_warps=8)
    return y


class ModelNew(nn.Module):
    def forward(self, *arguments):
        return kernel(*arguments)
