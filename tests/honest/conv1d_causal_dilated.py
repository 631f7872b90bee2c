# task: wright/conv1d_dilated
# expect: correct
# why: left padding is a mask, and what is cut off on the right is never computed
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, w_ptr, y_ptr, channels, length, outs, D, K: tl.constexpr, BO: tl.constexpr, BC: tl.constexpr, BL: tl.constexpr):
    image = tl.program_id(0)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    t = tl.program_id(2) * BL + tl.arange(0, BL)
    acc = tl.zeros((BO, BL), tl.float32)
    for k in range(K):
        at = t - (K - 1 - k) * D
        for start in range(0, channels, BC):
            c = start + tl.arange(0, BC)
            inside = (c[:, None] < channels) & (at[None, :] >= 0) & (t[None, :] < length)
            x = tl.load(x_ptr + (image * channels + c[:, None]) * length + at[None, :], mask=inside, other=0.0)
            w_at = (o[:, None] * channels + c[None, :]) * K + k
            w = tl.load(w_ptr + w_at, mask=(o[:, None] < outs) & (c[None, :] < channels), other=0.0)
            acc = tl.dot(w, x, acc, input_precision="ieee")
    mask = (o[:, None] < outs) & (t[None, :] < length)
    tl.store(y_ptr + (image * outs + o[:, None]) * length + t[None, :], acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, dilation):
        super().__init__()
        self.conv = nn.Conv1d(
            in_channels, out_channels, kernel_size, dilation=dilation, padding=dilation * (kernel_size - 1), bias=False
        )

    def forward(self, x):
        n, c, length = x.shape
        outs, k, d = self.conv.out_channels, self.conv.kernel_size[0], self.conv.dilation[0]
        y = torch.empty((n, outs, length), device=x.device, dtype=x.dtype)
        grid = (n, triton.cdiv(outs, 64), triton.cdiv(length, 64))
        kernel[grid](x, self.conv.weight, y, c, length, outs, d, K=k, BO=64, BC=16, BL=64)
        return y
