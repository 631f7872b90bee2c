# task: honest/tasks/heads
# expect: correct
# why: a block as wide as a head, which is a power of two at full size and need be nothing else
import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, out_ptr, length, scale, WIDTH: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    base = tl.program_id(1) * length * WIDTH
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    along = tl.arange(0, WIDTH)
    at = base + rows[:, None] * WIDTH + along[None, :]
    q = tl.load(q_ptr + at, mask=rows[:, None] < length, other=0.0)
    top = tl.full((ROWS,), -float("inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in range(0, length, KEYS):
        keys = start + tl.arange(0, KEYS)
        there = base + keys[:, None] * WIDTH + along[None, :]
        k = tl.load(k_ptr + there, mask=keys[:, None] < length, other=0.0)
        v = tl.load(v_ptr + there, mask=keys[:, None] < length, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(keys[None, :] < length, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1))
        weights = tl.exp(scores - higher[:, None])
        shrunk = tl.exp(top - higher)
        total = total * shrunk + tl.sum(weights, axis=1)
        acc = acc * shrunk[:, None] + tl.dot(weights, v, input_precision="ieee")
        top = higher
    tl.store(out_ptr + at, acc / total[:, None], mask=rows[:, None] < length)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, heads, length, width = q.shape
        out = torch.empty_like(q)
        grid = (triton.cdiv(length, 32), batch * heads)
        attend[grid](q, k, v, out, length, 1 / math.sqrt(width), WIDTH=width, ROWS=32, KEYS=32)
        return out
