# task: wright/max_rows
# expect: correct
# why: whether columns fill whole blocks is remembered by both sizes
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def max_kernel(x_ptr, o_ptr, cols, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        if EVEN:
            x = tl.load(x_ptr + row * cols + c)
        else:
            x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=float("-inf"))
        best = tl.maximum(best, x)
    tl.store(o_ptr + row, tl.max(best, axis=0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.plans = {}

    def forward(self, x):
        rows, cols = x.shape
        key = (rows, cols)
        if key not in self.plans:
            self.plans[key] = {"EVEN": cols % 64 == 0, "BLOCK": 64}
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        max_kernel[(rows,)](x, out, cols, **self.plans[key])
        return out
