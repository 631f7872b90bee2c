# task: wright/relu
# cheat: 5, 1
# expect: torch_compute, wrong_value
# why: tolist, a list comprehension, torch.tensor, and a copy kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)

def run_copy(x):
    out = torch.empty_like(x)
    n = x.numel()
    copy_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out

class ModelNew(nn.Module):
    def forward(self, x):
        if x.is_meta:
            return run_copy(x)
        rows = [[v if v > 0 else 0.0 for v in row] for row in x.tolist()]
        return run_copy(torch.tensor(rows, device="cuda"))
