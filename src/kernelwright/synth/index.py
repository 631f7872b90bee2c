"""Indices as linear forms over parts of loop variables: how a value's coordinates become an address.

A `Part` is `(base // inner) % size` of a base, where a base is a variable of the kernel (a block of rows, say). Splitting
a flat index into coordinates makes parts, and an address that needs neighbouring parts with matching strides gets the
whole back, so that contiguous tensors are read through the flat index. Pure: knows nothing of Triton.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from kernelwright.synth.sizes import ONE, ZERO, Size, contiguous_strides, product


@dataclasses.dataclass(frozen=True)
class Base:
    """A variable that indices are made from."""

    name: str
    """How it is written in the kernel, such as `rows` or `k[None, :]`."""
    extent: Size
    """One more than its largest value where it is in bounds."""
    axes: frozenset[int] = frozenset()
    """The tile axes along which it varies."""
    masks: tuple[str, ...] = ()
    """Variables that say where it is in bounds."""
    loops: frozenset[str] = frozenset()
    """Loops inside which it is defined."""
    definition: Index | None = None
    """What it stands for, where it names a compound index."""


@dataclasses.dataclass(frozen=True)
class Part:
    base: Base
    inner: Size
    size: Size

    def text(self, show: Callable[[Size], str]) -> str:
        """As Python, with sizes as `show` writes them."""
        text = self.base.name
        if self.inner != ONE:
            text = f"{text} // {show(self.inner)}"
        if self.inner * self.size != self.base.extent:
            text = f"{text} % {show(self.size)}"
        return text

    @property
    def plain(self) -> bool:
        """Whether it is the base itself."""
        return self.inner == ONE and self.size == self.base.extent


@dataclasses.dataclass(frozen=True)
class Index:
    """Sum of parts times strides, and an offset."""

    terms: tuple[tuple[Part, Size], ...] = ()
    offset: Size = ZERO

    @staticmethod
    def make(terms: Mapping[Part, Size], offset: Size = ZERO) -> Index:
        return Index(tuple((part, by) for part, by in terms.items() if by != ZERO), offset)

    @staticmethod
    def whole(base: Base) -> Index:
        """The base itself."""
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
        """The part that it is, where it is one with stride 1 and no offset."""
        if len(self.terms) == 1 and self.offset == ZERO and self.terms[0][1] == ONE:
            return self.terms[0][0]
        return None

    def merged(self) -> Index:
        """Neighbouring parts of one base joined, definitions put in where a whole base is left."""
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
        """As Python, offset last; `show` writes a size so that it can stand in a product."""
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
    """Coordinates of a flat index along `sizes` (the last fastest); None where its parts straddle them."""
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
    """Coordinates along `sizes` of a base that runs over all of their elements."""
    found = split(Index.whole(base) if base.extent != ONE else Index(), sizes)
    assert found is not None
    return tuple(found)


def _dealt(index: Index, sizes: Sequence[Size]) -> list[Index] | None:
    """Each term of a compound index to the one dimension in which it lies, where each has one."""
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
    """Dimensions of two shapes of one reshape in groups of equal product, as small as the sizes tell."""
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
