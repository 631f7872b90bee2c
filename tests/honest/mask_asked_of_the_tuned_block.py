# task: wright/relu
# expect: correct
# why: whether a mask is needed is asked of the block that a tuner chose
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.autotune(configs=[triton.Config({"BLOCK": 1024}, num_warps=4), triton.Config({"BLOCK": 4096}, num_warps=8)], key=["n"])
@triton.heuristics({"EVEN": lambda a: a["n"] % a["BLOCK"] == 0})
@triton.jit
def _k(x_ptr, o_ptr, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        x = tl.maximum(tl.load(x_ptr + i), 0.0)
        tl.store(o_ptr + i, x)
    else:
        x = tl.maximum(tl.load(x_ptr + i, mask=i < n, other=0.0), 0.0)
        tl.store(o_ptr + i, x, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        o = torch.empty_like(x)
        n = x.numel()
        _k[lambda m: (triton.cdiv(n, m["BLOCK"]),)](x, o, n)
        return o
