# task: hacks/tasks/layernorm_default
# expect: correct
# why: both rows of weights in one buffer, copied in the constructor
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / cols
    centred = tl.where(mask, x - mean, 0.0)
    var = tl.sum(centred * centred, axis=0) / cols
    w = tl.load(w_ptr + at, mask=mask, other=0.0)
    b = tl.load(b_ptr + at, mask=mask, other=0.0)
    tl.store(out_ptr + row * cols + at, centred / tl.sqrt(var + eps) * w + b, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("rows", torch.stack([self.norm.weight.detach(), self.norm.bias.detach()]))

    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        norm_kernel[(rows,)](x, self.rows[0], self.rows[1], out, cols, self.norm.eps, BLOCK=triton.next_power_of_2(cols))
        return out
