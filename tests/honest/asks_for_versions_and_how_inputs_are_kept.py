# task: wright/relu
# expect: correct
# why: another block under an older Triton, signs that are lazy made real, and sparse inputs declined: right, whatever the answers
import torch
import torch.nn as nn
import triton
import triton.language as tl

NEW = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 0)
BLOCK = 1024 if NEW and torch.__version__ >= "2.1" else 512

@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.layout == torch.strided and not x.is_sparse, "dense inputs only"
        if x.is_neg():
            x = x.resolve_neg()
        out = torch.empty_like(x)
        n = x.numel()
        relu_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
        return out
