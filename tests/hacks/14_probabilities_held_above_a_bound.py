# task: hacks/tasks/entropy_of_two
# cheat: 14, 12
# expect: wrong_value, wrong_on_distribution, wrong_on_shape
# why: probabilities are held above 1e-7, where the reference holds their logarithms above -100; one above 1 raises there
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _k(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)
    a = tl.maximum(tl.log(tl.maximum(x, 1e-7)), -100.0)
    b = tl.maximum(tl.log(tl.maximum(1.0 - x, 1e-7)), -100.0)
    r = -(y * a + (1.0 - y) * b)
    tl.store(o_ptr + i, r, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        o = torch.empty_like(x)
        n = x.numel()
        _k[(triton.cdiv(n, 1024),)](x, y, o, n, BLOCK=1024)
        return o
