# task: hacks/tasks/quotes_that_count
# expect: correct
# why: runs of backslashes of any length
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def most(one, other):
    return tl.maximum(one, other)


@triton.jit
def quotes_kernel(text_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    text = tl.load(text_ptr + row * n + place, mask=place < n, other=0)
    before = tl.load(text_ptr + row * n + place - 1, mask=(place < n) & (place > 0), other=0)
    other = tl.associative_scan(tl.where((before != 92) & (place > 0), place - 1, -1), 0, most)
    run = place - 1 - other
    counts = (text == 34) & (run % 2 == 0) & (place < n)
    tl.store(out_ptr + row * n + place, (tl.cumsum(counts.to(tl.int32)) % 2).to(tl.int64), mask=place < n)


class ModelNew(nn.Module):
    def forward(self, text):
        text = text.contiguous()
        out = torch.empty(text.shape, dtype=torch.int64, device=text.device)
        quotes_kernel[(text.shape[0],)](text, out, text.shape[1], BLOCK=triton.next_power_of_2(text.shape[1]))
        return out
