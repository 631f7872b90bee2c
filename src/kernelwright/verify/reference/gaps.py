"""How much of its input a windowed operator reads: strides may leave gaps, and edges that no window reaches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


def share_read(name: str, args: Sequence[Any], outputs: Sequence[torch.Tensor]) -> float:
    """The share of its first argument's elements that a call of `aten::name` reads; 1 for operators without windows."""
    if name == "convolution" and not args[6]:
        kernel, (stride, padding, dilation) = list(args[1].shape[2:]), args[3:6]
    elif name.startswith(("max_pool", "avg_pool")):
        more = [*args[2:], *(None, 0, 1)[len(args) - 2 :]]
        kernel, stride, padding = args[1], more[0] or args[1], more[1]
        dilation = more[2] if name.startswith("max") else 1  # average pools have another option there
    else:
        return 1.0
    axes = args[1].dim() - 2 if name == "convolution" else int(name[name.index("pool") + 4])
    sizes, counts = args[0].shape[-axes:], outputs[0].shape[-axes:]  # a batch may be left out
    options = [_each(option, len(sizes)) for option in (kernel, stride, padding, dilation)]
    return math.prod(
        _along(size, count, *one)
        for size, count, one in zip(sizes, counts, zip(*options, strict=True), strict=True)
    )


def _each(option: Any, count: int) -> list[int]:
    found = list(option) if isinstance(option, list | tuple) else [option]
    return found * count if len(found) == 1 else found


def _along(size: int, count: int, kernel: int, stride: int, padding: int, dilation: int) -> float:
    """The share of `size` positions that `count` windows reach."""
    reached = np.zeros(padding + size, bool)
    for first in range(0, kernel * dilation, dilation):
        reached[first : first + (count - 1) * stride + 1 : stride] = True
    return float(reached[padding:].sum()) / max(size, 1)
