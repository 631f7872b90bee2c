# task: wright/batchnorm_eval
# expect: correct
# why: running statistics live in buffers of the reference's names
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, m_ptr, v_ptr, w_ptr, b_ptr, y_ptr, channels, plane, eps, BLOCK: tl.constexpr):
    nc = tl.program_id(0)
    c = nc % channels
    scale = tl.load(w_ptr + c) / tl.sqrt(tl.load(v_ptr + c) + eps)
    shift = tl.load(b_ptr + c) - tl.load(m_ptr + c) * scale
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + nc * plane + at, mask=at < plane)
    tl.store(y_ptr + nc * plane + at, x * scale + shift, mask=at < plane)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x):
        n, c, h, w = x.shape
        bn = self.bn
        y = torch.empty_like(x)
        kernel[(n * c, triton.cdiv(h * w, 128))](
            x, bn.running_mean, bn.running_var, bn.weight, bn.bias, y, c, h * w, bn.eps, BLOCK=128
        )
        return y
