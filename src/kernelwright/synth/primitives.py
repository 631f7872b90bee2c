"""Primitive operations: the form of a graph for schedules, to which every supported ATen operator is lowered.

Elementwise rules, moves (views, permutations, slices, concatenation, padding), reductions, scans, windows, gathers, and three
contractions (`matmul`, `conv`, `attention`). Normalisations, softmaxes and losses become reductions and maps. Values carry
their dtype and the sizes at capture; `shapes.py` determines which vary.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from kernelwright.precision import FLOATS, HALF

_RANK = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


class Unsupported(Exception):
    """The library has no schedule for this graph; the message says which operator."""


@dataclasses.dataclass(frozen=True)
class Val:
    """A value by name, with its dtype and hinted sizes."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS


@dataclasses.dataclass(frozen=True)
class Prim:
    """One primitive operation: `Prim("add", (x, 2.0), out)`."""

    op: str
    args: tuple[Any, ...]
    out: Val
    attrs: tuple[tuple[str, Any], ...] = ()

    def attr(self, name: str) -> Any:
        return dict(self.attrs)[name]

    def reads(self) -> list[Val]:
        found: list[Val] = []
        for one in self.args:
            found.extend([one] if isinstance(one, Val) else one if isinstance(one, tuple) else [])
        return [one for one in found if isinstance(one, Val)]


def promote(*dtypes: str) -> str:
    """The dtype to which operands promote; float16 with bfloat16 gives float32."""
    return "float32" if set(HALF) <= set(dtypes) else max(dtypes, key=_RANK.index)


def wide(dtype: str) -> str:
    """The type in which a float is computed."""
    return "float32" if dtype in HALF else dtype


def add_name(wanted: str, taken: set[str]) -> str:
    """The wanted name or, if it is taken, the same with the next free number; it is taken from then on."""
    name, number = wanted, 1
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name


class Builder:
    """Appends primitives in order, with dtypes and hinted sizes."""

    def __init__(self) -> None:
        self.prims: list[Prim] = []
        self._names: set[str] = set()

    def name(self, wanted: str) -> str:
        """A new value name, based on `wanted`."""
        return add_name(wanted, self._names)

    def add(
        self, op: str, args: tuple[Any, ...], dtype: str, shape: tuple[int, ...], name: str = "", **attrs: Any
    ) -> Val:
        """Append a primitive and return its value."""
        out = Val(name or self.name(op), dtype, tuple(map(int, shape)))
        self._names.add(out.name)
        self.prims.append(Prim(op, args, out, tuple(attrs.items())))
        return out

    def map(self, op: str, *args: Any, dtype: str = "", name: str = "") -> Val:
        """Append an elementwise rule; by default the result's dtype is the operands' promoted one."""
        values = [one for one in args if isinstance(one, Val)]
        dtype = dtype or wide(promote(*(one.dtype for one in values)))
        return self.add(op, args, dtype, broadcast(*(one.shape for one in values)), name)

    def reduce(
        self, op: str, x: Val, dims: tuple[int, ...], keep: bool, dtype: str = "", name: str = ""
    ) -> Val:
        """Append a reduction over the given dimensions."""
        dims = tuple(sorted(dim % max(len(x.shape), 1) for dim in dims)) if x.shape else ()
        shape = [1 if i in dims else size for i, size in enumerate(x.shape)]
        if not keep:
            shape = [size for i, size in enumerate(shape) if i not in dims]
        return self.add(op, (x,), dtype or wide(x.dtype), tuple(shape), name, dims=dims, keep=keep)

    def view(
        self, x: Val, shape: tuple[int, ...], like: Val | None = None, fixed: tuple[int, ...] = ()
    ) -> Val:
        """Append a view. `like`: a value with that shape, with which the sizes vary. `fixed`: dimensions whose sizes are an operator's
        own numbers, whatever other sizes equal them at capture."""
        return self.add("view", (x,), x.dtype, shape, like="" if like is None else like.name, fixed=fixed)

    def permute(self, x: Val, order: tuple[int, ...], name: str = "") -> Val:
        order = tuple(one % len(order) for one in order)
        return self.add("permute", (x,), x.dtype, tuple(x.shape[i] for i in order), name, order=order)

    def count(self, x: Val, dims: tuple[int, ...], correction: float = 0.0) -> Val:
        """The number of elements in the dimensions, as a float scalar."""
        dims = tuple(dim % len(x.shape) for dim in dims)
        return self.add("count", (x,), "float32", (), dims=dims, correction=correction)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which all broadcast."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*padded, strict=True))


REDUCTIONS = ("sum", "amax", "amin", "prod", "any", "all", "argmax", "argmin")
SCANS = ("cumsum", "cumprod")
CONTRACTIONS = ("matmul", "conv", "attention")
