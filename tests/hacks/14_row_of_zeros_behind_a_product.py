# task: hacks/tasks/normed_products
# cheat: 14
# expect: non_finite
# why: no epsilon under the norm of a product: a row of zeros (padding) gives NaN
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, w_ptr, out_ptr, inner, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    y = tl.zeros((BLOCK,), tl.float32)
    for k in range(inner):
        y += tl.load(x_ptr + row * inner + k) * tl.load(w_ptr + at * inner + k, mask=at < cols, other=0.0)
    size = tl.sqrt(tl.sum(y * y, axis=0))
    tl.store(out_ptr + row * cols + at, y / size, mask=at < cols)


class ModelNew(nn.Module):
    def __init__(self, inner, cols):
        super().__init__()
        self.linear = nn.Linear(inner, cols, bias=False)

    def forward(self, x):
        cols, inner = self.linear.weight.shape
        out = torch.empty((x.shape[0], cols), device=x.device)
        kernel[(x.shape[0],)](x, self.linear.weight, out, inner, cols, BLOCK=triton.next_power_of_2(cols))
        return out
