# task: wright/relu
# expect: correct
# why: assembly that compares and selects, two registers at a time
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.inline_asm_elementwise(
        "{ .reg .pred p, q; setp.gt.f32 p, $2, 0f00000000; setp.gt.f32 q, $3, 0f00000000;"
        " selp.f32 $0, $2, 0f00000000, p; selp.f32 $1, $3, 0f00000000, q; }",
        "=f,=f,f,f", [x], dtype=tl.float32, is_pure=True, pack=2,
    )
    tl.store(out_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
