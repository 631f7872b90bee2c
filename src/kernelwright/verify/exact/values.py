"""Arrays of residues, and of conditions on them.

An `Exact` stands for an array of real numbers that nobody knows. It has as many levels as its history leaves
(`field.py`), markers for what is infinite or undefined, and at most one tag: where its elements come from, for
identities that residues do not show (`arithmetic.py`).

Does not guarantee that an element of a condition is 0 or 1: where data decide, it is a residue like any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

UNDEFINED, BELOW, ABOVE, FAR_BELOW, FAR_ABOVE = -1, -2, -3, -4, -5
"""What a number is in place of a residue: nothing, minus infinity, infinity; and a number so large (1e30) that it is taken for
one, but for a difference with itself, which is 0."""
Kind = Literal["f", "b", "i"]
_DTYPES = {"f": np.dtype(np.float32), "b": np.dtype(np.bool_), "i": np.dtype(np.int32)}


class NotExact(Exception):
    """What exact arithmetic cannot follow, in a few words."""


@dataclasses.dataclass(frozen=True, eq=False)
class Tag:
    """Where an array comes from: `kind` says how to read the values."""

    kind: str
    values: tuple[Exact, ...] = ()

    def mapped(self, change: Callable[[np.ndarray], np.ndarray]) -> Tag:
        return Tag(self.kind, tuple(one.mapped(change) for one in self.values))


@dataclasses.dataclass(eq=False)
class Exact:
    """`planes` are (levels, *shape) residues, level 0 with markers where `special`."""

    planes: np.ndarray
    special: bool = False
    tag: Tag | None = None
    kind: Kind = "f"

    def mapped(self, change: Callable[[np.ndarray], np.ndarray]) -> Exact:
        """The same elements elsewhere: `change` moves those of an array whose first axis stays."""
        tag = None if self.tag is None else self.tag.mapped(change)
        return Exact(change(self.planes), self.special, tag, self.kind)

    def at(self, *index: Any) -> Exact:
        """Indexed as an array of numpy's is."""
        return self.mapped(lambda planes: planes[(slice(None), *index)])

    def taken(self, places: int | np.ndarray, axis: int) -> Exact:
        """Elements by number along an axis that counts from the first."""
        return self.mapped(lambda planes: np.take(planes, places, axis=axis + 1))

    def plain(self, kind: Kind | None = None) -> Exact:
        """Without its tag, and as another kind where one is named."""
        return Exact(self.planes, self.special, None, kind or self.kind)

    @property
    def levels(self) -> int:
        return len(self.planes)

    # What Triton's interpreter asks of the data of a tensor.

    @property
    def shape(self) -> tuple[int, ...]:
        return self.planes.shape[1:]

    @property
    def size(self) -> int:
        return int(self.planes[0].size)

    @property
    def ndim(self) -> int:
        return self.planes.ndim - 1

    @property
    def dtype(self) -> np.dtype:
        return _DTYPES[self.kind]

    @property
    def itemsize(self) -> int:
        return 1

    def reshape(self, *shape: object) -> Exact:
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        return self.mapped(lambda planes: planes.reshape(len(planes), *wanted))

    def astype(self, dtype: object) -> Exact:
        raise NotExact("an address or an integer from data")

    def tobytes(self) -> bytes:
        return self.planes.tobytes()

    def copy(self) -> Exact:
        return self

    def __array_function__(self, function: object, types: object, args: Any, kwargs: Any) -> object:
        if function is np.transpose:
            axes = args[1] if len(args) > 1 else kwargs.get("axes")
            order = tuple(range(self.ndim))[::-1] if axes is None else tuple(axes)
            return self.mapped(lambda planes: planes.transpose(0, *(axis + 1 for axis in order)))
        raise NotExact(f"numpy's {getattr(function, '__name__', function)} on data")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> object:
        raise NotExact(f"numpy's {ufunc.__name__} on data")

    def __array__(self, *args: object, **kwargs: object) -> object:
        raise NotExact("data read as numbers")

    def __bool__(self) -> bool:
        raise NotExact("a branch on data")

    def squeeze(self) -> Exact:
        raise NotExact("a loop or an index from data")


def markers(value: Exact) -> np.ndarray:
    """By element: its marker, 0 for a number. What is far off is infinite."""
    marks = np.minimum(value.planes[0], 0)
    return np.where(marks <= FAR_BELOW, marks + (BELOW - FAR_BELOW), marks)


def with_markers(planes: np.ndarray, marks: np.ndarray, kind: Kind = "f") -> Exact:
    """Residues with markers where there are some (0: none)."""
    if not marks.any():
        return Exact(planes, False, None, kind)
    return Exact(np.where(marks < 0, marks, planes), True, None, kind)


def same(a: Exact, b: Exact) -> np.ndarray:
    """Which elements are equal at each level that both have; infinities are, what is undefined is not."""
    levels = min(a.levels, b.levels)
    found: np.ndarray = (a.planes[:levels] == b.planes[:levels]).all(axis=0)
    return found & (a.planes[0] != UNDEFINED) if a.special else found
