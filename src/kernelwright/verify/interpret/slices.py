"""Launches at full size, analysed as a whole and run in part: which programs there are, what they write, what they need.

A launch is planned before anything is run: one program is interpreted without memory, and `program_map.py` tells for which
others it stands. Programs that it does not stand for are planned in turn, a few times. The plans give the exact share of
a tensor that a launch writes or reads, and the slice that a sample needs: the programs of earlier launches that write what
it loads, and so on backwards.

Says nothing of values. If places depend on loaded numbers, or a kernel has more paths than are planned, the answer is
"unknown".
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from kernelwright.verify.interpret.memory import REACH, REGION_BITS, Memory, OutOfBounds, Traffic, distinct
from kernelwright.verify.interpret.program_map import Access, ProgramMap
from kernelwright.verify.interpret.recording import Recording
from kernelwright.verify.trace.tape import View

MOST_ROUTES, THOROUGH_ROUTES = 6, 24
"""The most programs of a launch that are planned, usually and when we ask in particular what reaches the outputs."""
_CLASSES, _RANDOM, _ODD = 5, 8, 7
"""Programs to sample: one of each of this many kinds, some drawn from all, some of rare kinds, and some whose loads do not relate to
their stores as most programs' do. One alone is right by chance where it loads another row that repeats the same base row."""
_PLANNED = 200
"""Memory instructions of planned programs after which no further program is planned."""
_PIECES = 4_000_000
"""The most runs of bytes whose union is taken exactly."""

Intervals = tuple[np.ndarray, np.ndarray]
"""Starts and ends in bytes."""


@dataclasses.dataclass(frozen=True)
class Route:
    """A path through a kernel: one program's recording, and the programs that store the same way and to corresponding places."""

    recorded: int
    recording: Recording
    map: ProgramMap
    members: np.ndarray
    """Boolean mask of these programs by linear number."""

    def accesses(self, kinds: Sequence[str]) -> Iterator[Access]:
        return (access for access in self.map.accesses if access.kind in kinds)

    @property
    def meetings(self) -> np.ndarray:
        """By program, the place of its first atomic update of a single element; -1 if it has none or that is unknown."""
        for access in self.accesses(("atomic",)):
            if access.pointers.size == 1 and not access.data:
                return np.where(self.members, int(access.pointers[0]) + access.shift, -1)
        return np.full(self.members.shape, -1)


@dataclasses.dataclass
class Planned:
    """One launch at full size."""

    name: str
    does: set[tuple[object, ...]]
    """Its constants, and decisions that depend on no loaded value."""
    grid: tuple[int, int, int]
    memory: Memory
    routes: list[Route]
    rest: np.ndarray
    """Programs that belong to no route."""
    run: Callable[[int, Recording | None], None]
    """Runs one program, from its recording if there is one."""
    priced: Callable[[int], Traffic]
    """The work of one program as priced."""
    cut: bool = False
    """Whether some programs were left unplanned because of the number of steps."""

    @property
    def whole(self) -> bool:
        return not self.rest.any()

    def storage(self, access: Access) -> int | None:
        """The storage that an access goes to, by `_cdata`; None if its pointers belong to none."""
        slot = (access.pointer >> REGION_BITS) - 1
        return self.memory.regions[slot].keep._cdata if 0 <= slot < len(self.memory.regions) else None

    @property
    def inside(self) -> bool:
        """Whether all accesses are known to be in bounds, except those that depend on loaded values."""
        return self.whole and all(
            access.data or not access.pointers.size or alike(route, access)
            for route in self.routes
            for access in route.map.accesses
        )

    def check(self) -> None:
        """Raises OutOfBounds if a program strays whatever is loaded. Checks programs whose lanes are active as in the recorded
        program of their route."""
        for route in self.routes:
            for access in route.map.accesses:
                if access.data or not access.pointers.size:
                    continue
                slot = (int(access.pointers.min()) >> REGION_BITS) - 1  # a base may lie before its tensor
                if slot != (int(access.pointers.max()) >> REGION_BITS) - 1 or not 0 <= slot < len(
                    self.memory.regions
                ):
                    continue
                classes, region = route.map.classes(access.keys), self.memory.regions[slot]
                shift = access.shift[route.members & (classes == classes[route.recorded])]
                places = access.pointers.astype(np.int64) - ((slot + 1) << REGION_BITS)
                low, high = int(places.min() + shift.min()), int(places.max() + shift.max())
                if low < 0 or high + access.itemsize > region.size:
                    at = (low if low < 0 else high) // access.itemsize
                    raise OutOfBounds(
                        f"{access.kind} out of bounds by some program: `{region.name}` element {at}, "
                        f"valid 0..{region.size // access.itemsize - 1}",
                        certain=not route.map.data_decides,
                    )

    @property
    def ranked(self) -> bool:
        """Whether the result of an atomic access decides what a program does."""
        return any(route.map.ranked for route in self.routes)

    def met_by(self, program: int) -> set[int] | None:
        """The programs, including this one, whose first atomic update is at the same place: whichever of them comes last acts
        as the last one. None if unknown."""
        found: set[int] = set()
        where = -1
        for route in self.routes:
            if route.members[program]:
                where = int(route.meetings[program])
        if where < 0 or not self.whole:
            return None
        for route in self.routes:
            found |= set(np.flatnonzero(route.meetings == where).tolist())
        return found

    def route_of(self, program: int) -> Route | None:
        return next((route for route in self.routes if route.members[program]), None)

    # -- what is touched --------------------------------------------------------------------------------------

    def touched(self, storage: int, kinds: Sequence[str]) -> list[Intervals] | None:
        """The runs of bytes of a storage that all programs together touch; None if unknown."""
        if not self.whole or any(route.map.data_decides for route in self.routes):
            return None
        found = []
        for route in self.routes:
            for access in route.accesses(kinds):
                if self.storage(access) != storage:
                    continue
                # Programs that store alike may mask loads differently.
                if access.data or not alike(route, access):
                    return None
                if not access.pointers.size:
                    continue
                starts, ends = runs(access)
                shifts = route.map.shifts(access, route.members)
                if len(starts) * len(shifts) > _PIECES:
                    return None
                found.append(
                    ((starts[None] + shifts[:, None]).ravel(), (ends[None] + shifts[:, None]).ravel())
                )
        return found

    def producers(self, storage: int, needed: np.ndarray) -> np.ndarray | None:
        """Programs that may write one of the sorted byte offsets; None if unknown."""
        found = np.zeros(math.prod(self.grid), dtype=bool)
        known = self.whole and not any(route.map.data_decides for route in self.routes)
        for route in self.routes:
            for access in route.accesses(("write", "atomic")):
                if self.storage(access) != storage or not access.pointers.size:
                    continue
                known &= not access.data
                low = int((access.pointers & REACH).min()) + access.shift
                high = int((access.pointers & REACH).max()) + max(access.itemsize, 1) + access.shift
                near = (np.searchsorted(needed, low) < np.searchsorted(needed, high)) & route.members & ~found
                starts, ends = runs(access)
                for program in np.flatnonzero(near).tolist():  # the offsets may lie between its runs
                    shift = access.shift[program]
                    inside = np.searchsorted(needed, starts + shift) < np.searchsorted(needed, ends + shift)
                    found[program] = inside.any()
        return np.flatnonzero(found) if known else None

    def writes(self, storage: int) -> bool:
        """Whether any planned program writes to the storage."""
        return any(
            self.storage(access) == storage
            for route in self.routes
            for access in route.accesses(("write", "atomic"))
        )

    # -- whom to try ------------------------------------------------------------------------------------------

    def sample(self, outputs: Mapping[int, View], dice: random.Random) -> list[int]:
        """Programs worth running on real values, the most telling first."""
        chosen: list[int] = []
        kinds: list[np.ndarray] = []
        for route in self.routes:
            chosen.append(route.recorded)
            members = np.flatnonzero(route.members)
            classes = route.map.classes(route.map.sinks)[members]
            order = np.argsort(classes, kind="stable")
            of_it = np.split(members[order], np.flatnonzero(np.diff(classes[order])) + 1)
            for kind in dice.sample(of_it, min(len(of_it), _CLASSES)):
                chosen.append(dice.choice(kind[:4096].tolist()))
            kinds += of_it
        if self.rest.any():
            some = np.flatnonzero(self.rest).tolist()
            chosen += dice.sample(some, min(_CLASSES, len(some)))
        odd = [place for route in self.routes for place in self._odd(route, outputs, dice)]
        drawn = [dice.randrange(math.prod(self.grid)) for _ in range(_RANDOM)]
        odd = dice.sample(odd, min(_ODD, len(odd))) + self._rare(kinds, dice)
        return list(dict.fromkeys(chosen[:1] + odd + chosen[1:] + drawn))

    def _rare(self, kinds: Sequence[np.ndarray], dice: random.Random) -> list[int]:
        """Programs of kinds other than the one that most programs are of, of each kind in turn; none if there is no such one."""
        *others, most = sorted(kinds, key=len) or [np.zeros(0)]
        if 2 * len(most) <= math.prod(self.grid):
            return []
        drawn = [
            [int(kind[at]) for at in dice.sample(range(len(kind)), min(_ODD, len(kind)))]
            for kind in dice.sample(others, min(_ODD, len(others)))
        ]
        in_turn = itertools.chain.from_iterable(itertools.zip_longest(*drawn))
        return [place for place in in_turn if place is not None][:_ODD]

    def _odd(self, route: Route, outputs: Mapping[int, View], dice: random.Random) -> list[int]:
        """Programs whose load places are not the linear function of their store places that most programs follow."""
        stores = [access for access in route.accesses(("write",)) if access.pointers.size]
        numbers = np.flatnonzero(route.members)
        if not stores or len(numbers) < 16:
            return []
        stored = stores[0]
        base = int((stored.pointers & REACH).min())
        where = self._coordinates(base + stored.shift[numbers], outputs.get(self.storage(stored) or -1))
        found: list[int] = []
        for access in (*route.accesses(("read",)), *stores[1:]):
            if access.data or not access.shift.any():
                continue
            strays = _strays(where, access.shift[numbers].astype(np.float64), dice)
            if strays is not None and 0 < strays.sum() < len(numbers) // 2:
                some = numbers[strays].tolist()
                found += dice.sample(some, min(_ODD, len(some)))
        return found

    @staticmethod
    def _coordinates(offsets: np.ndarray, view: View | None) -> np.ndarray:
        """Places in a tensor as rows of indices along its axes, followed by 1."""
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
    """Mask of rows that do not follow the linear function of most rows; None if none was fitted."""
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
    """The recorded program's bytes as runs without gaps."""
    offsets = distinct(access.pointers & REACH).astype(np.int64)
    cuts = np.flatnonzero(np.diff(offsets) > access.itemsize)
    starts = offsets[np.concatenate(([0], cuts + 1))]
    ends = offsets[np.concatenate((cuts, [len(offsets) - 1]))] + access.itemsize
    return starts, ends


def alike(route: Route, access: Access) -> bool:
    """Whether in all programs the same lanes are active as in the recorded one, possibly none."""
    if not access.keys:
        return True
    classes = route.map.classes(access.keys)
    return bool((classes[route.members] == classes[route.recorded]).all())


def union(pieces: Sequence[Intervals], low: int, high: int) -> int:
    """Bytes between `low` and `high` covered by the runs."""
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
) -> tuple[list[Route], np.ndarray]:
    """The routes through a launch of `count` programs, and a mask of programs that belong to none. Raises NotFollowed."""
    most = THOROUGH_ROUTES if thorough else MOST_ROUTES
    routes: list[Route] = []
    rest, steps = np.ones(count, dtype=bool), 0
    first = count // 2
    while rest.any() and len(routes) < most and (thorough or steps < _PLANNED or not routes):
        place = first if not routes else int(dice.choice(np.flatnonzero(rest)[:4096].tolist()))
        recording, found = record(place)
        steps += len(found.accesses)
        keys: set[int] = set()
        for access in found.accesses:
            if access.kind != "read":
                keys |= access.keys
        classes = found.classes(keys)
        members = found.explained & (classes == classes[place]) & rest
        members[place] = True
        routes.append(Route(place, recording, found, members))
        rest &= ~members
    return routes, rest
