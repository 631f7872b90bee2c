# task: wright/masked_softmax
# expect: correct
# why: a boolean row mask is broadcast over heads and queries by index
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, keep_ptr, out_ptr, heads, queries, keys, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    batch = row // (heads * queries)
    at = tl.arange(0, BLOCK)
    mask = at < keys
    keep = tl.load(keep_ptr + batch * keys + at, mask=mask, other=0) != 0
    x = tl.load(x_ptr + row * keys + at, mask=mask, other=0.0) * scale
    x = tl.where(keep & mask, x, -float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * keys + at, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.scale = head_dim**-0.5

    def forward(self, scores, keep):
        batch, heads, queries, keys = scores.shape
        out = torch.empty_like(scores)
        kernel[(batch * heads * queries,)](
            scores, keep, out, heads, queries, keys, self.scale, BLOCK=triton.next_power_of_2(keys)
        )
        return out
