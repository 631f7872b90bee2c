# task: wright/relu
# cheat: 44, 42
# expect: wrong_value
# why: an argument of 1 is a constant when compiled: the branch for tensors is only ever taken by an interpreter
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, step, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    y = tl.zeros((BLOCK,), tl.float32)
    if isinstance(step + step, tl.tensor):
        y = tl.maximum(tl.load(x_ptr + offsets, mask=mask, other=0.0), 0.0)
    tl.store(out_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), x.stride(-1), BLOCK=1024)
        return out
