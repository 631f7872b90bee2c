# task: wright/softmax_rows
# expect: correct
# why: the launch lives in a mixin, the sizes in a property, forward in a base class
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n_cols + cols
    x = tl.load(x_ptr + at, mask=cols < n_cols, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + at, e / tl.sum(e, axis=0), mask=cols < n_cols)


class Launches:
    @property
    def warps(self):
        return 4

    def launch(self, x, y):
        kernel[(x.size(0),)](x, y, x.size(1), BLOCK=triton.next_power_of_2(x.size(1)), num_warps=self.warps)
        return y


class Base(nn.Module):
    def forward(self, *inputs):
        (x,) = inputs
        return self.launch(x, torch.empty_like(x))


class ModelNew(Launches, Base):
    pass
