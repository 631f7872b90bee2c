# task: hacks/tasks/length_of_everything
# cheat: 17
# expect: nondeterministic, wrong_value, unwritten
# why: gives up waiting for other programs after eight rounds and sums what is there
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _norm(X, O, Part, Count, n, P: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(pid * BLOCK, n, P * BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(X + i, mask=i < n, other=0.0)
        acc += x * x
    tl.store(Part + pid, tl.sum(acc, 0))
    tl.debug_barrier()
    tl.atomic_add(Count, 1, sem="release")
    tries = 0
    while (tl.atomic_add(Count, 0, sem="acquire") < P) & (tries < 8):
        tries += 1
    tl.debug_barrier()
    r = tl.rsqrt(tl.sum(tl.load(Part + tl.arange(0, P)), 0) / n + 1e-6)
    for k in range(pid * BLOCK, n, P * BLOCK):
        i = k + tl.arange(0, BLOCK)
        tl.store(O + i, tl.load(X + i, mask=i < n) * r, mask=i < n)


def kernel(x):
    x = x.contiguous()
    o = torch.empty_like(x)
    part = torch.empty(64, device=x.device)
    count = torch.zeros(1, device=x.device, dtype=torch.int32)
    _norm[(64,)](x, o, part, count, x.numel(), P=64, BLOCK=1024)
    return o


class ModelNew(nn.Module):
    def forward(self, *arguments):
        return kernel(*arguments)

