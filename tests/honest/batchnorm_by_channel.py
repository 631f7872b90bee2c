# task: wright/batchnorm_eval
# expect: correct
# why: scale and shift are folded inside the kernel, channels on the grid
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, m_ptr, v_ptr, w_ptr, b_ptr, y_ptr, plane, eps, BLOCK: tl.constexpr):
    n, c = tl.program_id(0), tl.program_id(1)
    channels = tl.num_programs(1)
    a = tl.load(w_ptr + c) * tl.rsqrt(tl.load(v_ptr + c) + eps)
    b = tl.load(b_ptr + c) - tl.load(m_ptr + c) * a
    base = (n * channels + c) * plane
    for start in range(0, plane, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + at, mask=at < plane)
        tl.store(y_ptr + base + at, a * x + b, mask=at < plane)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels).eval()

    def forward(self, x):
        n, c, h, w = x.shape
        y = torch.empty_like(x)
        bn = self.bn
        kernel[(n, c)](x, bn.running_mean, bn.running_var, bn.weight, bn.bias, y, h * w, bn.eps, BLOCK=256)
        return y
