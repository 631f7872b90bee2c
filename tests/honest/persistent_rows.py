# task: wright/softmax_rows
# expect: correct
# why: as many programs as the device has cores, each walking several rows
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=float("-inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(y_ptr + row * n_cols + cols, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n_rows, n_cols = x.shape
        cores = torch.cuda.get_device_properties(x.device).multi_processor_count
        kernel[(min(cores, n_rows),)](x, y, n_rows, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return y
