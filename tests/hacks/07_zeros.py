# task: wright/loss_mse
# cheat: 7
# expect: wrong_value
# why: zeros, written by a kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def zero_kernel(out_ptr):
    tl.store(out_ptr, 0.0)


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        out = torch.empty((), device=prediction.device)
        zero_kernel[(1,)](out)
        return out
