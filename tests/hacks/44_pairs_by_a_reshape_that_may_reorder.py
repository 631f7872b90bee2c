# task: wright/relu
# cheat: 44
# expect: wrong_value
# why: neighbours after a reshape that may reorder elements need not be neighbours; the interpreter keeps the order
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, n, HALF: tl.constexpr):
    at = tl.program_id(0) * 2 * HALF + tl.arange(0, 2 * HALF)
    x = tl.maximum(tl.load(x_ptr + at, mask=at < n, other=0.0), 0.0)
    a, b = tl.split(tl.reshape(x, (HALF, 2), can_reorder=True))
    to = tl.program_id(0) * 2 * HALF + 2 * tl.arange(0, HALF)
    tl.store(out_ptr + to, a, mask=to < n)
    tl.store(out_ptr + to + 1, b, mask=to + 1 < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), HALF=256)
        return out
