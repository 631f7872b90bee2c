# task: wright/relu
# cheat: 6
# expect: wrong_value, wrong_on_distribution, wrong_on_shape
# why: one of the configurations is wrong, and dear to a model of costs only
import torch
import torch.nn as nn
import triton
import triton.language as tl



@triton.autotune(
    configs=[triton.Config({"BLOCK": 1024, "TURNS": turns}) for turns in (0, 0, 32)], key=["n"]
)
@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, TURNS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.maximum(x, 0.0)
    if TURNS > 0:
        dead = x
        for _ in tl.static_range(TURNS):
            dead = tl.exp(dead)
        y = x
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        return out
