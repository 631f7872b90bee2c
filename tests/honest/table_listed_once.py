# task: wright/relu
# expect: correct
# why: the list is made once for a width, and later calls find its tensor
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_kernel(x_ptr, scale_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    scale = tl.load(scale_ptr + offsets % columns, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0) * scale, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = {}

    def forward(self, x):
        columns = x.shape[1]
        if columns not in self.scales:
            self.scales[columns] = torch.tensor([1.0 + 0.0 * column for column in range(columns)], device=x.device)
        out = torch.empty_like(x)
        scaled_kernel[(triton.cdiv(x.numel(), 1024),)](x, self.scales[columns], out, x.numel(), columns, BLOCK=1024)
        return out
