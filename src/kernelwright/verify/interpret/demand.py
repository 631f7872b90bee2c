"""A full-size call run on demand: sampled programs that write outputs, preceded by the programs they depend on.

The launches were planned (`slices.py`). Here the programs to run are chosen backwards from those that write an output, and
run in the order of the call on the memory of `full_size.py`. A sample whose slice is too large or unknown is skipped;
`Unsure` means that none is left.

Inputs get their base rows only at indices that the samples write: nothing else may matter to them, and there a kernel finds what
a user's data look like.

Guarantees that whatever a program loads was written in the same call, including by all earlier writers of those places.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernelwright.verify.interpret.full_size import Sampled, Unsure, indices
from kernelwright.verify.interpret.memory import REACH, distinct
from kernelwright.verify.interpret.slices import Planned, Route
from kernelwright.verify.repeats import Repeats
from kernelwright.verify.trace.tape import View

if TYPE_CHECKING:
    from kernelwright.verify.interpret.interpreter import Engine

_BUDGET = 160
"""Memory instructions of chosen programs after which no further sample is chosen."""
_MOST_PROGRAMS = 96
"""The most programs in one sample's slice."""
_UNKNOWN_STEPS = 200
"""Memory instructions assumed for a program without a plan."""
_PRICED = 2
"""Programs of a launch whose work is compared with the price."""

Slice = dict[int, set[int]]
"""Programs by launch number."""


class Demand:
    """Chooses programs of a planned call and runs them."""

    def __init__(
        self,
        engine: Engine,
        planned: Sequence[Planned],
        outputs: Mapping[int, View],
        dice: random.Random,
        repeats: Mapping[int, Sequence[Repeats | None]],
    ) -> None:
        """`outputs`: views by storage; `repeats`: how their axes repeat, for all of them or for none."""
        self._engine, self._planned, self._outputs, self._dice = engine, planned, outputs, dice
        self._repeats = repeats
        self.chosen: Slice = {}
        self._targets: set[tuple[int, int]] = set()
        """(launch, program) of the samples; all others run only because samples need them."""
        self.again = 0
        """Programs that stored only where an earlier one had."""
        self._places: dict[int, np.ndarray] = {}
        self._lengths: dict[int, int] = {}
        """Memory instructions of an unplanned program, by launch."""

    @property
    def _sampled(self) -> Sampled:
        return self._engine.sampled

    def choose(self) -> None:
        """Fill `chosen`. Raises Unsure if no sample has a known slice."""
        writers = [
            number
            for number, launch in enumerate(self._planned)
            if any(launch.writes(storage) for storage in self._outputs) or not launch.routes or launch.ranked
        ]
        queues = [(number, self._planned[number].sample(self._outputs, self._dice)) for number in writers]
        cost, tried, why = 0, 0, "no launch writes what is returned"
        for turn in range(max((len(queue) for _, queue in queues), default=0)):
            for number, queue in reversed(queues):
                if turn >= len(queue) or (turn and cost >= _BUDGET):
                    continue
                try:
                    found = self._closure(number, queue[turn])
                except Unsure as error:
                    why = str(error)
                    continue
                tried += 1
                together = found[number] if self._planned[number].ranked else {queue[turn]}
                self._targets |= {(number, program) for program in together}
                for launch, programs in found.items():
                    new = programs - self.chosen.get(launch, set())
                    self.chosen.setdefault(launch, set()).update(new)
                    cost += sum(self._steps(launch, program) for program in new)
        if not tried:
            raise Unsure(why)
        self._sampled.ask(self._asked(self._targets))

    def _asked(self, targets: Collection[tuple[int, int]]) -> dict[Repeats, np.ndarray]:
        """By axis that repeats, the indices at which these (launch, program) write outputs, where all of them are known to."""
        every = [self._indices(number, program) for number, program in targets]
        known = set.intersection(*(set(one) for one in every))
        return {axis: np.concatenate([one[axis] for one in every]) for axis in known}

    def _indices(self, number: int, program: int) -> dict[Repeats, np.ndarray]:
        """`_asked` for one program."""
        found: dict[Repeats, list[np.ndarray]] = {}
        for storage, places in self._writes(number, program).items():
            if storage in self._repeats and places.size:
                at = indices(self._outputs[storage], places)
                if not at:
                    return {}
                for axis, some in at.items():
                    if (repeats := self._repeats[storage][axis]) is not None:
                        found.setdefault(repeats, []).append(some)
        return {axis: np.concatenate(some) for axis, some in found.items()}

    def _writes(self, number: int, program: int) -> dict[int, np.ndarray]:
        """Byte offsets that a program writes, by storage; empty if unknown."""
        launch = self._planned[number]
        route = launch.route_of(program)
        stores = list(route.accesses(("write", "atomic"))) if route is not None else []
        if route is None or any(access.keys or access.data for access in stores):
            with contextlib.suppress(Unsure):
                return self._touched(number, program)[1]
            return {}
        found: dict[int, list[np.ndarray]] = {}
        for access in stores:
            places = (access.pointers & REACH).astype(np.int64) + access.shift[program]
            found.setdefault(launch.storage(access) or -1, []).append(places)
        return {storage: np.concatenate(parts) for storage, parts in found.items()}

    @property
    def _alone(self) -> bool:
        """Whether each program decides by itself what it writes."""
        return len(self._planned) == 1 and not any(
            True for route in self._planned[0].routes for _ in route.accesses(("atomic",))
        )

    def _steps(self, launch: int, program: int) -> int:
        route = self._planned[launch].route_of(program)
        if route is not None:
            return len(route.map.accesses)
        if launch not in self._lengths:  # one unplanned program stands for the others
            before = self._engine.planned_steps
            try:
                self._touched(launch, program)
                self._lengths[launch] = self._engine.planned_steps - before
            except Unsure:
                self._lengths[launch] = _UNKNOWN_STEPS
        return self._lengths[launch]

    def _closure(self, number: int, program: int) -> Slice:
        """All programs that decide what this one writes. Raises Unsure."""
        chosen: Slice = {number: {program}}
        if self._planned[number].ranked:
            chosen[number] = self._together(number, program)
        shared = [
            storage
            for storage in self._outputs
            if self._adds(number, storage)
            or any(launch.writes(storage) or not launch.routes for launch in self._planned[number + 1 :])
        ]
        written = self._touched(number, program)[1] if shared else {}
        for storage in shared:
            if storage not in written:
                continue
            for later in range(number + 1, len(self._planned)):
                if self._writers(later, storage, written[storage]):
                    raise Unsure("a later launch writes the same places")
            if self._adds(number, storage):
                chosen[number] |= self._writers(number, storage, written[storage])
        needed: dict[int, list[np.ndarray]] = {}
        for at in range(number, 0, -1):
            for one in chosen.setdefault(at, set()):
                for storage, offsets in self._touched(at, one)[0].items():
                    needed.setdefault(storage, []).append(offsets)
            before = chosen.setdefault(at - 1, set())
            for storage, parts in needed.items():
                before |= self._writers(at - 1, storage, distinct(np.concatenate(parts)))
            if sum(map(len, chosen.values())) > _MOST_PROGRAMS:
                raise Unsure("more programs than are run decide one element")
        return chosen

    def _together(self, number: int, program: int) -> set[int]:
        """Programs that share a counter with this one: what each does depends on their order. Raises Unsure."""
        found = self._planned[number].met_by(program)
        if found is None:
            raise Unsure("what an atomic access found decides")
        if len(found) > _MOST_PROGRAMS:
            raise Unsure("more programs than are run decide one element")
        return found

    def _adds(self, number: int, storage: int) -> bool:
        launch = self._planned[number]
        return any(
            launch.storage(access) == storage
            for route in launch.routes
            for access in route.accesses(("atomic",))
        )

    def _writers(self, number: int, storage: int, offsets: np.ndarray) -> set[int]:
        found = self._planned[number].producers(storage, offsets.astype(np.int64))
        if found is None:
            raise Unsure("memory that nobody knows the writers of")
        if len(found) > _MOST_PROGRAMS:
            raise Unsure("more programs than are run decide one element")
        return set(found.tolist())

    def _touched(self, number: int, program: int) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
        """(reads, writes) of a program in memory that the call makes: sorted byte offsets by storage."""
        engine, launch = self._engine, self._planned[number]
        engine.mode, engine.reads, engine.writes = "plan", [], []
        route = launch.route_of(program)
        try:
            launch.run(program, route.recording if route is not None else None)
            fresh = self._sampled.fresh
            return _join(engine.reads, fresh), _join(engine.writes, fresh)
        finally:
            engine.reads = engine.writes = None

    def _note(self, route: Route | None) -> None:
        """Count programs that store, by plain stores, only where others of this launch did: honest ones seldom do."""
        plain = route is None or not any(True for _ in route.accesses(("atomic",)))
        for storage in self._outputs:
            mine = self._sampled.mine.get(storage)
            if mine and plain:
                places = distinct(np.concatenate(mine))
                before = self._places.get(storage, np.zeros(0, dtype=places.dtype))
                at = np.searchsorted(before, places)  # both are sorted
                new = np.ones(places.shape, dtype=bool)
                new[at < before.size] = before[at[at < before.size]] != places[at < before.size]
                self.again += int(not new.any())
                self._places[storage] = np.insert(before, at[new], places[new])

    def run(self, number: int) -> None:
        """Run the chosen programs of one launch on real values. Raises Unsure."""
        engine, launch = self._engine, self._planned[number]
        self._places.clear()
        order = sorted(self.chosen.get(number, ()))
        if launch.ranked:
            if any((number, program) not in self._targets for program in order):
                raise Unsure("what an atomic access found decides")
            self._dice.shuffle(order)
        alone = self._alone
        for place, program in enumerate(order):
            if alone:
                self._sampled.ask(self._asked([(number, program)]))
            engine.mode, engine.flops = "sample", 0.0
            self._sampled.begin()
            route = launch.route_of(program)
            launch.run(program, route.recording if route is not None and not launch.ranked else None)
            self._note(route)
            if (number, program) in self._targets:
                self._sampled.finish()
            if place < _PRICED:
                done, priced = engine.flops, launch.priced(program)
                # What lanes read may depend on loaded floats, too: grid points that fall outside an image.
                priced.guessed |= route is None or any(access.data for access in route.map.accesses)
                self._sampled.compared(number, done, priced)


def _join(parts: Sequence[tuple[int, np.ndarray]], fresh: set[int]) -> dict[int, np.ndarray]:
    found: dict[int, list[np.ndarray]] = {}
    for storage, offsets in parts:
        if storage in fresh:
            found.setdefault(storage, []).append(offsets.reshape(-1))
    return {storage: distinct(np.concatenate(several)) for storage, several in found.items()}
