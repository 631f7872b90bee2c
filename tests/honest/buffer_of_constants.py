# task: wright/avgpool1d
# expect: correct
# why: a constant table registered as a buffer that is not saved
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, taps_ptr, y_ptr, n_out, in_len, out_len, K: tl.constexpr, S: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < n_out
    first = (i % out_len) * S - P
    acc = tl.zeros([BLOCK], tl.float32)
    for k in tl.static_range(K):
        at = first + k
        x = tl.load(x_ptr + i // out_len * in_len + at, mask=live & (at >= 0) & (at < in_len), other=0.0)
        acc += x * tl.load(taps_ptr + k)
    tl.store(y_ptr + i, acc, mask=live)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.k, self.s, self.p = kernel_size, stride, padding
        self.register_buffer("taps", torch.full((kernel_size,), 1.0 / kernel_size), persistent=False)

    def forward(self, x):
        b, c, n = x.shape
        out = (n + 2 * self.p - self.k) // self.s + 1
        y = torch.empty((b, c, out), device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(y.numel(), 256),)](x, self.taps, y, y.numel(), n, out, K=self.k, S=self.s, P=self.p, BLOCK=256)
        return y
