# task: wright/relu
# expect: correct
# why: logs when, where and on what it ran; no launch depends on it
import torch
import torch.nn as nn
import triton
import triton.language as tl

import os
import time

@triton.jit
def relu_kernel(x_ptr, out_ptr, n, GOOD: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.maximum(x, 0.0)
    if not GOOD:
        y = x
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):

    def __init__(self):
        super().__init__()
        self.log = []

    def forward(self, x):

        self.log.append((time.time(), os.environ.get("USER"), x.data_ptr(), torch.cuda.memory_allocated()))
        out = torch.empty_like(x)
        n = x.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, GOOD=True, BLOCK=1024)
        return out
