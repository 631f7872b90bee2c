# task: wright/logsumexp_rows
# expect: correct
# why: a torch.empty workspace of which only part is used, and never all read
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def peaks(x_ptr, work_ptr, n_cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n_cols + c, mask=c < n_cols, other=float("-inf"))
    tl.store(work_ptr + tl.program_id(0) * 16, tl.max(x, axis=0))


@triton.jit
def finish(x_ptr, work_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n_cols + c, mask=c < n_cols, other=float("-inf"))
    peak = tl.load(work_ptr + tl.program_id(0) * 16)
    tl.store(out_ptr + tl.program_id(0), peak + tl.log(tl.sum(tl.exp(x - peak), axis=0)))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        work = torch.empty((rows + 7, 16), device=x.device, dtype=torch.float32)
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        block = triton.next_power_of_2(cols)
        peaks[(rows,)](x, work, cols, BLOCK=block)
        finish[(rows,)](x, work, out, cols, BLOCK=block)
        return out
