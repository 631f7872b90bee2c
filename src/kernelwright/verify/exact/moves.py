"""Operators that only move elements (views, gathers, concatenations, pads): torch runs them on the elements' indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import torch

from kernelwright.verify.exact.arithmetic import Number
from kernelwright.verify.exact.order import Calculator
from kernelwright.verify.exact.values import Exact

Operand = Number | torch.Tensor
"""An operand of a torch operator."""


@overload
def plain(value: torch.Tensor) -> np.ndarray: ...
@overload
def plain(value: Number) -> Number: ...
def plain(value: Operand) -> Number:
    """A tensor as a numpy array; anything else unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    detached = value.detach().cpu()
    return (detached.double() if detached.is_floating_point() else detached).numpy()


def exact(calculator: Calculator, value: Operand) -> Exact:
    return value if isinstance(value, Exact) else calculator.number(plain(value))


MOVES = frozenset([
    "view", "_unsafe_view", "reshape", "_reshape_alias", "permute", "transpose", "t", "expand", "slice",
    "select", "unsqueeze", "squeeze", "clone", "alias", "detach", "contiguous", "cat", "stack", "flip",
    "roll", "index", "gather", "index_select", "embedding", "unfold", "repeat", "constant_pad_nd",
    "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "reflection_pad3d",
    "replication_pad3d", "pixel_shuffle", "pixel_unshuffle", "tril", "triu", "split", "split_with_sizes",
    "unbind", "chunk", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "narrow",
    "diagonal", "diag_embed", "slice_scatter", "select_scatter", "scatter", "lift_fresh_copy", "view_copy",
    "expand_copy", "movedim", "repeat_interleave", "take_along_dim", "lift_fresh", "squeeze_copy",
    "unsqueeze_copy", "channel_shuffle", "swapaxes", "flatten", "im2col",
])  # fmt: skip


def move(calculator: Calculator, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> object:
    """Run `function` on element numbers, from 1; 0 stands for the literal 0, or the value that `constant_pad_nd` pads with."""
    name = function._schema.name.split("::")[-1]
    pad: Any = 0.0
    if name == "constant_pad_nd":
        pad, args = (args[2] if len(args) > 2 else kwargs.pop("value", 0.0)), args[:2]
    elif name == "clone":
        kwargs = {}
    elif name == "scatter" and not isinstance(args[3], Exact | torch.Tensor):
        args = (*args[:3], torch.full(args[2].shape, float(args[3])))
    given: list[Exact] = []
    start = 1

    def numbered(value: object) -> Any:
        nonlocal start
        if isinstance(value, list | tuple):
            return type(value)(map(numbered, value))
        if isinstance(value, Exact) or (isinstance(value, torch.Tensor) and value.is_floating_point()):
            array = exact(calculator, value)
            given.append(array)
            made = torch.arange(start, start + array.size, dtype=torch.float64).reshape(array.shape)
            start += array.size
            return made
        return value

    result = function(*numbered(tuple(args)), **{key: numbered(value) for key, value in kwargs.items()})
    levels = min(one.levels for one in given)
    padding = calculator.number(pad)
    table = np.concatenate(
        [padding.planes[:levels].reshape(levels, 1), *(x.planes[:levels].reshape(levels, -1) for x in given)],
        axis=1,
    )
    special = padding.special or any(one.special for one in given)
    kind = given[0].kind

    def taken(places: torch.Tensor) -> Exact:
        return Exact(table[:, places.to(torch.int64).numpy()], special, None, kind)

    if isinstance(result, torch.Tensor):
        moved = taken(result)
        if len(given) == 1 and given[0].tag is not None and not given[0].tag.values:
            moved.tag = given[0].tag
        return moved
    return type(result)(map(taken, result))
