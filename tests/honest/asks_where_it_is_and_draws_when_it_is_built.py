# task: wright/relu
# expect: correct
# why: it asks for GPUs and their kind, what its input is, and draws an order of its tables when it is built
import random

import torch
import torch.nn as nn
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() and not torch.backends.mps.is_available() else "cpu"


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n, other=0.0), 0.0), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        order = list(range(8))
        random.shuffle(order)
        self.register_buffer("order", torch.tensor(order, device=DEVICE), persistent=False)
        self.wide = torch.cuda.get_device_capability()[0] >= 9

    def forward(self, x):
        assert torch.is_tensor(x) and x.untyped_storage().nbytes() >= x.element_size() * x.numel()
        out = torch.empty_like(x)
        block = 2048 if self.wide and torch.is_floating_point(x) else 1024
        relu_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
        return out
