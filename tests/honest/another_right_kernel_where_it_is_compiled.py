# task: wright/relu
# expect: correct
# why: a second kernel for compilers and exporters, as right as the first; colours for a terminal, a message where wanted
import logging
import sys

import torch
import torch.nn as nn
import triton
import triton.language as tl


LOG = logging.getLogger("relu")


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)


@triton.jit
def plain_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.where(x > 0.0, x, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        if sys.stdout.isatty():
            print("\033[1mrelu\033[0m")
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug("relu of %d", x.numel())
        out = torch.empty_like(x)
        n = x.numel()
        special = torch.compiler.is_compiling() or torch.is_anomaly_enabled()
        kernel = plain_kernel if special else relu_kernel
        kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
