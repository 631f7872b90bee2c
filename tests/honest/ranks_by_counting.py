# task: hacks/tasks/ranks_among_times
# expect: correct
# why: times are counted, which is a search only where they are sorted
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(times_ptr, x_ptr, out_ptr, n, events, BLOCK: tl.constexpr, EVENTS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    event = tl.arange(0, EVENTS)
    times = tl.load(times_ptr + event, mask=event < events, other=0.0)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    come = (times[None, :] <= x[:, None]) & (event < events)[None, :]
    tl.store(out_ptr + at, tl.sum(come.to(tl.int32), axis=1).to(tl.int64), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, times, x):
        out = torch.empty(x.shape, dtype=torch.int64, device=x.device)
        kernel[(triton.cdiv(x.numel(), 256),)](
            times, x, out, x.numel(), times.numel(), BLOCK=256, EVENTS=triton.next_power_of_2(times.numel())
        )
        return out
