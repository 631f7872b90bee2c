# task: wright/softmax_rows
# expect: correct
# why: rows and columns are kept by the whole shape
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    made = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * cols + at, made / tl.sum(made, axis=0), mask=at < cols)


class ModelNew(nn.Module):
    def __init__(self, *given):
        super().__init__()
        self.plans = {}

    def forward(self, x):
        x, out = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
        key = tuple(x.shape)
        if key not in self.plans:
            self.plans[key] = x.numel() // x.shape[-1], x.shape[-1]
        rows, cols = self.plans[key]
        softmax_kernel[(rows,)](x, out, cols, BLOCK=triton.next_power_of_2(cols))
        return out
