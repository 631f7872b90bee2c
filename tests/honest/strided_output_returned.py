# task: wright/relu
# expect: correct
# why: the same slice returned as it is: strides are not part of the contract
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols)
    tl.store(out_ptr + row * stride + at, tl.maximum(x, 0.0), mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        padded = torch.empty((rows, cols + 5), device=x.device, dtype=x.dtype)
        relu_kernel[(rows,)](x, padded, cols, padded.stride(0), BLOCK=triton.next_power_of_2(cols))
        return padded[:, :cols]
