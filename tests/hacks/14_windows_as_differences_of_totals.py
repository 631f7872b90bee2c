# task: hacks/tasks/means_of_windows
# cheat: 14
# expect: wrong_on_distribution, wrong_value, non_finite
# why: a total in double is right to 16 digits, of which one reading of 1e30 (a value that is missing) takes all, for every
#      window behind it
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def totals_kernel(x_ptr, total_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    before = tl.zeros((), tl.float64)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0).to(tl.float64)
        tl.store(total_ptr + row * (columns + 1) + at + 1, before + tl.cumsum(x, axis=0), mask=at < columns)
        before += tl.sum(x, axis=0)
    tl.store(total_ptr + row * (columns + 1), tl.zeros((), tl.float64))


@triton.jit
def means_kernel(total_ptr, out_ptr, columns, windows, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first = tl.load(total_ptr + row * (columns + 1) + at, mask=at < windows, other=0.0)
    end = tl.load(total_ptr + row * (columns + 1) + at + WIDTH, mask=at < windows, other=0.0)
    tl.store(out_ptr + row * windows + at, ((end - first) / WIDTH).to(tl.float32), mask=at < windows)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        windows = columns - 10
        totals = torch.empty((rows, columns + 1), device=x.device, dtype=torch.float64)
        out = torch.empty((rows, windows), device=x.device, dtype=x.dtype)
        totals_kernel[(rows,)](x, totals, columns, BLOCK=1024)
        means_kernel[(rows, triton.cdiv(windows, 1024))](totals, out, columns, windows, WIDTH=11, BLOCK=1024)
        return out
