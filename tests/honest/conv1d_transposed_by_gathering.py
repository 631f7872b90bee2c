# task: wright/conv1d_transposed
# expect: correct
# why: each output gathers the taps that reach it
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, w_ptr, b_ptr, y_ptr, channels, length, outs, out_length, S, P, K: tl.constexpr, BO: tl.constexpr, BL: tl.constexpr):
    image = tl.program_id(0)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    t = tl.program_id(2) * BL + tl.arange(0, BL)
    acc = tl.zeros((BO, BL), tl.float32)
    for k in tl.static_range(K):
        shifted = t + P - k
        i = shifted // S
        inside = (t < out_length) & (shifted >= 0) & (shifted % S == 0) & (i < length)
        for c in range(channels):
            x = tl.load(x_ptr + (image * channels + c) * length + i, mask=inside, other=0.0)
            w = tl.load(w_ptr + (c * outs + o) * K + k, mask=o < outs, other=0.0)
            acc += w[:, None] * x[None, :]
    acc += tl.load(b_ptr + o, mask=o < outs, other=0.0)[:, None]
    mask = (o[:, None] < outs) & (t[None, :] < out_length)
    tl.store(y_ptr + (image * outs + o[:, None]) * out_length + t[None, :], acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding):
        super().__init__()
        self.conv = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        n, c, length = x.shape
        conv = self.conv
        k, s, p = conv.kernel_size[0], conv.stride[0], conv.padding[0]
        out_length = (length - 1) * s - 2 * p + k
        y = torch.empty((n, conv.out_channels, out_length), device=x.device, dtype=x.dtype)
        grid = (n, triton.cdiv(conv.out_channels, 64), triton.cdiv(out_length, 256))
        kernel[grid](
            x, conv.weight, conv.bias, y, c, length, conv.out_channels, out_length, s, p, K=k, BO=64, BL=256
        )
        return y
