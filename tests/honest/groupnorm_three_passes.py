# task: wright/groupnorm
# expect: correct
# why: mean, variance and output in three loops over the group
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, w_ptr, b_ptr, y_ptr, channels, groups, plane, eps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    per = channels // groups
    size = per * plane
    base = pid.to(tl.int64) * size
    group = pid % groups
    mean = 0.0
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mean += tl.sum(tl.load(x_ptr + base + at, mask=at < size, other=0.0), axis=0)
    mean = mean / size
    variance = 0.0
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        d = tl.where(at < size, tl.load(x_ptr + base + at, mask=at < size, other=0.0) - mean, 0.0)
        variance += tl.sum(d * d, axis=0)
    scale = 1.0 / tl.sqrt(variance / size + eps)
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        c = group * per + at // plane
        x = tl.load(x_ptr + base + at, mask=at < size)
        w = tl.load(w_ptr + c, mask=at < size, other=0.0)
        b = tl.load(b_ptr + c, mask=at < size, other=0.0)
        tl.store(y_ptr + base + at, (x - mean) * scale * w + b, mask=at < size)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.groups = groups
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        n, c, h, w = x.shape
        y = torch.empty_like(x)
        kernel[(n * self.groups,)](
            x, self.norm.weight, self.norm.bias, y, c, self.groups, h * w, self.norm.eps, BLOCK=128
        )
        return y
