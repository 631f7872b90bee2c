"""How much of its memory a launch really goes over: many instances may write the same places, or read them.

Bytes stored say that an output is written only if no two instances write one place. Three signs that they do, each from a
few instances: others along an axis of the grid write the same (`tl.program_id` of that axis is not used), two of those that
were drawn do, or all of them keep to a small part of the storage. Reading the same is what many kernels do for good
reasons; then what is read by all counts once.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Places = Mapping[str, np.ndarray]
"""By argument: offsets in bytes, each once, in order."""
_SAME = 0.25
"""Share of an instance's places from which another one is taken to write the same."""
_NARROW = 0.5
"""Part of a storage: four instances, one from each quarter of a grid that goes over it in order, are never all in less."""
_SEVERAL = 16
"""Instances from which their spread tells that of all."""


@dataclass(frozen=True)
class Touched:
    """What an instance stores to, and where its first loads are from."""

    written: Places
    read: Places
    loaded: Mapping[str, float]
    """Bytes of all its loads, by argument."""


@dataclass(frozen=True)
class Coverage:
    """What a few instances of a launch touch."""

    grid: Sequence[int]
    drawn: Sequence[Touched]
    """One from each equal part of the grid."""
    first: Touched
    """An instance that stores something, ..."""
    others: Mapping[int, Sequence[Touched]]
    """... and by axis of the grid its neighbours, and three more where those read the same."""

    def written(self, name: str, stored: float, size: int, width: int) -> float:
        """Bytes of the argument `name`, whose storage has `size` and elements of `width`, that are written at least once, where
        all instances together store `stored` of them."""
        here = self.first.written.get(name)
        times = math.prod(
            float(self.grid[axis])
            for axis, others in self.others.items()
            if any(_overlap(here, other.written.get(name)) for other in others)
        )
        drawn = [one.written[name] for one in self.drawn if name in one.written]
        if len(drawn) < 2:
            return stored / times
        pairs = list(itertools.combinations(drawn[:_SEVERAL], 2))
        again = sum(_overlap(one, other) for one, other in pairs)
        found = stored / max(times, math.prod(self.grid) * again / len(pairs))
        reach = float(max(one[-1] for one in drawn) - min(one[0] for one in drawn)) + width
        if len(drawn) >= _SEVERAL or reach < _NARROW * size:
            found = min(found, reach * (len(drawn) + 1) / (len(drawn) - 1))
        return found

    def readers(self, name: str) -> float:
        """How many instances read each place of the argument `name` that any of them reads, where whole axes of the grid
        read the same; 1 where they do not."""
        return math.prod(
            float(self.grid[axis])
            for axis, others in self.others.items()
            if all(reads_the_same(name, self.first, other) for other in others)
        )


def farther(extent: int, dice: random.Random) -> tuple[int, ...]:
    """Steps along an axis of more than three, beyond the neighbours. Half of it away is another image where there are two,
    but the same tile of a swizzled product, so two more are drawn."""
    return extent // 2, *(dice.randrange(2, extent - 1) for _ in range(2))


def _overlap(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None or one[-1] < other[0] or other[-1] < one[0]:
        return False
    return np.intersect1d(one, other, assume_unique=True).size >= _SAME * min(one.size, other.size)


def reads_the_same(name: str, one: Touched, other: Touched) -> bool:
    """From the same places at first, and as much in all."""
    if name not in one.read or name not in other.read:
        return False
    return one.loaded[name] == other.loaded[name] and np.array_equal(one.read[name], other.read[name])
