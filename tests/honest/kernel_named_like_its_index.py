# task: wright/relu
# expect: correct
# why: a variable of the kernel has the kernel's own name, which leads a search for what it calls back to itself
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, out_ptr, n, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    for k in range(ROUNDS):
        at = (tl.program_id(0) * ROUNDS + k) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n, other=0.0), 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out, n = torch.empty_like(x), x.numel()
        k[(triton.cdiv(n, 2048),)](x, out, n, ROUNDS=2, BLOCK=1024)
        return out
