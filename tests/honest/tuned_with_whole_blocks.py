# task: wright/max_rows
# expect: correct
# why: configurations of which some have whole blocks at full size only
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": one}, num_warps=4) for one in (128, 512, 1024, 2048)],
    key=["cols"],
)
@triton.heuristics({"EVEN": lambda given: given["cols"] % given["BLOCK"] == 0})
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
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        max_kernel[(rows,)](x, out, cols)
        return out
