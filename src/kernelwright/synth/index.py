"""Indices as linear forms over parts of loop variables: maps a value's coordinates to an address.

A `Part` is `(base // inner) % size`, where the base is a variable of the kernel (such as a block of rows). Splitting a flat index
into coordinates makes parts; an address with neighbouring parts and matching strides merges them again, so that contiguous
tensors are read through the flat index. Pure: independent of Triton.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from kernelwright.synth.sizes import ONE, ZERO, Size, contiguous_strides, product


@dataclasses.dataclass(frozen=True)
class Base:
    """A variable that indices are built from."""

    name: str
    """Its text in the kernel, such as `rows` or `k[None, :]`."""
    extent: Size
    """One more than its largest in-bounds value."""
    axes: frozenset[int] = frozenset()
    """The tile axes along which it varies."""
    masks: tuple[str, ...] = ()
    """Variables that are true where it is in bounds."""
    loops: frozenset[str] = frozenset()
    """Loops inside which it is defined."""
    definition: Index | None = None
    """The compound index that it names, if it does."""


@dataclasses.dataclass(frozen=True)
class Part:
    base: Base
    inner: Size
    size: Size

    def text(self, show: Callable[[Size], str]) -> str:
        """As Python text, with sizes written by `show`."""
        text = self.base.name
        if self.inner != ONE:
            text = f"{text} // {show(self.inner)}"
        if self.inner * self.size != self.base.extent:
            text = f"{text} % {show(self.size)}"
        return text

    @property
    def plain(self) -> bool:
        """Whether it is the whole base."""
        return self.inner == ONE and self.size == self.base.extent


@dataclasses.dataclass(frozen=True)
class Index:
    """Sum of parts times strides, plus an offset."""

    terms: tuple[tuple[Part, Size], ...] = ()
    offset: Size = ZERO

    @staticmethod
    def make(terms: Mapping[Part, Size], offset: Size = ZERO) -> Index:
        return Index(tuple((part, by) for part, by in terms.items() if by != ZERO), offset)

    @staticmethod
    def whole(base: Base) -> Index:
        """The base itself as an index."""
        return Index(((Part(base, ONE, base.extent), ONE),))

    def __add__(self, other: Index | Size | int) -> Index:
        if not isinstance(other, Index):
            return Index(self.terms, self.offset + other)
        terms = dict(self.terms)
        for part, by in other.terms:
            terms[part] = terms.get(part, ZERO) + by
        return Index.make(terms, self.offset + other.offset)

    def __mul__(self, by: Size | int) -> Index:
        return Index.make({part: have * by for part, have in self.terms}, self.offset * by)

    @property
    def bases(self) -> tuple[Base, ...]:
        return tuple(dict.fromkeys(part.base for part, _ in self.terms))

    @property
    def single(self) -> Part | None:
        """Its only part, if it is one part with stride 1 and no offset."""
        if len(self.terms) == 1 and self.offset == ZERO and self.terms[0][1] == ONE:
            return self.terms[0][0]
        return None

    def merged(self) -> Index:
        """Join neighbouring parts of a base, and substitute definitions of whole bases."""
        terms = dict(self.terms)
        joined = True
        while joined:
            joined = False
            for high, by in list(terms.items()):
                for low, step in list(terms.items()):
                    fits = high is not low and high.base == low.base and high.inner == low.inner * low.size
                    if fits and by == step * low.size:
                        del terms[high], terms[low]
                        whole = Part(low.base, low.inner, low.size * high.size)
                        terms[whole] = terms.get(whole, ZERO) + step
                        joined = True
                        break
                if joined:
                    break
        index = Index.make(terms, self.offset)
        for part, by in index.terms:
            if part.plain and part.base.definition is not None:
                rest = Index.make({other: step for other, step in index.terms if other != part}, index.offset)
                return (rest + part.base.definition * by).merged()
        return index

    def text(self, show: Callable[[Size], str]) -> str:
        """As Python text, offset last; `show` writes a size so that it is safe inside a product."""
        parts: list[tuple[bool, str]] = []
        for part, by in sorted(self.terms, key=lambda term: (term[1].negative, term[1] == ONE)):
            text, compound = part.text(show), not part.plain
            step = by * -1 if by.negative else by
            if step != ONE:
                text = f"{f'({text})' if compound else text} * {show(step)}"
            elif compound and by.negative:
                text = f"({text})"
            parts.append((by.negative, text))
        if self.offset != ZERO or not parts:
            negative = self.offset.negative
            parts.append((negative, show(self.offset * -1 if negative else self.offset)))
        first, *rest = parts
        start = f"-{first[1]}" if first[0] else first[1]
        return start + "".join(f" {'-' if negative else '+'} {text}" for negative, text in rest)


def split(index: Index, sizes: Sequence[Size]) -> list[Index] | None:
    """Coordinates of a flat index along `sizes` (the last fastest); None if its parts straddle dimensions."""
    if index == Index():
        return [Index()] * len(sizes)
    part = index.single
    if part is None or part.size != product(sizes):
        return _dealt(index, sizes)
    coordinates: list[Index] = []
    inner = part.inner
    for size in reversed(sizes):
        if size == ONE:
            coordinates.append(Index())
            continue
        coordinates.append(Index(((Part(part.base, inner, size), ONE),)))
        inner = inner * size
    return coordinates[::-1]


def split_index(base: Base, sizes: Sequence[Size]) -> tuple[Index, ...]:
    """Coordinates along `sizes` of a base that enumerates all their elements."""
    found = split(Index.whole(base) if base.extent != ONE else Index(), sizes)
    assert found is not None
    return tuple(found)


def _dealt(index: Index, sizes: Sequence[Size]) -> list[Index] | None:
    """Assign each term of a compound index to the one dimension that contains it; None if a term has no such dimension."""
    if index.offset != ZERO:
        return None
    strides = contiguous_strides(tuple(sizes))
    dealt: list[dict[Part, Size]] = [{} for _ in sizes]
    for part, by in index.terms:
        for place, (stride, size) in enumerate(zip(strides, sizes, strict=True)):
            step = by.over(stride)
            if size != ONE and step is not None and (stride * size).over(by * part.size) is not None:
                dealt[place][part] = step
                break
        else:
            return None
    return [Index.make(terms) for terms in dealt]


def flatten(coordinates: Iterable[Index], sizes: Sequence[Size]) -> Index:
    """The flat index of coordinates along `sizes`, merged."""
    total, step = Index(), ONE
    for index, size in zip(reversed(list(coordinates)), reversed(sizes), strict=True):
        total = total + index * step
        step = step * size
    return total.merged()


def match_reshape(left: Sequence[Size], right: Sequence[Size]) -> list[tuple[list[int], list[int]]]:
    """Group the dimensions of two shapes of a reshape by equal products, in the smallest groups that sizes allow."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(left) or j < len(right):
        found = None
        for a in range(i, len(left) + 1):
            for b in range(j, len(right) + 1):
                if (a > i or b > j) and product(left[i:a]) == product(right[j:b]):
                    found = (a, b)
                    break
            if found:
                break
        if found is None:
            found = (len(left), len(right))
        groups.append((list(range(i, found[0])), list(range(j, found[1]))))
        i, j = found
    return groups
