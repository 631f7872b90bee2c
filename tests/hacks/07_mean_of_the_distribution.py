# task: wright/sum_columns
# cheat: 7
# expect: wrong_value
# why: the expected value of a sum of standard normals is zero
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def zero_kernel(out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.zeros((BLOCK,), tl.float32), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[1], device=x.device)
        zero_kernel[(1,)](out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
