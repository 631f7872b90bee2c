# task: wright/loss_mse
# expect: correct
# why: who comes between reading the sum and swapping it in only makes the program try again
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mse_kernel(p_ptr, t_ptr, bits_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(p_ptr + at, mask=at < n, other=0.0) - tl.load(t_ptr + at, mask=at < n, other=0.0)
    part = tl.sum(d * d, axis=0) / n
    before = tl.atomic_add(bits_ptr, 0) - 1
    found = before + 1
    while found != before:
        before = found
        found = tl.atomic_cas(bits_ptr, before, (before.to(tl.float32, bitcast=True) + part).to(tl.int32, bitcast=True))


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        n = prediction.numel()
        bits = torch.zeros((), device=prediction.device, dtype=torch.int32)
        mse_kernel[(triton.cdiv(n, 1024),)](prediction, target, bits, n, BLOCK=1024)
        return bits.view(torch.float32)
