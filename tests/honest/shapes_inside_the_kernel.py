# task: wright/max_rows
# expect: correct
# why: reshape, expand_dims, broadcast_to, trans and ravel inside the kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + c, mask=c < n_cols, other=float("-inf"))
    square = tl.trans(tl.reshape(x, (BLOCK // 16, 16)))
    best = tl.max(square, axis=1)
    wide = tl.broadcast_to(tl.expand_dims(best, 1), (16, 2))
    tl.store(out_ptr + row, tl.max(tl.ravel(wide), axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        n_rows, n_cols = x.shape
        out = torch.empty(n_rows, device=x.device, dtype=x.dtype)
        kernel[(n_rows,)](x, out, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return out
