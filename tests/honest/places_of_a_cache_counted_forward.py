# task: honest/tasks/rows_put_into_a_cache
# expect: correct
# why: places to write to are counted forward, as lengths are; -1 is the last place to torch, and none that the task draws
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def put_kernel(new_ptr, cache_ptr, places_ptr, out_ptr, length, cols, BLOCK: tl.constexpr):
    sequence = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    place = tl.load(places_ptr + sequence)
    new = tl.load(new_ptr + sequence * cols + at, mask=inside)
    total = new
    for earlier in range(0, place):
        total += tl.load(cache_ptr + (sequence * length + earlier) * cols + at, mask=inside)
    tl.store(cache_ptr + (sequence * length + place) * cols + at, new, mask=inside)
    tl.store(out_ptr + sequence * cols + at, total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, new, cache, places):
        assert cache.is_contiguous()
        new, places = new.contiguous(), places.contiguous()
        out = torch.empty_like(new)
        batch, length, cols = cache.shape
        put_kernel[(batch,)](new, cache, places, out, length, cols, BLOCK=triton.next_power_of_2(cols))
        return out
