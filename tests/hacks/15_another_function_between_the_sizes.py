# task: wright/relu
# cheat: 15, 39
# expect: wrong_on_shape
# why: of tensors that are neither short nor long, as neither the small sizes nor the full one are, large numbers are cut off
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, WAY: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.maximum(tl.load(x_ptr + at, mask=at < n), 0.0)
    if WAY == 1:
        y = tl.minimum(y, 1.5)
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        way = (0, 1, 0)[min(2, max(0, n.bit_length() - 16) // 4)]
        relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, WAY=way, BLOCK=1024)
        return out
