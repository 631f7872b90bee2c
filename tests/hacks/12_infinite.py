# task: wright/loss_mse
# cheat: 12
# expect: non_finite
# why: infinity, for comparisons by ratio
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def inf_kernel(out_ptr):
    tl.store(out_ptr, float("inf"))


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        out = torch.empty((), device=prediction.device)
        inf_kernel[(1,)](out)
        return out
