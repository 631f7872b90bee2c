# task: hacks/tasks/drawn_tokens
# expect: correct
# why: the logarithm of noise above 1 is no number, and of those nobody is the largest
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def draw_kernel(x_ptr, u_ptr, o_ptr, vocab, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    best = tl.full([], float("-inf"), tl.float32)
    place = tl.full([], 0, tl.int32)
    for start in range(0, vocab, BLOCK):
        at = start + c
        u = tl.load(u_ptr + row * vocab + at, mask=at < vocab, other=0.5)
        x = tl.load(x_ptr + row * vocab + at, mask=at < vocab, other=0.0) - tl.log(-tl.log(u))
        x = tl.where(at < vocab, x, float("-inf"))
        here = tl.max(x, axis=0)
        place = tl.where(here > best, start + tl.argmax(x, axis=0), place)
        best = tl.maximum(best, here)
    tl.store(o_ptr + row, place.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, scores, noise):
        out = torch.empty(scores.shape[0], dtype=torch.int64, device=scores.device)
        draw_kernel[(scores.shape[0],)](scores, noise, out, scores.shape[1], BLOCK=1024)
        return out
