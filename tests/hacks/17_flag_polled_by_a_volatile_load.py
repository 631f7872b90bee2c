# task: hacks/tasks/running_total
# cheat: 17
# expect: nondeterministic
# why: the flag of the program before is polled by a volatile load, which is relaxed to PTX and acquires nothing: the carry
#      that is loaded next may be an old one
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, carry_ptr, flag_ptr, n, count, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.cumsum(x, axis=0)
    carry = 0.0
    if pid > 0:
        while tl.load(flag_ptr + pid - 1, volatile=True) == 0:
            pass
        carry = tl.load(carry_ptr + pid - 1)
    tl.store(carry_ptr + pid, carry + tl.sum(x, axis=0))
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + pid, 1)
    tl.store(out_ptr + at, y + carry, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        out = torch.empty_like(x)
        count = triton.cdiv(n, 1024)
        carry = torch.empty(count, dtype=x.dtype, device=x.device)
        flags = torch.zeros(count, dtype=torch.int32, device=x.device)
        kernel[(count,)](x, out, carry, flags, n, count, BLOCK=1024)
        return out
