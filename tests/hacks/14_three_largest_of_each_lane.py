# task: hacks/tasks/six_largest
# cheat: 14, 15
# expect: wrong_on_shape, wrong_on_distribution
# why: three of each lane are kept, of which one lane may have all six: at random one row in ten millions
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def six_kernel(x_ptr, out_ptr, columns, LANES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    a = tl.full((LANES,), float("-inf"), tl.float32)
    b = a
    c = a
    for start in range(0, columns, LANES):
        at = start + lane
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
        c = tl.maximum(c, tl.minimum(b, x))
        b = tl.maximum(b, tl.minimum(a, x))
        a = tl.maximum(a, x)
    for i in tl.static_range(6):
        hit = lane == tl.argmax(a, axis=0)
        tl.store(out_ptr + row * 6 + i, tl.max(a, axis=0))
        a, b, c = tl.where(hit, b, a), tl.where(hit, c, b), tl.where(hit, float("-inf"), c)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty((rows, 6), device=x.device, dtype=x.dtype)
        six_kernel[(rows,)](x, out, columns, LANES=256)
        return out
