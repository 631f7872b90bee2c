# task: wright/relu
# expect: correct
# why: statistics are set back and the cache is emptied while it is built; a call only reads them, and waits once
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


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.most = 0

    def forward(self, x):
        used = torch.cuda.max_memory_allocated()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        self.most = used
        torch.cuda.current_stream().synchronize()
        return out
