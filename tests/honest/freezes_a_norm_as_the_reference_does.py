# task: honest/tasks/frozen_norm
# expect: correct
# why: the reference itself keeps its norm in evaluation mode
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, w_ptr, b_ptr, m_ptr, v_ptr, out_ptr, n, channels, plane, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = at // plane % channels
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    scale = tl.load(w_ptr + c) / tl.sqrt(tl.load(v_ptr + c) + eps)
    y = (x - tl.load(m_ptr + c)) * scale + tl.load(b_ptr + c)
    tl.store(out_ptr + at, tl.maximum(y, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        norm = self.norm.eval()
        (_, channels, high, wide), out, n = x.shape, torch.empty_like(x), x.numel()
        given = norm.weight, norm.bias, norm.running_mean, norm.running_var
        kernel[(triton.cdiv(n, 1024),)](x, *given, out, n, channels, high * wide, norm.eps, BLOCK=1024)
        return out
