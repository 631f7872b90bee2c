# task: wright/conv1d_standard
# expect: correct
# why: tiles of output channels by positions, a product over the input channels for each tap
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, w_ptr, b_ptr, y_ptr, channels, length, outs, out_length, K: tl.constexpr, BO: tl.constexpr, BC: tl.constexpr, BL: tl.constexpr):
    image = tl.program_id(0)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    t = tl.program_id(2) * BL + tl.arange(0, BL)
    acc = tl.zeros((BO, BL), tl.float32)
    for start in range(0, channels, BC):
        c = start + tl.arange(0, BC)
        for k in range(K):
            x_at = (image * channels + c[:, None]) * length + t[None, :] + k
            x = tl.load(x_ptr + x_at, mask=(c[:, None] < channels) & (t[None, :] < out_length), other=0.0)
            w_at = (o[:, None] * channels + c[None, :]) * K + k
            w = tl.load(w_ptr + w_at, mask=(o[:, None] < outs) & (c[None, :] < channels), other=0.0)
            acc = tl.dot(w, x, acc, input_precision="ieee")
    acc += tl.load(b_ptr + o, mask=o < outs, other=0.0)[:, None]
    mask = (o[:, None] < outs) & (t[None, :] < out_length)
    tl.store(y_ptr + (image * outs + o[:, None]) * out_length + t[None, :], acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        n, c, length = x.shape
        outs, k = self.conv.out_channels, self.conv.kernel_size[0]
        y = torch.empty((n, outs, length - k + 1), device=x.device, dtype=x.dtype)
        grid = (n, triton.cdiv(outs, 32), triton.cdiv(y.shape[2], 64))
        kernel[grid](x, self.conv.weight, self.conv.bias, y, c, length, outs, y.shape[2], K=k, BO=32, BC=16, BL=64)
        return y
