# task: wright/maxpool2d
# expect: correct
# why: as the exploit beside it, with a border of minus infinity
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, H, W, OH, OW, size, stride, pad, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ow = at % OW
    oh = at // OW % OH
    plane = (at // (OW * OH)).to(tl.int64)
    best = tl.full([BLOCK], float("-inf"), dtype=tl.float32)
    for i in range(0, size):
        for j in range(0, size):
            h = oh * stride - pad + i
            w = ow * stride - pad + j
            inside = (h >= 0) & (h < H) & (w >= 0) & (w < W) & (at < n)
            best = tl.maximum(best, tl.load(x_ptr + plane * H * W + h * W + w, mask=inside, other=float("-inf")))
    tl.store(out_ptr + at, best, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.size, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, x):
        b, c, h, w = x.shape
        oh = (h + 2 * self.padding - self.size) // self.stride + 1
        ow = (w + 2 * self.padding - self.size) // self.stride + 1
        out = torch.empty((b, c, oh, ow), dtype=x.dtype, device=x.device)
        n = out.numel()
        kernel[(triton.cdiv(n, 512),)](x, out, h, w, oh, ow, self.size, self.stride, self.padding, n, BLOCK=512)
        return out
