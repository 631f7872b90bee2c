# task: wright/conv2d_depthwise
# expect: correct
# why: neighbouring programs read the same halo; nobody writes it
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def conv_kernel(x_ptr, w_ptr, y_ptr, channels, h, w, oh, ow, P: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    i, j = at // ow, at % ow
    acc = tl.zeros((BLOCK,), tl.float32)
    for di in tl.static_range(K):
        for dj in tl.static_range(K):
            y, x = i + di - P, j + dj - P
            inside = (at < oh * ow) & (y >= 0) & (y < h) & (x >= 0) & (x < w)
            value = tl.load(x_ptr + (plane * h + y) * w + x, mask=inside, other=0.0)
            acc += value * tl.load(w_ptr + (plane % channels) * K * K + di * K + dj)
    tl.store(y_ptr + plane * oh * ow + at, acc, mask=at < oh * ow)


class ModelNew(nn.Module):
    def __init__(self, channels, kernel_size, padding):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size, padding=padding, groups=channels, bias=False)
        self.kernel_size, self.padding = kernel_size, padding

    def forward(self, x):
        n, c, h, w = x.shape
        k, p = self.kernel_size, self.padding
        oh, ow = h + 2 * p - k + 1, w + 2 * p - k + 1
        y = torch.empty((n, c, oh, ow), device=x.device, dtype=x.dtype)
        conv_kernel[(n * c, triton.cdiv(oh * ow, 1024))](x, self.conv.weight, y, c, h, w, oh, ow, P=p, K=k, BLOCK=1024)
        return y
