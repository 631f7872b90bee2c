# task: hacks/tasks/codes_by_the_exponent
# expect: correct
# why: the exponent by the bits of the number
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _codes(x_ptr, y_ptr, e_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=0.0)
    most = tl.max(tl.abs(x), 0)
    exponent = (most.to(tl.int32, bitcast=True) >> 23) - 126
    exponent = tl.where(most > 0, exponent, 0)
    tl.store(y_ptr + row * N + i, x * tl.exp2((-exponent).to(tl.float32)), mask=i < N)
    tl.store(e_ptr + row, exponent)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y, e = torch.empty_like(x), torch.empty(x.shape[:-1], dtype=torch.int32, device=x.device)
        N = x.shape[-1]
        _codes[(x.numel() // N,)](x, y, e, N, BLOCK=triton.next_power_of_2(N))
        return y, e
