# task: wright/avgpool2d
# expect: correct
# why: a grid of planes, rows and columns, masks from two conditions each
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, h, w, oh, ow, K: tl.constexpr, S: tl.constexpr, P: tl.constexpr, BW: tl.constexpr):
    row, plane = tl.program_id(1), tl.program_id(2)
    col = tl.program_id(0) * BW + tl.arange(0, BW)
    acc = tl.zeros([BW], tl.float32)
    for i in range(K):
        y = row * S - P + i
        for j in range(K):
            x = col * S - P + j
            ok = (y >= 0) & (y < h) & (x >= 0) & (x < w)
            acc += tl.load(x_ptr + (plane * h + y) * w + x, mask=ok, other=0.0)
    tl.store(y_ptr + (plane * oh + row) * ow + col, acc / (K * K), mask=col < ow)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.k, self.s, self.p = kernel_size, stride, padding

    def forward(self, x):
        n, c, h, w = x.shape
        oh, ow = ((size + 2 * self.p - self.k) // self.s + 1 for size in (h, w))
        y = x.new_empty((n, c, oh, ow))
        kernel[(triton.cdiv(ow, 16), oh, n * c)](x, y, h, w, oh, ow, K=self.k, S=self.s, P=self.p, BW=16)
        return y
