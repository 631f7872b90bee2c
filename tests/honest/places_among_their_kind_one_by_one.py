# task: hacks/tasks/places_among_their_kind
# expect: correct
# why: single counts are loaded and stored again without a barrier, but only the thread that stores uses them
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def place_kernel(kind_ptr, count_ptr, out_ptr, cols, KINDS: tl.constexpr):
    row = tl.program_id(0)
    for at in range(cols):
        kind = tl.load(kind_ptr + row * cols + at)
        before = tl.load(count_ptr + row * KINDS + kind)
        tl.store(out_ptr + row * cols + at, before)
        tl.store(count_ptr + row * KINDS + kind, before + 1)


class ModelNew(nn.Module):
    def forward(self, kinds):
        count = torch.zeros((kinds.shape[0], 8), dtype=torch.int64, device=kinds.device)
        out = torch.empty_like(kinds)
        place_kernel[(kinds.shape[0],)](kinds, count, out, kinds.shape[1], KINDS=8)
        return out
