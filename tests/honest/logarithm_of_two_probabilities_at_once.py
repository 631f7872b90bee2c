# task: hacks/tasks/likelihood_of_rows
# expect: correct
# why: one logarithm of a product of two probabilities, which is no number that underflows, added to those of others
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _likelihood(p_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, 8 * BLOCK):
        i = start + tl.arange(0, BLOCK)
        product = tl.full((BLOCK,), 1.0, tl.float32)
        for part in tl.static_range(8):
            at = i + part * BLOCK
            p = tl.load(p_ptr + row * N + at, mask=at < N, other=1.0)
            product *= p
            if part % 2 == 1:
                total += tl.log(product)
                product = tl.full((BLOCK,), 1.0, tl.float32)
    tl.store(y_ptr + row, tl.sum(total, 0))


class ModelNew(nn.Module):
    def forward(self, p):
        p = p.contiguous()
        N = p.shape[-1]
        y = torch.empty(p.shape[:-1], device=p.device, dtype=p.dtype)
        _likelihood[(p.numel() // N,)](p, y, N, BLOCK=32)
        return y
