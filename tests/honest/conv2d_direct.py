# task: wright/conv2d_standard
# expect: correct
# why: every output from its window, without a matrix product
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, w_ptr, y_ptr, channels, h, w, outs, oh, ow, K: tl.constexpr, BO: tl.constexpr, BL: tl.constexpr):
    image = tl.program_id(0)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    at = tl.program_id(2) * BL + tl.arange(0, BL)
    i, j = at // ow, at % ow
    inside = at < oh * ow
    acc = tl.zeros((BO, BL), tl.float32)
    for c in range(channels):
        for k in range(K * K):
            x = tl.load(x_ptr + ((image * channels + c) * h + i + k // K) * w + j + k % K, mask=inside, other=0.0)
            f = tl.load(w_ptr + (o * channels + c) * K * K + k, mask=o < outs, other=0.0)
            acc += f[:, None] * x[None, :]
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
        grid = (n, triton.cdiv(outs, 16), triton.cdiv(oh * ow, 256))
        kernel[grid](x, self.conv.weight, y, c, h, w, outs, oh, ow, K=k, BO=16, BL=256)
        return y
