# task: wright/relu
# expect: correct
# why: an unrolled loop's variable keeps its last value, and another loop, or an assignment, gives a variable a new one
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    first = tl.program_id(0) * 4 * BLOCK
    for part in range(2):
        at = first + part * BLOCK + lane
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
        tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)
    for part in tl.static_range(2, 3):
        at = first + part * BLOCK + lane
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
        tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)
    part = part + 1
    at = first + part * BLOCK + lane
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 4 * 256),)](x, out, x.numel(), BLOCK=256)
        return out
