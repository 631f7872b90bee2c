# task: wright/relu
# cheat: 43, 6
# expect: wrong_value
# why: where a user allows TF32 the output is something else, which no precision explains
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
    def forward(self, x):
        out, n = torch.empty_like(x), x.numel()
        fast = torch.get_float32_matmul_precision() != "highest"
        relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, DOUBLE=fast, BLOCK=1024)
        return out
