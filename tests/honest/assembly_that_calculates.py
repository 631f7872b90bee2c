# task: wright/relu
# expect: correct
# why: assembly of arithmetic alone is evaluated
import torch
import torch.nn as nn
import triton
import triton.language as tl

DOUBLED = tl.constexpr("{ .reg .f32 %t<2>; add.f32 %t0, $1, $1; mul.f32 %t1, %t0, 0f3F000000; max.f32 $0, %t1, 0f00000000; }")


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.inline_asm_elementwise(DOUBLED, "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
