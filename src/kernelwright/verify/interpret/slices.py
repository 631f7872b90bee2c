"""Launches at full size, looked at as a whole and run in part: which programs there are, what they write, whom they need.

A launch is planned before anything is run: one program is interpreted without memory, and `program_map.py` says for
which others that stands. Programs that it does not stand for are planned in turn, a few times. From the plans follow
the exact share of a tensor that a launch writes or reads, and the slice that a sample needs: the programs of earlier
launches that write what it loads, and so on backwards.

Says nothing of values. Where places depend on loaded numbers, or more ways lead through a kernel than are planned, it
says that it does not know.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from kernelwright.verify.interpret.memory import REGION_BITS, Memory, OutOfBounds, Traffic, distinct
from kernelwright.verify.interpret.program_map import Access, ProgramMap
from kernelwright.verify.interpret.recording import Recording
from kernelwright.verify.trace.tape import View

MOST_WAYS, THOROUGH_WAYS = 6, 24
"""Programs of a launch that are planned one by one, and where what reaches the outputs is asked for in particular."""
_CLASSES, _RANDOM, _ODD = 5, 8, 7
"""Programs that are tried: one of each of so many kinds, some drawn from all, some whose loads do not follow their stores
as those of the others do."""
_PLANNED = 200
"""Memory instructions of planned programs after which no further one is planned."""
_PIECES = 4_000_000
"""Runs of bytes whose union is taken exactly."""
REACH = np.uint64((1 << REGION_BITS) - 1)

Intervals = tuple[np.ndarray, np.ndarray]
"""Starts and ends in bytes."""


@dataclasses.dataclass(frozen=True)
class Way:
    """One program's recording and the programs that it stands for, as far as what they store and where."""

    recorded: int
    recording: Recording
    map: ProgramMap
    members: np.ndarray
    """Whether, by linear number."""

    def accesses(self, kinds: Sequence[str]) -> Iterator[Access]:
        return (access for access in self.map.accesses if access.kind in kinds)

    @property
    def meetings(self) -> np.ndarray:
        """By program, where it first updates a single place atomically; -1 where it does not, or where nobody knows."""
        for access in self.accesses(("atomic",)):
            if access.pointers.size == 1 and not access.data:
                return np.where(self.members, int(access.pointers[0]) + access.shift, -1)
        return np.full(self.members.shape, -1)


@dataclasses.dataclass
class Planned:
    """One launch at full size."""

    name: str
    does: set[tuple[object, ...]]
    """Its constants, and the decisions that no loaded value takes."""
    grid: tuple[int, int, int]
    memory: Memory
    ways: list[Way]
    rest: np.ndarray
    """Programs that no way stands for."""
    run: Callable[[int, Recording | None], None]
    """Run one program, by its recording where there is one."""
    priced: Callable[[int], Traffic]
    """What one program does where it is priced."""
    cut: bool = False
    """Whether some programs were not planned for the number of steps alone."""

    @property
    def whole(self) -> bool:
        return not self.rest.any()

    def storage(self, access: Access) -> int | None:
        """The storage that an access goes to, by `_cdata`; None where its pointers belong to none."""
        slot = (access.pointer >> REGION_BITS) - 1
        return self.memory.regions[slot].keep._cdata if 0 <= slot < len(self.memory.regions) else None

    @property
    def inside(self) -> bool:
        """Whether all places are known to be inside of their memory, but those on which loaded values decide."""
        return self.whole and all(
            access.data or not access.pointers.size or alike(way, access)
            for way in self.ways
            for access in way.map.accesses
        )

    def check(self) -> None:
        """Raises OutOfBounds where a program strays, whatever is loaded: of those that have the lanes there that the recorded
        one of their way has."""
        for way in self.ways:
            for access in way.map.accesses:
                if access.data or not access.pointers.size:
                    continue
                slot = (int(access.pointers.min()) >> REGION_BITS) - 1  # a base may lie before its tensor
                if slot != (int(access.pointers.max()) >> REGION_BITS) - 1 or not 0 <= slot < len(
                    self.memory.regions
                ):
                    continue
                classes, region = way.map.classes(access.keys), self.memory.regions[slot]
                shift = access.shift[way.members & (classes == classes[way.recorded])]
                places = access.pointers.astype(np.int64) - ((slot + 1) << REGION_BITS)
                low, high = int(places.min() + shift.min()), int(places.max() + shift.max())
                if low < 0 or high + access.itemsize > region.size:
                    at = (low if low < 0 else high) // access.itemsize
                    raise OutOfBounds(
                        f"{access.kind} out of bounds by some program: `{region.name}` element {at}, "
                        f"valid 0..{region.size // access.itemsize - 1}",
                        certain=not way.map.data_decides,
                    )

    @property
    def ranked(self) -> bool:
        """Whether what an atomic access finds decides what a program does."""
        return any(way.map.ranked for way in self.ways)

    def met_by(self, program: int) -> set[int] | None:
        """The programs, that one among them, whose first atomic update is at the same place: with them, whoever is the last
        to come does what the last one does. None where that is not known."""
        found: set[int] = set()
        where = -1
        for way in self.ways:
            if way.members[program]:
                where = int(way.meetings[program])
        if where < 0 or not self.whole:
            return None
        for way in self.ways:
            found |= set(np.flatnonzero(way.meetings == where).tolist())
        return found

    def way_of(self, program: int) -> Way | None:
        return next((way for way in self.ways if way.members[program]), None)

    # -- what is touched --------------------------------------------------------------------------------------

    def touched(self, storage: int, kinds: Sequence[str]) -> list[Intervals] | None:
        """The runs of bytes of a storage that all programs together touch; None where that is not known."""
        if not self.whole or any(way.map.data_decides for way in self.ways):
            return None
        found = []
        for way in self.ways:
            for access in way.accesses(kinds):
                if self.storage(access) != storage:
                    continue
                if access.data or not alike(
                    way, access
                ):  # loads may be masked otherwise in programs that store alike
                    return None
                if not access.pointers.size:
                    continue
                starts, ends = runs(access)
                shifts = way.map.shifts(access, way.members)
                if len(starts) * len(shifts) > _PIECES:
                    return None
                found.append(
                    ((starts[None] + shifts[:, None]).ravel(), (ends[None] + shifts[:, None]).ravel())
                )
        return found

    def producers(self, storage: int, needed: np.ndarray) -> np.ndarray | None:
        """Programs that may write one of the sorted byte offsets; None where that is not known."""
        found = np.zeros(math.prod(self.grid), dtype=bool)
        known = self.whole and not any(way.map.data_decides for way in self.ways)
        for way in self.ways:
            for access in way.accesses(("write", "atomic")):
                if self.storage(access) != storage or not access.pointers.size:
                    continue
                known &= not access.data
                low = int((access.pointers & REACH).min()) + access.shift
                high = int((access.pointers & REACH).max()) + max(access.itemsize, 1) + access.shift
                near = (np.searchsorted(needed, low) < np.searchsorted(needed, high)) & way.members & ~found
                starts, ends = runs(access)
                for program in np.flatnonzero(near).tolist():  # between its runs it may write nothing
                    shift = access.shift[program]
                    inside = np.searchsorted(needed, starts + shift) < np.searchsorted(needed, ends + shift)
                    found[program] = inside.any()
        return np.flatnonzero(found) if known else None

    def writes(self, storage: int) -> bool:
        """Whether any planned program does."""
        return any(
            self.storage(access) == storage
            for way in self.ways
            for access in way.accesses(("write", "atomic"))
        )

    # -- whom to try ------------------------------------------------------------------------------------------

    def sample(self, outputs: Mapping[int, View], dice: random.Random) -> list[int]:
        """Programs that are worth a run on real values, the most telling first."""
        chosen: list[int] = []
        for way in self.ways:
            chosen.append(way.recorded)
            classes = np.where(way.members, way.map.classes(way.map.sinks), -1)
            kinds = [kind for kind in np.unique(classes).tolist() if kind >= 0]
            for kind in dice.sample(kinds, min(len(kinds), _CLASSES)):
                chosen.append(dice.choice(np.flatnonzero(classes == kind)[:4096].tolist()))
        if self.rest.any():
            some = np.flatnonzero(self.rest).tolist()
            chosen += dice.sample(some, min(_CLASSES, len(some)))
        odd = [place for way in self.ways for place in self._odd(way, outputs, dice)]
        drawn = [dice.randrange(math.prod(self.grid)) for _ in range(_RANDOM)]
        first = chosen[:1] + dice.sample(odd, min(_ODD, len(odd))) + chosen[1:] + drawn
        return list(dict.fromkeys(first))

    def _odd(self, way: Way, outputs: Mapping[int, View], dice: random.Random) -> list[int]:
        """Programs whose loads lie elsewhere than a linear function of where they store says, which holds for most."""
        stores = [access for access in way.accesses(("write",)) if access.pointers.size]
        numbers = np.flatnonzero(way.members)
        if not stores or len(numbers) < 16:
            return []
        stored = stores[0]
        base = int((stored.pointers & REACH).min())
        where = self._coordinates(base + stored.shift[numbers], outputs.get(self.storage(stored) or -1))
        found: list[int] = []
        for access in (*way.accesses(("read",)), *stores[1:]):
            if access.data or not access.shift.any():
                continue
            strays = _strays(where, access.shift[numbers].astype(np.float64), dice)
            if strays is not None and 0 < strays.sum() < len(numbers) // 2:
                some = numbers[strays].tolist()
                found += dice.sample(some, min(_ODD, len(some)))
        return found

    @staticmethod
    def _coordinates(offsets: np.ndarray, view: View | None) -> np.ndarray:
        """Places in a tensor as indices along its axes, a row each, and 1."""
        columns = []
        if view is None:
            columns.append(offsets)
        else:
            rest = offsets // view.itemsize - view.offset
            for axis in sorted(range(len(view.shape)), key=lambda axis: -view.stride[axis]):
                if view.shape[axis] > 1 and view.stride[axis] > 0:
                    at, rest = np.divmod(rest, view.stride[axis])
                    columns.append(at)
        return np.stack([*columns, np.ones_like(offsets)], axis=1).astype(np.float64)


def _strays(where: np.ndarray, shift: np.ndarray, dice: random.Random) -> np.ndarray | None:
    """Which rows do not follow the linear function that most follow; None where there is none."""
    best: np.ndarray | None = None
    count, width = where.shape
    for _ in range(4):
        some = np.array([dice.randrange(count) for _ in range(4 * width)])
        factors, *_ = np.linalg.lstsq(where[some], shift[some], rcond=None)
        off = np.abs(where @ factors - shift) > 0.25 + 1e-9 * np.abs(shift)
        if best is None or off.sum() < best.sum():
            best = off
        if not best.any():
            break
    return best


def runs(access: Access) -> Intervals:
    """The bytes of the recorded program as runs without gaps."""
    offsets = distinct(access.pointers & REACH).astype(np.int64)
    cuts = np.flatnonzero(np.diff(offsets) > access.itemsize)
    starts = offsets[np.concatenate(([0], cuts + 1))]
    ends = offsets[np.concatenate((cuts, [len(offsets) - 1]))] + access.itemsize
    return starts, ends


def alike(way: Way, access: Access) -> bool:
    """Whether all programs have the lanes there that the recorded one has, none at all included."""
    if not access.keys:
        return True
    classes = way.map.classes(access.keys)
    return bool((classes[way.members] == classes[way.recorded]).all())


def union(pieces: Sequence[Intervals], low: int, high: int) -> int:
    """Bytes between `low` and `high` that are in any of the runs."""
    if not pieces:
        return 0
    starts = np.clip(np.concatenate([one[0] for one in pieces]), low, high)
    ends = np.clip(np.concatenate([one[1] for one in pieces]), low, high)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(np.concatenate(([low], ends[:-1])))
    return int(np.maximum(ends - np.maximum(starts, reach), 0).sum())


def plan(
    count: int,
    record: Callable[[int], tuple[Recording, ProgramMap]],
    dice: random.Random,
    thorough: bool = False,
) -> tuple[list[Way], np.ndarray]:
    """The ways through a launch of `count` programs, and what none of them stands for. Raises NotFollowed."""
    most = THOROUGH_WAYS if thorough else MOST_WAYS
    ways: list[Way] = []
    rest, steps = np.ones(count, dtype=bool), 0
    first = count // 2
    while rest.any() and len(ways) < most and (thorough or steps < _PLANNED or not ways):
        place = first if not ways else int(dice.choice(np.flatnonzero(rest)[:4096].tolist()))
        recording, found = record(place)
        steps += len(found.accesses)
        keys: set[int] = set()
        for access in found.accesses:
            if access.kind != "read":
                keys |= access.keys
        classes = found.classes(keys)
        members = found.explained & (classes == classes[place]) & rest
        members[place] = True
        ways.append(Way(place, recording, found, members))
        rest &= ~members
    return ways, rest
