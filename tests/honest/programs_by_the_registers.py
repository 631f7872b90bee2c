# task: wright/relu
# expect: correct
# why: as many programs as the registers of what was compiled allow, as in Triton's tutorial on softmax
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < n
        tl.store(out_ptr + offsets, tl.maximum(tl.load(x_ptr + offsets, mask=mask), 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel = relu_kernel.warmup(x, out, x.numel(), BLOCK=1024, grid=(1,))
        kernel._init_handles()
        kernel[(132 * 65536 // (kernel.n_regs * 128),)](x, out, x.numel(), 1024)
        return out
