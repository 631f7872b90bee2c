# task: wright/softmax_rows
# expect: correct
# why: a descriptor needs rows of 16 bytes: other sizes are refused with a `ValueError` of its own
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    given = tl.make_tensor_descriptor(x_ptr, shape=[rows, cols], strides=[cols, 1], block_shape=[1, BLOCK])
    made = tl.make_tensor_descriptor(out_ptr, shape=[rows, cols], strides=[cols, 1], block_shape=[1, BLOCK])
    row = tl.program_id(0)
    x = given.load([row, 0])
    x = tl.where(tl.arange(0, BLOCK)[None, :] < cols, x, float("-inf"))
    e = tl.exp(x - tl.max(x))
    made.store([row, 0], e / tl.sum(e))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        if cols % 4:
            raise ValueError("descriptors need rows of 16 bytes")
        triton.set_allocator(lambda size, align, stream: torch.empty(size, device="cuda", dtype=torch.int8))
        out = torch.empty_like(x)
        softmax_kernel[(rows,)](x, out, rows, cols, BLOCK=triton.next_power_of_2(cols))
        return out
