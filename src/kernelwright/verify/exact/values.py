"""Arrays of residues, and of conditions on them.

An `Exact` stands for an array of unknown real numbers ("data"). It has as many levels as its history leaves (`field.py`),
markers for infinite or undefined elements, and at most one tag, which says where its elements come from, for identities
that residues do not show (`arithmetic.py`).

An element of a condition need not be 0 or 1: if it depends on data, it is a residue like any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

UNDEFINED, BELOW, ABOVE, FAR_BELOW, FAR_ABOVE = -1, -2, -3, -4, -5
"""Markers in place of residues: undefined, minus infinity, infinity; and finite numbers so large (1e30) that they count as
infinite, except that such a number minus itself is 0."""
Kind = Literal["f", "b", "i"]
_DTYPES = {"f": np.dtype(np.float32), "b": np.dtype(np.bool_), "i": np.dtype(np.int32)}


class NotExact(Exception):
    """Exact arithmetic cannot follow something; the message says what."""


@dataclasses.dataclass(frozen=True, eq=False)
class Tag:
    """Where an array comes from; `kind` (see `arithmetic.py`) says what the values mean."""

    kind: str
    values: tuple[Exact, ...] = ()

    def mapped(self, change: Callable[[np.ndarray], np.ndarray]) -> Tag:
        return Tag(self.kind, tuple(one.mapped(change) for one in self.values))


@dataclasses.dataclass(eq=False)
class Exact:
    """`planes` are (levels, *shape) residues; if `special`, level 0 has markers."""

    planes: np.ndarray
    special: bool = False
    tag: Tag | None = None
    kind: Kind = "f"

    def mapped(self, change: Callable[[np.ndarray], np.ndarray]) -> Exact:
        """The same elements moved: `change` rearranges all axes of an array but the first."""
        tag = None if self.tag is None else self.tag.mapped(change)
        return Exact(change(self.planes), self.special, tag, self.kind)

    def at(self, *index: Any) -> Exact:
        """Indexing as in numpy."""
        return self.mapped(lambda planes: planes[(slice(None), *index)])

    def taken(self, places: int | np.ndarray, axis: int) -> Exact:
        """Elements at `places` along an axis, which must not be negative."""
        return self.mapped(lambda planes: np.take(planes, places, axis=axis + 1))

    def plain(self, kind: Kind | None = None) -> Exact:
        """The same without its tag, and of another kind if given."""
        return Exact(self.planes, self.special, None, kind or self.kind)

    @property
    def levels(self) -> int:
        return len(self.planes)

    # What Triton's interpreter needs of a tensor's data.

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
    """The marker of each element, 0 for a number. FAR_BELOW and FAR_ABOVE count as infinite."""
    marks = np.minimum(value.planes[0], 0)
    return np.where(marks <= FAR_BELOW, marks + (BELOW - FAR_BELOW), marks)


def with_markers(planes: np.ndarray, marks: np.ndarray, kind: Kind = "f") -> Exact:
    """Residues with markers where `marks` is not 0."""
    if not marks.any():
        return Exact(planes, False, None, kind)
    return Exact(np.where(marks < 0, marks, planes), True, None, kind)


def same(a: Exact, b: Exact) -> np.ndarray:
    """Which elements are equal at each level that both have. Equal infinities are; undefined elements never are."""
    levels = min(a.levels, b.levels)
    found: np.ndarray = (a.planes[:levels] == b.planes[:levels]).all(axis=0)
    return found & (a.planes[0] != UNDEFINED) if a.special else found
