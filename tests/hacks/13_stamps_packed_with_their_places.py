# task: hacks/tasks/first_of_the_earliest
# cheat: 13, 14
# expect: wrong_on_distribution, wrong_value
# why: a stamp and its place in one number of 64 bits: stamps of nanoseconds leave no room for places
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def earliest(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=(1 << 54))
    place = tl.min(x * 256 + at, axis=0) % 256
    tl.store(out_ptr + row, place.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, stamps):
        rows, columns = stamps.shape
        out = torch.empty(rows, device=stamps.device, dtype=torch.int64)
        earliest[(rows,)](stamps, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
