# task: wright/add_relu
# expect: correct
# why: copies and views before the launch compute nothing
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add_relu_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask) + tl.load(y_ptr + at, mask=mask)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, residual):
        self.x = x.contiguous().view(-1)
        self.residual = residual.contiguous().reshape(-1)
        out = torch.empty_like(self.x)
        add_relu_kernel[(triton.cdiv(out.numel(), 256),)](self.x, self.residual, out, out.numel(), BLOCK=256)
        return out.view(x.shape)
