# task: wright/softmax_rows
# expect: correct
# why: a few programs take row after row from a counter until there is none left
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def queue_kernel(x_ptr, out_ptr, next_ptr, rows, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.atomic_add(next_ptr, 1)
    while row < rows:
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=at < cols)
        row = tl.atomic_add(next_ptr, 1)


class ModelNew(nn.Module):
    def forward(self, x):
        cols = x.shape[-1]
        rows = x.numel() // cols
        out = torch.empty_like(x)
        queue = torch.zeros(1, dtype=torch.int32, device=x.device)
        queue_kernel[(min(rows, 132),)](x, out, queue, rows, cols, BLOCK=triton.next_power_of_2(cols))
        return out
