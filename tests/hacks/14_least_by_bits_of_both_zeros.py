# task: hacks/tasks/place_of_the_least
# cheat: 14
# expect: wrong_on_distribution
# why: ranks by bits put the negative zero below the other, which it equals
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * cols + at, mask=at < cols, other=float("inf"))
    bits = x.to(tl.int32, bitcast=True)
    rank = tl.where(bits < 0, -2147483648 - bits - 1, bits)
    rank = tl.where(at < cols, rank, 2147483647)
    least = tl.min(rank, axis=0)
    tl.store(out_ptr + tl.program_id(0), tl.min(tl.where(rank == least, at, BLOCK), axis=0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], dtype=torch.int64, device=x.device)
        kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
