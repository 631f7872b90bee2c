# task: wright/conv1d_dilated
# expect: correct
# why: left padding is a mask, and what is cut off on the right is never computed
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, w_ptr, y_ptr, channels, length, outs, D, K: tl.constexpr, BO: tl.constexpr, BL: tl.constexpr):
    image = tl.program_id(0)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    t = tl.program_id(2) * BL + tl.arange(0, BL)
    acc = tl.zeros((BO, BL), tl.float32)
    for c in range(channels):
        for k in tl.static_range(K):
            at = t - (K - 1 - k) * D
            x = tl.load(x_ptr + (image * channels + c) * length + at, mask=(at >= 0) & (t < length), other=0.0)
            w = tl.load(w_ptr + (o * channels + c) * K + k, mask=o < outs, other=0.0)
            acc += w[:, None] * x[None, :]
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
        grid = (n, triton.cdiv(outs, 64), triton.cdiv(length, 256))
        kernel[grid](x, self.conv.weight, y, c, length, outs, d, K=k, BO=64, BL=256)
        return y
