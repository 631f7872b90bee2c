# task: hacks/tasks/state_that_leaves_a_chunk
# cheat: 12
# expect: non_finite
# why: the decay is split into two factors, of which one overflows and the other is 0 where steps are large
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def leaving_kernel(x_ptr, step_ptr, out_ptr, length, width, BLOCK_T: tl.constexpr, BLOCK: tl.constexpr):
    batch = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    t = tl.arange(0, BLOCK_T)
    total = 0.0
    for start in range(0, length, BLOCK_T):
        at = start + t
        s = tl.load(step_ptr + batch * length + at, mask=at < length, other=0.0) - 3.0
        softplus = tl.maximum(s, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(s)))
        total += tl.sum(tl.where(at < length, -softplus, 0.0), axis=0)
    acc = tl.zeros((BLOCK,), tl.float32)
    before = 0.0
    for start in range(0, length, BLOCK_T):
        at = start + t
        inside = (at[:, None] < length) & (d[None, :] < width)
        x = tl.load(x_ptr + (batch * length + at[:, None]) * width + d[None, :], mask=inside, other=0.0)
        s = tl.load(step_ptr + batch * length + at, mask=at < length, other=0.0) - 3.0
        softplus = tl.maximum(s, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(s)))
        decay = tl.where(at < length, -softplus, 0.0)
        leaving = tl.where(at < length, tl.exp(total) * tl.exp(-(before + tl.cumsum(decay, axis=0))), 0.0)
        acc += tl.sum(leaving[:, None] * x, axis=0)
        before += tl.sum(decay, axis=0)
    tl.store(out_ptr + batch * width + d, acc, mask=d < width)


class ModelNew(nn.Module):
    def forward(self, x, step):
        x, step = x.contiguous(), step.contiguous()
        batch, length, width = x.shape
        out = torch.empty(batch, width, device=x.device)
        leaving_kernel[(batch, triton.cdiv(width, 64))](x, step, out, length, width, BLOCK_T=16, BLOCK=64)
        return out
