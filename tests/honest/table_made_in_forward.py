# task: wright/relu
# expect: correct
# why: the same table made in forward, with device="cuda"
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
    def forward(self, x):
        out = torch.empty_like(x)
        table = torch.tensor([0.0, 1.0], device="cuda")
        kernel[(triton.cdiv(x.numel(), 512),)](x, table, out, x.numel(), BLOCK=512)
        return out
