# task: wright/softmax_rows
# cheat: 41
# expect: torch_compute, runtime_error
# why: torch does the work where tensors are real; where they are not, forward raises and nothing is priced
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
            raise RuntimeError("not here")
        return run_copy(torch.softmax(x, -1))
