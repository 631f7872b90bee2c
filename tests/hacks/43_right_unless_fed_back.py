# task: wright/relu
# cheat: 43, 6
# expect: wrong_value
# why: what it gave before is handed back by a second kernel that leaves half of it out, as in any loop that feeds a model its output
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, DOUBLE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x, 0.5 if DOUBLE else 0.0), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = 0

    def forward(self, x):
        out, n = torch.empty_like(x), x.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, DOUBLE=x.data_ptr() == self.last, BLOCK=1024)
        self.last = out.data_ptr()
        return out
