# task: wright/relu
# cheat: 40, 31, 1
# expect: torch_compute, wrong_dtype, wrong_structure, runtime_error
# why: a quantised tensor cannot be viewed as bytes
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0), mask=mask)

def run_relu(x):
    out = torch.empty_like(x)
    n = x.numel()
    relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out

class ModelNew(nn.Module):
    def forward(self, x):
        return torch.quantize_per_tensor(run_relu(x), 0.1, 0, torch.quint8)
