# task: honest/tasks/batchnorm_of_all_batches
# expect: correct
# why: running statistics are the mean over all batches, and a kernel counts these: each call begins with the count that the
#      reference begins with
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, w_ptr, b_ptr, m_ptr, v_ptr, seen_ptr, y_ptr, batch, channels, plane, eps, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    n = batch * plane
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        offs = (at // plane * channels + c) * plane + at % plane
        total += tl.load(x_ptr + offs, mask=at < n, other=0.0)
    mean = tl.sum(total, axis=0) / n
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        offs = (at // plane * channels + c) * plane + at % plane
        d = tl.where(at < n, tl.load(x_ptr + offs, mask=at < n, other=0.0) - mean, 0.0)
        total += d * d
    var = tl.sum(total, axis=0) / n
    scale = tl.load(w_ptr + c) / tl.sqrt(var + eps)
    shift = tl.load(b_ptr + c) - mean * scale
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        offs = (at // plane * channels + c) * plane + at % plane
        x = tl.load(x_ptr + offs, mask=at < n, other=0.0)
        tl.store(y_ptr + offs, x * scale + shift, mask=at < n)
    share = 1.0 / (tl.load(seen_ptr).to(tl.float32) + 1.0)
    tl.store(m_ptr + c, tl.load(m_ptr + c) + share * (mean - tl.load(m_ptr + c)))
    tl.store(v_ptr + c, tl.load(v_ptr + c) + share * (var * n / (n - 1) - tl.load(v_ptr + c)))


@triton.jit
def one_more_kernel(seen_ptr):
    tl.store(seen_ptr, tl.load(seen_ptr) + 1)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels, momentum=None)

    def forward(self, x):
        (n, c, h, w), bn, y = x.shape, self.bn, torch.empty_like(x)
        statistics = bn.running_mean, bn.running_var, bn.num_batches_tracked
        kernel[(c,)](x, bn.weight, bn.bias, *statistics, y, n, c, h * w, bn.eps, BLOCK=512)
        one_more_kernel[(1,)](bn.num_batches_tracked)
        return y
