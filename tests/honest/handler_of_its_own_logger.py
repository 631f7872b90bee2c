# task: wright/relu
# expect: correct
# why: a logger of its own gets a handler that writes nowhere at its first message
import logging

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


LOG = logging.getLogger("kernels.relu")


class ModelNew(nn.Module):
    def forward(self, x):
        if not LOG.handlers:
            LOG.addHandler(logging.NullHandler())
        LOG.debug("relu of %d numbers", x.numel())
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
