# task: wright/relu
# expect: correct
# why: the grid is as wide as the GPU has multiprocessors
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    programs = tl.num_programs(0)
    for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), programs):
        at = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n), 0.0), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.programs = torch.cuda.get_device_properties(0).multi_processor_count
        self.big = torch.cuda.get_device_capability()[0] >= 9

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_kernel[(min(self.programs, triton.cdiv(n, 1024)),)](x, out, n, BLOCK=1024, num_warps=8 if self.big else 4)
        return out
