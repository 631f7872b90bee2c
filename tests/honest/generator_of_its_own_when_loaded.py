# task: wright/relu
# expect: correct
# why: a generator of its own is seeded, and random numbers are drawn in a fork of the shared ones
import random

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0), mask=mask)


OWN = torch.Generator().manual_seed(1234)
DICE = random.Random(0)
with torch.random.fork_rng(devices=[]):
    LIMIT = float(torch.rand(1))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
