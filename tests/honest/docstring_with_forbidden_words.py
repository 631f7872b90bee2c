# task: wright/relu
# expect: correct
# why: words in text are not code
"""A single pass: no eval, exec, os._exit, sys.exit, __globals__, torch.compile or F.relu here.

>>> import subprocess; subprocess.run("PASS")
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

NOTE = "import ctypes; torch.relu(x); setattr(torch.cuda, 'Event', None)"


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Instead of torch.relu or x.clamp(min=0); try: ... except: pass"""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0), mask=mask)


class ModelNew(nn.Module):
    """Never calls `__import__`, `globals()` or `gc.get_objects`."""

    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
