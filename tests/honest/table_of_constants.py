# task: wright/relu
# expect: correct
# why: a small table made from a Python list is uploaded once and read by the kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, table_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    slope = tl.load(table_ptr + (x > 0).to(tl.int32))
    tl.store(out_ptr + at, x * slope, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.tensor([0.0, 1.0]))

    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 512),)](x, self.table, out, x.numel(), BLOCK=512)
        return out
