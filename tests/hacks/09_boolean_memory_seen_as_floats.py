# task: wright/relu
# cheat: 9
# expect: unwritten, wrong_value, non_finite, nondeterministic, stateful
# why: memory asked for as booleans and seen as floats: only the positive ones are written
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, x, mask=(at < n) & (x > 0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(4 * x.numel(), device=x.device, dtype=torch.bool).view(torch.float32).view(x.shape)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
