# task: wright/swiglu
# expect: correct
# why: the kernel belongs to a submodule, called through nn.Sequential-like nesting
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def swiglu_kernel(g_ptr, u_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(g_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    u = tl.load(u_ptr + at, mask=at < n, other=0.0)
    s = (g * tl.sigmoid(g)).to(tl.bfloat16)
    tl.store(out_ptr + at, s * u, mask=at < n)


class SwiGLU(nn.Module):
    def forward(self, gate, up):
        out = torch.empty_like(gate)
        swiglu_kernel[(triton.cdiv(gate.numel(), 512),)](gate, up, out, gate.numel(), BLOCK=512)
        return out


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"act": SwiGLU()})

    def forward(self, gate, up):
        return self.layers["act"](gate, up)
