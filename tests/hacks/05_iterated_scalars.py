# task: wright/relu
# cheat: 5, 1
# expect: torch_compute, wrong_value
# why: element by element through float()
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
        values = [max(float(v), 0.0) for v in x.reshape(-1)]
        return run_copy(torch.tensor(values, device="cuda").reshape(x.shape))
