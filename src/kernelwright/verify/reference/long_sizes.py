"""Sets with one size at its full length and the others very small, where a kernel may do what it never does at small sizes.

At full size few programs are run, and none of a sum over everything; at small sizes nothing is long. Neither shows what a
kernel does far along one axis: a bound that it computes, a block that a row outgrows, digits that long sums lose. So each
size is taken to its full value while the others are very small, several at once if that is still cheap. A size that is too
expensive to interpret there is taken as far as possible.

Not guaranteed: that every size gets there (both axes of a square matrix are one size), nor errors that depend on two sizes
at once.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence

from kernelwright.records import Task
from kernelwright.verify.reference.hidden_sizes import full_sizes, varying

LONG = "long"
"""Prefix of these sets' names."""
MOST_BYTES, MOST_FLOPS = 2 << 20, 5e7
"""Limits for one such set: bytes that the reference's operators move, and FLOPs of its products."""
_SETS = 3
"""The most sets of a task."""
_LEAST, _SMALLER = 3, 32
"""Sizes that are not long are the small ones divided by the second number, and at least the first."""
_TWO_BLOCKS = 256
"""The least full size of a length that has two blocks."""
_STEPS = 6
"""Geometric steps between the small sizes and the full ones."""
_LISTS, _FEWEST_LISTS = 16, 8
"""Lists of uneven length: how many are asked for, and the fewest that tell a long one from all of it."""
_ENTRIES, _ENTRIES_EACH = 1024, 4
"""The entries of such lists that are asked for, and the fewest for each list on average."""
_GROWN = 4
"""Factor on a size that tells what depends on it."""
_LONGER = 2.0
"""A size must be this many times the longest small one for a set to tell anything new."""


def long_sets(
    task: Task, shapes: Sequence[str], cost: Callable[[Mapping[str, int]], float], apart: bool = False
) -> list[dict[str, int]]:
    """Sets of sizes, given the names of the task's small ones. `cost` is the reference's work at some sizes as a share of what
    is allowed; infinite if it does not accept them. `apart`: no set has two long sizes, for groups are long only where they are few."""
    sets = [task.shapes[name] for name in shapes]
    base, full = dict(sets[min(1, len(sets) - 1)]), full_sizes(task)
    known = {name: max(one.get(name, size) for one in sets) for name, size in base.items()}
    free = varying(base, sets)
    if task.ranges:
        known |= {name: max(known.get(name, 0), least) for name, (least, _) in task.ranges.items()}
        free = [*task.ranges, *(name for name in free if name not in task.ranges)]
    far = [name for name in free if full.get(name, 0) >= _LONGER * known[name]]
    least = base | {name: _least(task, sets, name, base) for name in free}
    found: list[dict[str, int]] = []
    for name in sorted(far, key=lambda name: -full[name]):
        longer = [] if apart else [made | {name: full[name]} for made in found]
        place = next((place for place, made in enumerate(longer) if cost(made) <= 1.0), None)
        if place is not None:
            found[place] = longer[place]
        elif len(found) < _SETS:
            made = _long(name, full[name], [least, *map(dict, sets)], cost)
            found += [made] if made and made[name] >= _LONGER * known[name] else []
    return found


def both_long(
    task: Task, shapes: Sequence[str], usual: Sequence[Mapping[str, int]], dice: random.Random
) -> dict[str, int]:
    """Two sizes, of which no `usual` long set has both, beyond one and two blocks of 128 and no multiple of 16 apart, the others very
    small: what lies between two lengths is rounded to blocks there. Empty if there are none."""
    sets, full = [task.shapes[name] for name in shapes], full_sizes(task)
    base = dict(sets[min(1, len(sets) - 1)])
    far = [name for name in varying(base, sets) if full.get(name, 0) >= _TWO_BLOCKS]
    least = {name: _least(task, sets, name, base) for name in varying(base, sets)}
    for long, short in itertools.combinations(sorted(far, key=lambda name: -full[name]), 2):
        if not any(one[long] > least[long] and one[short] > least[short] for one in usual):
            length = 2 * dice.randrange(65, 90) + 1
            return base | least | {short: length, long: length + 32 + 2 * dice.randrange(1, 8)}
    return {}


def of_lists(
    task: Task,
    shapes: Sequence[str],
    measure: Callable[[Mapping[str, int]], tuple[int, int]],
    cost: Callable[[Mapping[str, int]], float],
) -> dict[str, int]:
    """Sizes at which integers are many and name or divide some sixteen lists (groups, neighbours, documents), the others very small,
    so that one list may be far longer than the mean; empty if there are none. `measure`: how many entries integers stand for,
    and of how many lists, at some sizes."""
    sets, full = [task.shapes[name] for name in shapes], full_sizes(task)
    base = dict(sets[min(1, len(sets) - 1)])
    free = [name for name in varying(base, sets) if full.get(name, 0) > base[name] > 0]
    usual = measure(base)
    grown = {name: measure(base | {name: _GROWN * base[name]}) for name in free}
    longer = [name for name in free if grown[name][0] >= _LONGER * usual[0] > 0]
    if not longer:
        return {}
    long = max(longer, key=full.__getitem__)
    start = base | {name: _least(task, sets, name, base) for name in free}
    start |= {
        name: max(base[name], min(full[name], _LISTS))
        for name in free
        if grown[name][1] >= _LONGER * usual[1] > 0
    }
    length = min(full[long], _ENTRIES * base[long] // usual[0])
    length = _reach(start, long, length, cost) if math.isfinite(cost(start | {long: length})) else 0
    made = start | {long: length}
    entries, lists = measure(made) if length > base[long] else (0, 0)
    return made if entries >= _ENTRIES_EACH * lists >= _ENTRIES_EACH * _FEWEST_LISTS else {}


def held_sizes(
    task: Task, holds: Callable[[dict[str, int]], bool], fits: Callable[[dict[str, int]], bool]
) -> dict[str, int]:
    """The full sizes, with as many as possible made small while `holds` stays true; tried one by one, the one that shrinks
    most first. If the result does not fit, they are made smaller still."""
    sizes, sets = full_sizes(task), list(task.small_sets.values())
    small = {
        name: min(one.get(name, sizes[name]) for one in sets) for one in sets for name in one if name in sizes
    }
    names = sorted(small, key=lambda name: small[name] / max(1, sizes[name]))
    least = {name: _least(task, sets, name, sizes) for name in names}
    for to in (small, least):
        for name in () if to is least and fits(sizes) else names:
            made = {**sizes, name: to[name]}
            if made != sizes and holds(made):
                sizes = made
    return sizes


def between_sets(task: Task, shapes: Sequence[str]) -> list[dict[str, int]]:
    """Sizes in geometric steps between the small sets (given by name) and the full sizes: all at once, then each by itself;
    smallest sets first."""
    sets, full = [task.shapes[name] for name in shapes], full_sizes(task)
    base = dict(sets[min(1, len(sets) - 1)])
    free = varying(base, sets)
    far = [name for name in free if full.get(name, 0) >= _LONGER * base[name] > 0]

    def step(names: Sequence[str], share: float) -> dict[str, int]:
        return base | {name: round(base[name] ** (1 - share) * full[name] ** share) for name in names}

    found = [step(far, number / _STEPS) for number in range(1, _STEPS)] if far else []
    found += [step([name], number / 3) for name in far for number in (1, 2) if len(far) > 1]
    return sorted(found, key=lambda sizes: math.prod(sizes.values()))


def one_more_full(
    task: Task, held: Mapping[str, int], cost: Callable[[Mapping[str, int]], float]
) -> list[dict[str, int]]:
    """For each small size of `held`, that set with it full, or as long as possible, and if possible the other small ones 1. The
    longest first, at most `_SETS`. `cost` as in `long_sets`."""
    full = full_sizes(task)
    short = [name for name, size in held.items() if size < full.get(name, size)]
    starts = [{**held, **dict.fromkeys(short, 1)}, dict(held)]
    found = [_long(name, full[name], starts, cost) for name in sorted(short, key=lambda name: -full[name])]
    return [made for made in found if made][:_SETS]


def stretched(
    task: Task, shapes: Sequence[str], cost: Callable[[Mapping[str, int]], float]
) -> list[tuple[str, dict[str, int]]]:
    """(size, the first small set with that size full, or as long as possible) for sizes that vary and are longer in full, the
    longest first; without any, that set alone. `shapes` and `cost` as in `long_sets`."""
    sets, full = [task.shapes[name] for name in shapes], full_sizes(task)
    start = dict(sets[0])
    far = [name for name in varying(start, sets) if full.get(name, 0) >= _LONGER * start[name]]
    found = [
        (name, _long(name, full[name], [start], cost)) for name in sorted(far, key=lambda name: -full[name])
    ]
    return [(name, made) for name, made in found if made and made[name] > start[name]] or [("", start)]


def _least(task: Task, sets: Sequence[Mapping[str, int]], name: str, base: Mapping[str, int]) -> int:
    if name in task.ranges:
        return task.ranges[name][0]
    smallest = min(one.get(name, base[name]) for one in sets)
    return max(min(_LEAST, smallest), smallest // _SMALLER)


def _long(
    name: str, full: int, starts: Sequence[dict[str, int]], cost: Callable[[Mapping[str, int]], float]
) -> dict[str, int]:
    """The first of `starts` that takes the full length of a size, with that size as long as `cost` allows; empty if none does."""
    for start in starts:
        if math.isfinite(cost(start | {name: full})):
            length = _reach(start, name, full, cost)
            return start | {name: length} if length else {}
    return {}


def _reach(start: Mapping[str, int], name: str, full: int, cost: Callable[[Mapping[str, int]], float]) -> int:
    """The full length, or about the largest within the allowed cost; 0 if none is found."""
    length = full
    for _ in range(4):
        needed = cost({**start, name: length})
        if needed <= 1.0:
            return length
        below = cost({**start, name: max(1, length // 2)})
        power = math.log2(needed / below) if math.isfinite(needed) and 0.0 < below < needed else 1.0
        shrunk = needed ** (-1.0 / power) if math.isfinite(needed) else 0.5
        length = max(1, int(length * min(0.75, shrunk)))
    return 0
