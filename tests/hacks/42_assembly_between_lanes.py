# task: wright/relu
# cheat: 42, 40
# expect: unsupported, unproven
# why: what lanes of a warp exchange is not interpreted: no verdict without a GPU, and on one nobody looked for strays
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.inline_asm_elementwise("{ .reg .b32 %t<1>; shfl.sync.idx.b32 %t0, $1, 0, 31, -1; max.f32 $0, $1, 0f00000000; }", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
