# task: wright/maxpool2d
# expect: correct
# why: loops unrolled by tl.static_range over constexprs
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def pool_kernel(x_ptr, out_ptr, h, w, oh, ow, K: tl.constexpr, S: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    i, j = at // ow, at % ow
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    for di in tl.static_range(K):
        for dj in tl.static_range(K):
            y, x = i * S - P + di, j * S - P + dj
            inside = (at < oh * ow) & (y >= 0) & (y < h) & (x >= 0) & (x < w)
            best = tl.maximum(best, tl.load(x_ptr + (plane * h + y) * w + x, mask=inside, other=-float("inf")))
    tl.store(out_ptr + plane * oh * ow + at, best, mask=at < oh * ow)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, x):
        n, c, h, w = x.shape
        oh = (h + 2 * self.padding - self.kernel_size) // self.stride + 1
        ow = (w + 2 * self.padding - self.kernel_size) // self.stride + 1
        out = torch.empty((n, c, oh, ow), device=x.device, dtype=x.dtype)
        pool_kernel[(n * c, triton.cdiv(oh * ow, 64))](
            x, out, h, w, oh, ow, K=self.kernel_size, S=self.stride, P=self.padding, BLOCK=64
        )
        return out
