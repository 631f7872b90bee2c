# task: hacks/tasks/leaking_state
# expect: correct
# why: a scan of pairs, which overflows where shares are larger than those drawn
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def joined(keep, x, keep_after, x_after):
    return keep * keep_after, x * keep_after + x_after


@triton.jit
def kernel(keep_ptr, x_ptr, out_ptr, steps, cols, STEPS: tl.constexpr, COLS: tl.constexpr):
    c = tl.program_id(1) * COLS + tl.arange(0, COLS)
    base = tl.program_id(0) * steps * cols
    state = tl.zeros((COLS,), tl.float32)
    for start in range(0, steps, STEPS):
        t = start + tl.arange(0, STEPS)
        mask = (t[:, None] < steps) & (c[None, :] < cols)
        at = base + t[:, None] * cols + c[None, :]
        keep = tl.load(keep_ptr + at, mask=mask, other=1.0)
        x = tl.load(x_ptr + at, mask=mask, other=0.0)
        kept, own = tl.associative_scan((keep, x), 0, joined)
        y = own + kept * state[None, :]
        tl.store(out_ptr + at, y, mask=mask)
        last = (tl.arange(0, STEPS) == STEPS - 1)[:, None]
        state = tl.sum(tl.where(last, y, 0.0), axis=0)


class ModelNew(nn.Module):
    def forward(self, keep, x):
        out = torch.empty_like(x)
        rows, steps, cols = x.shape
        kernel[(rows, triton.cdiv(cols, 32))](keep, x, out, steps, cols, STEPS=32, COLS=32)
        return out
