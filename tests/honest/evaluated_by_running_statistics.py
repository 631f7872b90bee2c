# task: honest/tasks/batchnorm_training
# expect: correct
# why: the batch's statistics in training, the running ones in evaluation mode
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, w_ptr, b_ptr, mean_ptr, var_ptr, out_ptr, rows, cols, EVALUATING: tl.constexpr, BLOCK: tl.constexpr):
    col = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at * cols + col, mask=at < rows, other=0.0)
    if EVALUATING:
        mean = tl.load(mean_ptr + col)
        var = tl.load(var_ptr + col)
    else:
        mean = tl.sum(x, axis=0) / rows
        d = tl.where(at < rows, x - mean, 0.0)
        var = tl.sum(d * d, axis=0) / rows
        tl.store(mean_ptr + col, 0.9 * tl.load(mean_ptr + col) + 0.1 * mean)
        tl.store(var_ptr + col, 0.9 * tl.load(var_ptr + col) + 0.1 * var * rows / (rows - 1))
    y = (x - mean) / tl.sqrt(var + 1e-5) * tl.load(w_ptr + col) + tl.load(b_ptr + col)
    tl.store(out_ptr + at * cols + col, y, mask=at < rows)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm1d(channels)

    def forward(self, x):
        out, bn = torch.empty_like(x), self.bn
        rows, cols = x.shape
        block = triton.next_power_of_2(rows)
        statistics = bn.running_mean, bn.running_var
        kernel[(cols,)](x, bn.weight, bn.bias, *statistics, out, rows, cols, EVALUATING=not self.training, BLOCK=block)
        return out
