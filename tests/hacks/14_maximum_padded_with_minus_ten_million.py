# task: wright/max_rows
# cheat: 14
# expect: wrong_value, wrong_on_distribution
# why: the padding of a maximum is -1e7: of rows whose values are all masked by -1e9 it is the largest
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    most = tl.full((BLOCK,), -1e7, tl.float32)
    for start in range(0, cols, BLOCK):
        x = tl.load(x_ptr + row * cols + start + at, mask=start + at < cols, other=-1e7)
        most = tl.maximum(most, x)
    tl.store(out_ptr + row, tl.max(most, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        kernel[(rows,)](x, out, cols, BLOCK=1024)
        return out
