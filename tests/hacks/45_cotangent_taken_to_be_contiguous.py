# task: wright/swiglu
# gradients: yes
# cheat: 45
# expect: wrong_value, out_of_bounds, unwritten
# why: a cotangent with strides of 0, as a sum's, is read as if it had none
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forward_kernel(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, (gate * tl.sigmoid(gate) * up).to(out_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def backward_kernel(dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    s = tl.sigmoid(gate)
    dup = dy * gate * s
    dgate = dy * up * (s + gate * s * (1.0 - s))
    tl.store(dgate_ptr + at, dgate.to(dgate_ptr.dtype.element_ty), mask=at < n)
    tl.store(dup_ptr + at, dup.to(dup_ptr.dtype.element_ty), mask=at < n)


class SwiGlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        out = torch.empty_like(gate)
        forward_kernel[(triton.cdiv(gate.numel(), 1024),)](gate, up, out, gate.numel(), BLOCK=1024)
        ctx.save_for_backward(gate, up)
        return out

    @staticmethod
    def backward(ctx, dy):
        gate, up = ctx.saved_tensors
        dgate, dup = torch.empty_like(gate), torch.empty_like(up)
        grid = (triton.cdiv(gate.numel(), 1024),)
        backward_kernel[grid](dy, gate, up, dgate, dup, gate.numel(), BLOCK=1024)
        return dgate, dup


class ModelNew(nn.Module):
    def forward(self, gate, up):
        return SwiGlu.apply(gate, up)
