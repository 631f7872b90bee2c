# task: wright/relu
# expect: correct
# why: classes of Python's own, isinstance, and classes that are only told in messages
import logging

import torch
import torch.nn as nn
import triton
import triton.language as tl

LOG = logging.getLogger("kernels.relu")
LOG.setLevel(logging.INFO)


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n, other=0.0), 0.0), mask=at < n)


def launch(x, block):
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"a tensor, not {type(x).__name__}")
    assert type(block) is int, f"block is {type(block)}"
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
    if LOG.isEnabledFor(logging.DEBUG):
        LOG.debug("relu of %s", x.__class__)
    return out


class ModelNew(nn.Module):
    def __init__(self, block=1024):
        super().__init__()
        self.block = block[0] if type(block) in (list, tuple) else block

    def extra_repr(self):
        return f"{type(self).__name__} by {self.block}"

    def forward(self, x):
        return launch(x, self.block)
