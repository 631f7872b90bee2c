"""How much of its memory a launch really covers: many instances may write the same places, or read them.

Bytes stored prove that an output is written only if no two instances write the same place. Three signs, each from a few
instances, say that they do: neighbours along a grid axis write the same (`tl.program_id` of that axis is unused), two drawn
instances do, or all keep to a small part of the storage. Many honest kernels read the same places; what all of them read
then counts once.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Places = Mapping[str, np.ndarray]
"""By argument: sorted distinct offsets in bytes."""
_SAME = 0.25
"""If this share of two instances' places agrees, they are taken to write the same."""
_NARROW = 0.5
"""Share of a storage: four instances, one from each quarter of a grid that covers it in order, always span more."""
_SEVERAL = 16
"""From this many instances on, their spread is representative."""


@dataclass(frozen=True)
class Touched:
    """Where an instance stores, and where its first loads read."""

    written: Places
    read: Places
    loaded: Mapping[str, float]
    """Bytes of all loads, by argument."""


@dataclass(frozen=True)
class Coverage:
    """What a few instances of a launch touch."""

    grid: Sequence[int]
    drawn: Sequence[Places]
    """Where one instance from each equal part of the grid stores."""
    first: Touched
    """An instance that stores something, ..."""
    others: Mapping[int, Sequence[Touched]]
    """... and by grid axis its neighbours, plus three more if those read the same."""
    by_values: frozenset[str] = frozenset()
    """Arguments of which that instance writes other places for other numbers (ranks that it counts): where instances meet there is
    chance, as the numbers are invented."""

    def written(self, name: str, stored: float, size: int, width: int) -> float:
        """Bytes of the argument `name` that are written at least once, if all instances together store `stored` bytes to it. Its
        storage has `size` bytes, its elements `width`."""
        if name in self.by_values:
            return stored
        here = self.first.written.get(name)
        times = math.prod(
            float(self.grid[axis])
            for axis, others in self.others.items()
            if any(_overlap(here, other.written.get(name)) for other in others)
        )
        drawn = [written[name] for written in self.drawn if name in written]
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
        """How many instances read each place of the argument `name`, if instances along whole grid axes read the same; else
        1."""
        return math.prod(
            float(self.grid[axis])
            for axis, others in self.others.items()
            if all(reads_the_same(name, self.first, other) for other in others)
        )


def farther(extent: int, dice: random.Random) -> tuple[int, ...]:
    """Steps along an axis of more than three, beyond the neighbours. Half the axis away is the other image of two, but the same
    tile of a swizzled product, so two more are drawn."""
    return extent // 2, *(dice.randrange(2, extent - 1) for _ in range(2))


def _overlap(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None or one[-1] < other[0] or other[-1] < one[0]:
        return False
    return np.intersect1d(one, other, assume_unique=True).size >= _SAME * min(one.size, other.size)


def reads_the_same(name: str, one: Touched, other: Touched) -> bool:
    """Whether first loads read the same places and all loads as many bytes."""
    if name not in one.read or name not in other.read:
        return False
    return one.loaded[name] == other.loaded[name] and np.array_equal(one.read[name], other.read[name])
