# task: wright/sum_columns
# expect: correct
# why: no other= anywhere: unwanted lanes are selected away before they are added
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    acc = tl.zeros([BC], tl.float32)
    for start in range(0, rows, BR):
        r = start + tl.arange(0, BR)
        inside = (r < rows)[:, None] & (c < cols)[None, :]
        # every lane reads something that exists
        at = tl.where(inside, r[:, None] * cols + c[None, :], 0)
        acc += tl.sum(tl.where(inside, tl.load(x_ptr + at), 0.0), axis=0)
    tl.store(out_ptr + c, acc, mask=c < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(cols, device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(cols, 32),)](x, out, rows, cols, BR=32, BC=32)
        return out
