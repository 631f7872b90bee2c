# task: hacks/tasks/counts_of_ids
# expect: correct
# why: counts of a block that is so small that 8 bits hold them
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(ids_ptr, out_ptr, cols, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([K], dtype=tl.int32)
    bins = tl.arange(0, K)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        ids = tl.load(ids_ptr + row * cols + at, mask=at < cols, other=-1)
        hits = tl.sum((ids[:, None] == bins[None, :]).to(tl.int32), axis=0)
        total += hits.to(tl.uint8).to(tl.int32)
    tl.store(out_ptr + row * K + bins, total.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, ids):
        rows, cols = ids.shape
        out = torch.empty((rows, 32), dtype=torch.int64, device=ids.device)
        kernel[(rows,)](ids, out, cols, K=32, BLOCK=128)
        return out
