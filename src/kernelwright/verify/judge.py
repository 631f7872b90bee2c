"""What verifications share: the cases and the baselines of each task, made once and kept while they are needed.

The judge holds the reference, the seeds, the expected outputs and the tolerances. `verification.py` is one
candidate before it; the worker that a verification talks to has none of these and is thrown away afterwards.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import random
import statistics
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

from kernelwright.errors import InfrastructureError, UserError
from kernelwright.graph import Graph
from kernelwright.graph.shrink import work
from kernelwright.hardware import target as target_sheet
from kernelwright.records import Task
from kernelwright.verify.exact.asking import Posed, question
from kernelwright.verify.gpu import compiled
from kernelwright.verify.gpu.admission import ran_out
from kernelwright.verify.gpu.gpu import Gpu
from kernelwright.verify.gpu.timing import PRECISION
from kernelwright.verify.messages import WHOLE_SIZE
from kernelwright.verify.protocol import BELOW_ZERO, Protocol
from kernelwright.verify.reference import distributions, periodic
from kernelwright.verify.reference.baseline import Baseline, baseline
from kernelwright.verify.reference.gpu_cases import GpuCases
from kernelwright.verify.reference.hidden_sizes import (
    DECLINABLE,
    FEW,
    NONE,
    TUNED,
    full_sizes,
    hidden_sizes,
    inside,
    large_sets,
    named_bounds,
    named_divisors,
    named_few,
    named_numbers,
    none_of_each,
    ragged_sets,
    sizes_at,
    sizes_beyond,
    sizes_divided,
    sizes_of,
)
from kernelwright.verify.reference.long_sizes import (
    LONG,
    MOST_BYTES,
    MOST_FLOPS,
    between_sets,
    long_sets,
    one_more_full,
)
from kernelwright.verify.reference.named_values import at_named_values, named_values
from kernelwright.verify.reference.oracle import ShapeCases, has_special, shape_cases
from kernelwright.verify.reference.periodic import Patch
from kernelwright.verify.reference.reach import farther
from kernelwright.verify.reference.task_module import NotModelled, Reference, for_task, init_seed
from kernelwright.verify.sandbox.zygote import Zygote
from kernelwright.verify.store import Store
from kernelwright.verify.structures import equal_plain

_CACHED_TASKS = 512
_COSTS = 1 << 14
_PATCHES = 256
"""Periods of full-size cases, of a few MB each, that are kept."""
_GPU_TASKS = 64
_WIDER, _WIDER_COST = 48, 2.0
"""Sizes beside shortened long ones, where that does not cost more: errors of few elements tell little."""
_NAMED_POSITION = 7
"""As the position of a shape set: none of the first, which get more cases."""
BETWEEN = "between"
"""As the name of a set of sizes between the small and the full ones."""
_ABOUT, _ROUNDS = 1.5, 3
"""How far what a reference does at long sizes may be from what its graph's types told, by a factor; times that they are put right."""
_FAR_ROOM = 32
"""Factor on what the reference may do at a long size under weights that let elements reach further: it is no long way else."""
_WHOLE = 64.0
"""Of a full size that is interpreted as a whole: the most that the reference does there, as a factor on what it may at long ones."""
_HELD = 32.0
"""Likewise, of sizes of which some are full."""
_PASSES = 4.0
"""Of a full size as a whole, how many times that it may move, where inputs and outputs are less: what lies between is no kernel's to move."""
_FAR_AT_FULL_SIZE = 30.0
"""Factor on the inputs of one case at full size."""


T = TypeVar("T")


class Kept(Generic[T]):
    """Values by key, each made once however many threads ask; the least recently used beyond `limit` are let go."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: OrderedDict[object, _Entry[T]] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, key: object) -> bool:
        with self._lock:
            return key in self._entries and bool(self._entries[key].made)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Raises what `make` raises, to everyone who asks."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self.limit:
                self._entries.popitem(last=False)
        with entry.lock:
            if not entry.made:
                entry.made.append(make())
            return entry.made[0]


@dataclasses.dataclass
class _Entry(Generic[T]):
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    made: list[T] = dataclasses.field(default_factory=list)
    """The value, once there is one."""


@contextlib.contextmanager
def _ours(what: str) -> Iterator[None]:
    """Around what the judge makes for itself: raises UserError, NotModelled and what says that memory ran out as they are,
    and InfrastructureError for anything else. A bug of ours must never end as if there were nothing to check."""
    try:
        yield
    except (UserError, NotModelled, InfrastructureError, OSError):
        raise
    except Exception as error:
        if ran_out(error):
            raise
        raise InfrastructureError(f"{what}: {type(error).__name__}: {error}") from error


def _shorten(length: int, share: float) -> int:
    """That share of a length, and a power of two where it is one."""
    if length & (length - 1) == 0:
        return length >> math.ceil(-math.log2(share))
    return int(length * share)


def _cut_short(made: ShapeCases, own: Sequence[ShapeCases]) -> bool:
    """Whether a slice that takes a part of something at the task's own sizes takes all of it at these: the first eight of
    three columns are not what was meant."""
    most = max(shape.operators.count("alias") for shape in own)
    return bool(made.operators.count("alias") > most)


Work = Callable[[Mapping[str, int]], float]


def _told_sets(
    task: Task, small: Sequence[str], told: Work, done: Work, factor: float
) -> list[dict[str, int]] | None:
    """Sets of long sizes by what is `told` of the work there, times `factor`, and put right by what is `done`; None where they do
    not come near each other."""
    for _ in range(_ROUNDS):
        found = long_sets(task, small, lambda sizes, by=factor: by * told(sizes))  # type: ignore[misc]
        shares = [done(sizes) / told(sizes) for sizes in found]
        if not all(map(math.isfinite, shares)):
            return None
        near = all(share > factor / _ABOUT for share in shares)
        if near and all(done(sizes) <= _ABOUT for sizes in found):
            return found
        factor = statistics.fmean(shares)
    return None


class Judge:
    """Shared between verifications; thread-safe. `secret` seeds all inputs and never leaves this process."""

    def __init__(
        self,
        protocol: Protocol,
        target: str,
        secret: int,
        deadline_s: float = 30.0,
        compiled: bool = True,
        beside: Sequence[Protocol] = (),
        priced: bool = True,
        timing_precision: float = PRECISION,
        proofs: bool = False,
    ) -> None:
        """`compiled`: on a GPU, also clock torch.compile. `beside`: whose tolerances accepted outputs are held to, too.
        `priced`: without a GPU, also make the binary of what is right, and model its time. `timing_precision`: of a
        measured time, see `Clock.rounds`. `proofs`: without a GPU, what is accepted is also run in exact arithmetic."""
        self.protocol, self.beside = protocol, tuple(beside)
        self.target = target_sheet(target)
        self.deadline_s, self.priced, self.timing_precision = deadline_s, priced, timing_precision
        self._secret, self.proofs = secret, proofs
        self._questions: Kept[Posed] = Kept(_CACHED_TASKS)
        self._cases: Kept[list[ShapeCases]] = Kept(_CACHED_TASKS)
        self._named: Kept[ShapeCases] = Kept(_CACHED_TASKS)
        self._another: Kept[object] = Kept(_CACHED_TASKS)
        self._exchanged: Kept[list[object]] = Kept(_CACHED_TASKS)
        self._farther: Kept[dict[str, float]] = Kept(_CACHED_TASKS)
        self._hidden_taken: dict[str, dict[str, dict[str, int]]] = {}
        """By task, the hidden sizes that its reference takes, by name."""
        self._gpu_cases: Kept[list[GpuCases]] = Kept(_GPU_TASKS)
        self._baselines: Kept[Baseline | None] = Kept(_CACHED_TASKS)
        self._patches: Kept[Patch | None] = Kept(_PATCHES)
        self._long: Kept[list[ShapeCases]] = Kept(_CACHED_TASKS)
        self._costs: Kept[float] = Kept(_COSTS)
        self._needed: Kept[bool] = Kept(_CACHED_TASKS)
        self._all_of: Kept[frozenset[int]] = Kept(_CACHED_TASKS)
        self._long_sizes: dict[tuple[str, str], dict[str, int]] = {}
        """By task and name of a long set."""
        self._compiled: Kept[float | None] | None = Kept(_CACHED_TASKS) if compiled else None
        self._timings = Store("timings")

    def cases(self, task: Task) -> list[ShapeCases]:
        """The correctness cases of a task's small shape sets, made once. Raises UserError for a broken task."""
        shapes = self.small(task)
        if not shapes:
            raise UserError(
                f"task {task.id} has no shape set named small*: a kernel is judged at small sizes "
                "(add [shapes.small] or load the task through kernelwright.tasks)"
            )
        return list(self._cases.get(task.digest, lambda: self._make_cases(task, shapes)))

    def small(self, task: Task) -> list[str]:
        """Names of a task's small shape sets that lie in the family it is asked for. Raises UserError where none does, and where
        its full size lies outside."""
        named = [name for name in task.shapes if name.startswith("small")]
        if not task.ranges:
            return named
        found = [name for name in named if inside(task, task.shapes[name])]
        if named and not found:
            raise UserError(f"task {task.id}: none of its small sizes lies in the ranges asked; widen them")
        if not inside(task, full_sizes(task)):
            raise UserError(f"task {task.id}: its full size lies outside of the ranges asked; widen them")
        return found

    def sets(self, task: Task) -> dict[str, dict[str, int]]:
        """The sizes at which values are checked, by name of the set, once there are cases."""
        own = {name: dict(task.shapes[name]) for name in self.small(task)}
        return own | self._hidden_taken.get(task.digest, {})

    def large_sets(self, task: Task) -> list[dict[str, int]]:
        """Sets of a family of sizes that are looked at as the full size is."""
        return large_sets(task, self._secret)

    def ragged(self, task: Task) -> Iterator[tuple[Task, Baseline]]:
        """The task with a full size near its own that nothing divides, of several sizes and then of one, as far as its reference
        takes that; and the baselines there."""
        if not (self.protocol.honesty and self.protocol.more_shapes):
            return
        for sizes in ragged_sets(task, self.small(task), self._secret):
            made = task.model_copy(update={"shapes": {**task.shapes, "full": sizes}})
            if (base := self.baseline(made)) is not None:
                yield made, base

    def _shape_cases(
        self, task: Task, name: str, sizes: Mapping[str, int], position: int = _NAMED_POSITION, **options: Any
    ) -> ShapeCases:
        """Those of the oracle; `options` are its own. Raises UserError."""
        return shape_cases(task, name, sizes, self.protocol, self._secret, position, **options)

    def _kept_case(
        self, task: Task, key: str, what: str, name: str, sizes: Mapping[str, int], **options: Any
    ) -> ShapeCases | None:
        """`_shape_cases`, made once; None where the reference does not take these sizes."""

        def make() -> list[ShapeCases]:
            with contextlib.suppress(UserError), _ours(what):
                return [self._shape_cases(task, name, sizes, **options)]
            return []

        return next(iter(self._long.get((task.digest, key), make)), None)

    def _make_cases(self, task: Task, shapes: list[str]) -> list[ShapeCases]:
        if not self.protocol.more_shapes:
            shapes = shapes[:1]
        found = [self._shape_cases(task, name, task.shapes[name], at) for at, name in enumerate(shapes)]
        if len(shapes) > 1 or task.ranges:
            found += self._hidden_cases(task, shapes, found)
        return found

    def _hidden_cases(self, task: Task, shapes: list[str], own: Sequence[ShapeCases]) -> list[ShapeCases]:
        """Cases at sizes that nobody but this judge knows: one set of each kind that the reference takes."""
        found: list[ShapeCases] = []
        for name, proposals in hidden_sizes(task, shapes, self._secret):
            for sizes in proposals:
                position = len(shapes) + len(found)
                try:
                    with _ours("hidden sizes"):
                        made = self._shape_cases(task, name, sizes, position)
                except UserError:
                    continue
                if _cut_short(made, own):
                    continue
                found.append(made)
                self._hidden_taken.setdefault(task.digest, {})[name] = sizes
                break
        return found

    def cases_for(self, task: Task, code: str) -> list[ShapeCases]:
        """All that a candidate is asked at small sizes: what every one is, and what it names itself."""
        first, *others = self.cases(task)
        if self.protocol.honesty and (values := named_values(code)):

            def make() -> ShapeCases:
                with _ours("values that a candidate names"):
                    return at_named_values(first, values, for_task(self.protocol, task), self._secret)

            first = self._named.get((task.digest, *values), make)
        return [first, *others, *self.named_cases(task, code)]

    def named_cases(self, task: Task, code: str) -> list[ShapeCases]:
        """Cases at multiples of the numbers that a candidate names, and above the bounds (`reference/hidden_sizes.py`)."""
        shapes = self.small(task)
        if not (self.protocol.honesty and len(shapes) > 1):
            return []
        wanted = [
            (f"hidden_{number}", sizes_of(task, shapes, number, self._secret))
            for number in named_numbers(code)
        ]
        beyond = sizes_beyond(task, shapes, named_bounds(code))
        wanted += [(f"beyond_{number}", [sizes]) for number, sizes in enumerate(beyond)]
        few = sizes_at(task, shapes, named_few(code))
        few += sizes_divided(task, shapes, named_divisors(code))
        wanted += [(f"{FEW}_{number}", [sizes]) for number, sizes in enumerate(few)]
        found: list[ShapeCases] = []
        for name, proposals in wanted:
            for sizes in proposals:
                if not inside(task, sizes):
                    continue

                def make(sizes: dict[str, int] = sizes, name: str = name) -> ShapeCases:
                    with _ours("sizes that a candidate names"):
                        return self._shape_cases(task, name, sizes)

                try:
                    made = self._named.get((task.digest, name, tuple(sizes.items())), make)
                except UserError:
                    continue
                if _cut_short(made, self.cases(task)[: len(shapes)]):
                    continue
                found.append(made)
                break
        return found

    def long_cases(self, task: Task, special: bool, room: int = 1) -> list[ShapeCases]:
        """Cases at sizes of which some are as long as at full size (`reference/long_sizes.py`), made once. `special`: none where
        they would be of ordinary values only. The reference may do `room` times as much there as usual."""

        def make() -> list[ShapeCases]:
            found: list[ShapeCases] = []
            wanted: list[tuple[str, dict[str, int], dict[str, float]]] = [
                (f"{LONG}_{number}" if room == 1 else f"{LONG}_{number}_x{room}", sizes, {})
                for number, sizes in enumerate(self._long_sets(task, room))
            ]
            if room == 1 and (far := self.farther(task)):
                wanted += [(f"{LONG}_far", sizes, far) for sizes in self._long_sets(task, _FAR_ROOM)[:1]]
            for name, sizes, moved in wanted:
                with contextlib.suppress(UserError), _ours("long sizes"):
                    made = self._shape_cases(task, name, sizes, long=True, special=not moved, farther=moved)
                    if not _cut_short(made, self.cases(task)[:1]):
                        found.append(made)
                        self._long_sizes[task.digest, made.name] = sizes
            return found

        if not (self.protocol.honesty and self.protocol.more_shapes and len(self.small(task)) > 1):
            return []
        if special and not has_special(self.cases(task)[0]) and not self.farther(task):
            return []
        return list(self._long.get((task.digest, room), make))

    def _long_sets(self, task: Task, room: int) -> list[dict[str, int]]:
        """Sets of long sizes at which the reference does `room` times as much as usual at most. A graph's work is told by its
        types, put right by what is done at the sets that they propose; where that does not come near, all are asked for what is done."""

        def done(sizes: Mapping[str, int]) -> float:
            return self._cost(task, sizes) / room

        told = self._told_cost(task)
        found = told and _told_sets(task, self.small(task), told, done, 1.0 / room)
        return long_sets(task, self.small(task), done) if found is None else found

    def _told_cost(self, task: Task) -> Work | None:
        """`_cost` of a task with a graph, in proportion to what the graph does at full size; None without."""
        base = self.baseline(task) if task.graph else None
        if base is None:
            return None
        graph = Graph.model_validate_json(task.graph)
        hints = {one.name: one.hint for one in graph.symbols}
        shares = (base.eager.bytes / MOST_BYTES, base.contraction_flops / MOST_FLOPS)

        def at(sizes: Mapping[str, int]) -> tuple[int, int]:
            return work(graph, hints | {name.lower(): size for name, size in sizes.items()})

        full = at(full_sizes(task))

        def told(sizes: Mapping[str, int]) -> float:
            try:
                return max(
                    share * now / max(1, then)
                    for share, now, then in zip(shares, at(sizes), full, strict=True)
                )
            except ValueError:  # a size below zero
                return math.inf

        return told

    def farther(self, task: Task) -> dict[str, float]:
        """Weights under which elements reach further (`reference/reach.py`)."""

        def make() -> dict[str, float]:
            if task.gradients:
                return {}
            with _ours("how far elements reach"):
                return farther(
                    self.cases(task)[0].cases[0], random.Random(f"{self._secret}:{task.digest}:reach")
                )
            return {}

        return self._farther.get(task.digest, make)

    def shorter(self, task: Task, name: str, share: float) -> ShapeCases | None:
        """One case at sizes of which the long ones are that share of those of the long set `name`, and the others not so small
        that outputs are of few elements, if that is not too much; None where nothing is long then."""
        own = self._long_sizes[task.digest, name]
        longest = {size: max(task.shapes[one].get(size, 0) for one in self.small(task)) for size in own}
        sizes = {
            size: length if length <= longest[size] else _shorten(length, share)
            for size, length in own.items()
        }
        wider = {
            size: min(max(length, _WIDER), full_sizes(task).get(size, length))
            for size, length in sizes.items()
        }
        sizes = wider if self._cost(task, wider) <= _WIDER_COST else sizes
        if not any(length > longest[size] for size, length in sizes.items()):
            return None
        return self._kept_case(
            task, str(sizes), "long sizes", f"{name}_shorter", sizes, long=True, special=False
        )

    def held_case(self, task: Task, sizes: Mapping[str, int]) -> ShapeCases | None:
        """Cases at sizes of which some are full (`long_sizes.held_sizes`), with all special values, made once; None where that is
        too much."""
        if not self.fits(task, sizes):
            return None
        return self._held_case(task, "held", sizes, 0)

    def fits(self, task: Task, sizes: Mapping[str, int]) -> bool:
        """Whether a call at sizes of which some are full is not too much."""
        return self._cost(task, sizes) <= _HELD

    def longer_than(self, task: Task, sizes: Mapping[str, int]) -> list[ShapeCases]:
        """One case each at sizes of which one more is full, or as long as may be."""
        longer = one_more_full(task, sizes, lambda made: self._cost(task, made) / _WHOLE)
        found = [self._held_case(task, "held, longer", made, _NAMED_POSITION) for made in longer]
        return [one for one in found if one is not None]

    def between(self, task: Task) -> list[dict[str, int]]:
        """Sizes between the small ones and the full ones that are asked for what is launched there."""
        if not self.protocol.more_shapes or task.ranges or len(self.small(task)) < 2:
            return []
        return between_sets(task, self.small(task))

    def tuned_cases(self, task: Task) -> Iterator[tuple[ShapeCases, ShapeCases]]:
        """Pairs of cases: of small sizes, and where one of those is full, for a module that is built of the same arguments."""
        if not self.protocol.more_shapes or task.ranges:
            return
        names, full = self.small(task), full_sizes(task)
        base = names[min(1, len(names) - 1)]
        earlier = next(shape for shape in self.cases(task) if shape.name == base)
        for name, size in task.shapes[base].items():
            made = {**task.shapes[base], name: full.get(name, size)}
            if made[name] > size and self.fits(task, made):
                shape = self._held_case(task, f"{TUNED}, {name}", made, _NAMED_POSITION)
                if shape is not None and equal_plain(shape.init, earlier.init):
                    yield earlier, shape

    def between_case(self, task: Task, sizes: Mapping[str, int]) -> ShapeCases | None:
        """One case of ordinary values at sizes between, made once; None where that is too much."""
        return self._held_case(task, BETWEEN, sizes, _NAMED_POSITION) if self.fits(task, sizes) else None

    def _held_case(self, task: Task, name: str, sizes: Mapping[str, int], position: int) -> ShapeCases | None:
        key, usual = f"{name} {sorted(sizes.items())}", position > 0
        how = {"position": position, "long": usual, "special": not usual}
        return self._kept_case(task, key, "sizes of which some are full", name, sizes, **how)

    def none_case(self, task: Task) -> ShapeCases | None:
        """One case at sizes of which the first that no constructor is given is 0, made once; None where the reference does not take
        that."""

        def make() -> list[ShapeCases]:
            init = self.cases(task)[0].init
            for sizes in none_of_each(task, self.small(task)):
                with contextlib.suppress(UserError), _ours("a size of 0"):
                    if equal_plain(Reference(task, sizes).init_inputs(), init):
                        return [self._shape_cases(task, NONE, sizes)]
            return []

        return next(iter(self._long.get((task.digest, NONE), make)), None)

    def whole_case(self, task: Task) -> ShapeCases | None:
        """One case at full size, made once; None where that is too much to interpret all of it."""
        sizes = full_sizes(task)
        if self._cost(task, sizes, _PASSES) > _WHOLE:
            return None
        return self._kept_case(task, WHOLE_SIZE, "the full size", WHOLE_SIZE, sizes, long=True, special=False)

    def _cost(self, task: Task, sizes: Mapping[str, int], passes: float = 1.0) -> float:
        """The reference's work at some sizes, as a share of the most that is interpreted at long ones, in so many `passes` over that;
        infinite where it does not take them."""

        def make() -> float:
            with contextlib.suppress(NotModelled, UserError), _ours("long sizes"):
                made = baseline(task, dict(sizes), self.target)
                moved = max(made.eager.bytes / passes, made.min_bytes)
                return max(moved / MOST_BYTES, made.contraction_flops / MOST_FLOPS)
            return math.inf

        return self._costs.get((task.digest, passes, *sizes.items()), make)

    def another_size(self, task: Task) -> object:
        """Inputs (`describe`d) that differ in one size from those of the first small set, for a module that is built of the same
        arguments; None where every size is among those."""

        def make() -> object:
            sizes = dict(task.shapes[self.small(task)[0]])
            known = None
            larger = [(name, least + more) for name, least in sizes.items() for more in (1, least)]
            for name, size in larger:
                with contextlib.suppress(NotModelled, UserError), _ours("another size"):
                    known = known or baseline(task, sizes, self.target)
                    other = baseline(task, sizes | {name: size}, self.target)
                    if other.input_spec != known.input_spec and equal_plain(other.init, known.init):
                        return other.input_spec
            return None

        return self._another.get(task.digest, make)

    def exchanged_sizes(self, task: Task) -> list[object]:
        """Inputs (`describe`d) of which two sizes are exchanged, as they are in the second small set: of as many elements, for a module
        that is built of the same arguments. None where there are none."""

        def make() -> list[object]:
            sizes = dict(task.shapes[self.small(task)[:2][-1]])
            for one, other in itertools.combinations(sizes, 2):
                with contextlib.suppress(NotModelled, UserError), _ours("sizes in exchange"):
                    known = baseline(task, sizes, self.target)
                    turned = baseline(task, sizes | {one: sizes[other], other: sizes[one]}, self.target)
                    if turned.input_spec != known.input_spec and equal_plain(turned.init, known.init):
                        return [turned.input_spec]
            return []

        return self._exchanged.get(task.digest, make)

    def gpu_cases(self, task: Task, gpu: Gpu, held: AbstractContextManager[object]) -> list[GpuCases]:
        """Shape sets on a GPU, small ones first and the full size last, with every case; made while `held` is.

        Raises UserError.
        """

        def make() -> list[GpuCases]:
            with held, gpu.counted("cases"):
                made = self._make_gpu_cases(task, gpu)
                gpu.admission.register(made)
            return made

        return list(self._gpu_cases.get((task.digest, gpu.index), make))

    def gpu_draws(self, full: bool, position: int) -> list[tuple[float, int]]:
        """(scale, seed) of each case of a shape set on a GPU, the `position`-th of its task."""
        rank = 0 if full and not self.protocol.honesty else min(position, 1) if full else position
        plan = distributions.draws(self.protocol, self._secret, rank)
        if full and self.protocol.honesty:
            # Far up as well, where a softmax needs its maximum. There is no room for the copies that inputs below zero
            # are made from, and the last one is uneven.
            far = [(_FAR_AT_FULL_SIZE, seed + 1) for _, seed in plan[:1]]
            plan = plan[:1] + far + plan[1:]
        if full:
            plan = [(-1.0 if scale == BELOW_ZERO else scale, seed) for scale, seed in plan]
        return plan

    def _make_gpu_cases(self, task: Task, gpu: Gpu) -> list[GpuCases]:
        base = self.baseline(task)
        products = base is None or base.products
        small = self.small(task) if self.protocol.honesty else []
        sets = [(name, dict(task.shapes[name])) for name in small]
        weights: dict[str, int] = {}
        if len(small) > 1 or task.ranges:
            weights = {shape.name: shape.seed for shape in self.cases(task)}
            hidden = self._hidden_taken.get(task.digest, {})
            # What a candidate may decline was asked before the GPU was.
            sets += [(name, sizes) for name, sizes in hidden.items() if not name.startswith(DECLINABLE)]
        seed = init_seed(self.protocol, self._secret)
        found = []
        for position, (name, sizes) in enumerate([*sets, ("full", dict(task.shapes.get("full", {})))]):
            full = name == "full"
            plan = self.gpu_draws(full, position)
            weighted = weights.get(name, seed)
            cases = GpuCases(
                task, name, sizes, self.protocol, plan, f"cuda:{gpu.index}", full, products, weighted
            )
            cases.make()
            found.append(cases)
        return found

    def baseline(self, task: Task) -> Baseline | None:
        """The modelled baselines at full size; None where the reference cannot be modelled."""

        def make() -> Baseline | None:
            with contextlib.suppress(NotModelled), _ours("the baseline"):
                return baseline(task, dict(task.shapes.get("full", {})), self.target)
            return None

        return self._baselines.get(task.digest, make)

    def patch(self, task: Task) -> Patch | None:
        """One period of a case at full size (`reference/periodic.py`); None where there is none."""

        def make() -> Patch | None:
            with contextlib.suppress(NotModelled), _ours("a case at full size"):
                small, base = [shape.cases[0] for shape in self.cases(task)], self.baseline(task)
                return periodic.patch(task, small, base, self.protocol, self._secret) if base else None
            return None

        return self._patches.get(task.digest, make)

    def needs_all(self, task: Task, index: int) -> bool:
        """Whether a task's outputs depend on every element of an input, at every small size."""
        return -1 in self.all_of(task, index)

    def all_of(self, task: Task, index: int) -> frozenset[int]:
        """Outputs that depend on every element of an input, at every small size (`periodic.needs_all`); -1 where they do together."""

        def make() -> frozenset[int]:
            dice = random.Random(f"{self._secret}:{task.digest}:{index}")
            with _ours("what an output depends on"):
                found = [
                    periodic.needs_all(shape.first_as_drawn(), index, dice)
                    for shape in self.cases(task)
                    if shape.name.startswith("small")
                ]
                return frozenset.intersection(*found) if found else frozenset((-1,))

        return self._all_of.get((task.digest, index), make)

    def question(self, task: Task, shape: ShapeCases) -> Posed:
        """What exact arithmetic says of the reference at a small size (`exact/verification.py`)."""

        def make() -> Posed:
            with _ours("exact arithmetic"):
                return question(shape, self._secret)

        return self._questions.get((task.digest, shape.name), make)

    def in_part(self, task: Task) -> bool:
        """Whether part of a reference's products is of no consequence (`periodic.in_part`), as of a causal attention."""

        def make() -> bool:
            dice = random.Random(f"{self._secret}:{task.digest}:part")
            shape = self.cases(task)[0]
            if any("conv" in name for name in shape.operators):
                return False  # elements at an edge reach fewer outputs, and all of their products count
            with _ours("what an output depends on"):
                return periodic.in_part(shape.cases[0], dice)

        return bool(self._needed.get((task.digest, "part"), make))

    def compiled_ratio(self, task: Task, gpu: Gpu, zygote: Zygote, size: int) -> float | None:
        """torch.compile's time over eager's at full size; None where that is not clocked or cannot be compiled."""
        if self._compiled is None:
            return None
        return self._compiled.get(
            (task.digest, gpu.name), lambda: compiled.ratio(task, gpu, zygote, size, self._timings)
        )
