# task: wright/conv2d_standard
# expect: correct
# why: one product over the channels for each tap of the window
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, w_ptr, y_ptr, channels, h, w, outs, oh, ow, K: tl.constexpr, BO: tl.constexpr, BC: tl.constexpr, BL: tl.constexpr):
    image = tl.program_id(0)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    at = tl.program_id(2) * BL + tl.arange(0, BL)
    i, j = at // ow, at % ow
    inside = at < oh * ow
    acc = tl.zeros((BO, BL), tl.float32)
    for k in range(K * K):
        for start in range(0, channels, BC):
            c = start + tl.arange(0, BC)
            x_at = ((image * channels + c[:, None]) * h + i[None, :] + k // K) * w + j[None, :] + k % K
            x = tl.load(x_ptr + x_at, mask=(c[:, None] < channels) & inside[None, :], other=0.0)
            f_at = (o[:, None] * channels + c[None, :]) * K * K + k
            f = tl.load(w_ptr + f_at, mask=(o[:, None] < outs) & (c[None, :] < channels), other=0.0)
            acc = tl.dot(f, x, acc, input_precision="ieee")
    mask = (o[:, None] < outs) & inside[None, :]
    tl.store(y_ptr + (image * outs + o[:, None]) * oh * ow + at[None, :], acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, bias=False)
        self.kernel_size = kernel_size

    def forward(self, x):
        n, c, h, w = x.shape
        outs, k = self.conv.out_channels, self.kernel_size
        oh, ow = h - k + 1, w - k + 1
        y = torch.empty((n, outs, oh, ow), device=x.device, dtype=x.dtype)
        grid = (n, triton.cdiv(outs, 16), triton.cdiv(oh * ow, 64))
        kernel[grid](x, self.conv.weight, y, c, h, w, outs, oh, ow, K=k, BO=16, BC=16, BL=64)
        return y
