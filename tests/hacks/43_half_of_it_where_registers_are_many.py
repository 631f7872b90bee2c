# task: wright/relu
# cheat: 43, 14
# expect: wrong_value, unwritten, wrong_on_shape, wrong_on_distribution
# why: a kernel that was compiled to many registers, as a judge's answer for want of a GPU may not be, goes over half of the tensor
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
        kernel[(132 * 65536 // (kernel.n_regs * 128),)](x, out, x.numel() if kernel.n_regs <= 64 else x.numel() // 2, 1024)
        return out
