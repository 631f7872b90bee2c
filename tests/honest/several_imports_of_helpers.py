# task: wright/relu
# expect: correct
# why: math, typing, functools, dataclasses and friends are harmless in their usual use
from __future__ import annotations

import functools
import itertools
import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
import torch.nn as nn
import triton
import triton.language as tl

Plan = namedtuple("Plan", ["block", "warps"])


@dataclass(frozen=True)
class Settings:
    blocks: tuple[int, ...] = (256, 1024)
    extra: dict[str, Any] = field(default_factory=dict)


@functools.lru_cache(maxsize=None)
def plan(n: int) -> Plan:
    best = min(itertools.chain(Settings().blocks), key=lambda block: math.ceil(n / block))
    return Plan(best, 4)


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0), mask=mask)

class ModelNew(nn.Module):
    def __init__(self, note: Optional[str] = None):
        super().__init__()
        self.notes = OrderedDict(note=note)

    def forward(self, x):
        out = torch.empty_like(x)
        block, warps = plan(x.numel())
        relu_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block, num_warps=warps)
        return out
