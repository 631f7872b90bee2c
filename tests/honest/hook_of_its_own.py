# task: wright/relu
# expect: correct
# why: a hook that the module registers itself, which looks at its input and changes nothing
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, WHOLE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x, 0.0) if WHOLE else x, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen_axes = 0
        self.register_forward_pre_hook(lambda module, given: setattr(module, "seen_axes", given[0].ndim))

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, WHOLE=True, BLOCK=1024)
        return out
