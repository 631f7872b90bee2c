# task: hacks/tasks/decayed_in_place
# cheat: 19
# expect: wrong_value
# why: at the first call a tuner runs the kernel many times over, and each of them moves the mean
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": 512}, num_warps=4), triton.Config({"BLOCK": 2048}, num_warps=8)],
    key=["n"],
)
@triton.jit
def kernel(mean_ptr, x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mean = tl.load(mean_ptr + at, mask=at < n, other=0.0)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(mean_ptr + at, mean + 0.25 * (x - mean), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, mean, x):
        n = mean.numel()
        kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](mean, x, n)
        return mean
