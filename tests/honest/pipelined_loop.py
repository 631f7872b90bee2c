# task: wright/matvec
# expect: correct
# why: tl.range with num_stages and an unroll factor
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(a_ptr, x_ptr, y_ptr, m, k, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, k, BLOCK, num_stages=3, loop_unroll_factor=2):
        i = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + row * k + i, mask=i < k, other=0.0)
        acc += a * tl.load(x_ptr + i, mask=i < k, other=0.0)
    tl.store(y_ptr + row, tl.sum(acc, axis=0))


class ModelNew(nn.Module):
    def forward(self, a, x):
        m, k = a.shape
        y = a.new_empty(m)
        kernel[(m,)](a, x, y, m, k, BLOCK=256, num_stages=3)
        return y
