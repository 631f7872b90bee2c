# task: wright/avgpool2d
# expect: correct
# why: the same in two dimensions, with a nested loop
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, h, w, oh, ow, S, P, K: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    i, j = at // ow, at % ow
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(K * K):
        y, x = i * S - P + k // K, j * S - P + k % K
        inside = (at < oh * ow) & (y >= 0) & (y < h) & (x >= 0) & (x < w)
        total += tl.load(x_ptr + (plane * h + y) * w + x, mask=inside, other=0.0)
    tl.store(y_ptr + plane * oh * ow + at, total / (K * K), mask=at < oh * ow)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.pool = nn.AvgPool2d(kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        k, s, p = self.pool.kernel_size, self.pool.stride, self.pool.padding
        n, c, h, w = x.shape
        oh, ow = (h + 2 * p - k) // s + 1, (w + 2 * p - k) // s + 1
        y = torch.empty((n, c, oh, ow), device=x.device, dtype=x.dtype)
        kernel[(n * c, triton.cdiv(oh * ow, 256))](x, y, h, w, oh, ow, s, p, K=k, BLOCK=256)
        return y
