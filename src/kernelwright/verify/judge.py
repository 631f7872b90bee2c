"""What verifications share: the cases and baselines of each task, made once and cached.

The judge holds the reference, the seeds, the expected outputs and the tolerances. `verification.py` judges one
candidate; its worker processes have none of these and end with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import random
import statistics
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar, cast

import torch

from kernelwright.children import run_forked
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.graph import Graph
from kernelwright.graph.shrink import work
from kernelwright.hardware import target as target_sheet
from kernelwright.records import Task
from kernelwright.verify.exact.asking import Posed, question
from kernelwright.verify.gpu import compiled
from kernelwright.verify.gpu.admission import of_the_machine
from kernelwright.verify.gpu.gpu import Gpu
from kernelwright.verify.gpu.timing import PRECISION
from kernelwright.verify.messages import WHOLE_SIZE
from kernelwright.verify.protocol import BELOW_ZERO, Protocol
from kernelwright.verify.reference import distributions, periodic
from kernelwright.verify.reference.baseline import Baseline, baseline, forms
from kernelwright.verify.reference.chains import follows_lists
from kernelwright.verify.reference.checkpoint import State
from kernelwright.verify.reference.comparison import strays
from kernelwright.verify.reference.gpu_cases import GpuCases
from kernelwright.verify.reference.hidden_sizes import (
    AGAIN,
    BEYOND,
    COUNTED,
    DECLINABLE,
    FEW,
    NONE,
    ROOM_OF_PARTS,
    TUNED,
    at_powers,
    full_sizes,
    hidden_sizes,
    inside,
    large_sets,
    named_bounds,
    named_divisors,
    named_few,
    named_numbers,
    named_parts,
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
    both_long,
    long_sets,
    of_lists,
    one_more_full,
    stretched,
)
from kernelwright.verify.reference.named_values import at_named_values, named_values
from kernelwright.verify.reference.operators import BUCKETS, NO_CHANNELS
from kernelwright.verify.reference.oracle import (
    LISTS,
    ShapeCases,
    has_special,
    shape_cases,
    states_after_calls,
    step_counts,
)
from kernelwright.verify.reference.periodic import Patch
from kernelwright.verify.reference.reach import MOST_OPERATORS, farther, small_parameters
from kernelwright.verify.reference.special_values import averages, rounds_once, weighs
from kernelwright.verify.reference.task_module import NotModelled, Reference, for_task, init_seed
from kernelwright.verify.reference.whole_numbers import are_offsets, groups, lists
from kernelwright.verify.sandbox.zygote import Zygote
from kernelwright.verify.store import Store
from kernelwright.verify.structures import equal_plain, flatten

_CACHED_TASKS = 512
_COSTS = 1 << 14
_PATCHES = 256
"""Most cached periods of full-size cases, a few MB each."""
_GPU_TASKS = 64
_TRY_S = 5.0
"""The longest that another process may take over a size of 0."""
_NETWORK = 150
"""Operators from which on a reference is a network, whose cases take longer to make than a process takes to ask for them."""
_WIDER, _WIDER_COST = 48, 2.0
"""Least other sizes where long ones are shortened or outputs are in half precision, since errors of few elements show little; and
the most that this may cost."""
_NAMED_POSITION = 7
"""Position of such a shape set: not one of the first, which get more cases."""
BOTH_LONG = "long_both"
"""Name of a set with two long sizes, which no program at full size stands for."""
_COUNTS = (torch.int32, torch.int64)
FAR_COUNTS = "long_counts"
"""Prefix of sets for references whose weights depend on integers: lengths and prefixes beyond a block."""
_MOST_PARTS = 2
"""The most sets in which something has several parts that a candidate names, the last of them a short one."""
_BOTH_ROOM = 8
"""Factor on the reference's permitted work there: its programs are few."""
BETWEEN = "between"
"""Name of a set of sizes between the small and the full ones."""
_ABOUT, _ROUNDS = 1.5, 3
"""Factor by which a reference's work at long sizes may differ from its graph's estimate; rounds of correcting the estimate."""
_FAR_ROOM = 32
"""Factor on the reference's permitted work at a long size, for weights that let elements reach further: less is not long enough."""
_WHOLE = 64.0
"""The same factor for a full size that is interpreted as a whole."""
_HELD = 32.0
"""The same factor for sizes of which some are full."""
_PASSES = 8.0
"""At a whole full size we divide the reference's bytes by this, but not below inputs and outputs: kernels move no intermediates.
What would be unproven is worth more work."""
_FAR_AT_FULL_SIZE = 30.0
"""Factor on the inputs of one case at full size."""


T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])


class Kept(Generic[T]):
    """A thread-safe LRU cache of `limit` values; each value is made once, even if several threads ask."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: OrderedDict[object, _Entry[T]] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, key: object) -> bool:
        with self._lock:
            return key in self._entries and bool(self._entries[key].made)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The cached value, or that of `make`. Raises what `make` raises, in every thread that asks."""
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
    """Empty until the value is made."""


def _once(
    limit: int = _CACHED_TASKS, by: Callable[..., Hashable] = lambda *args: args
) -> Callable[[Method], Method]:
    """A decorator of `Judge`'s methods: results are `Kept` by the task's digest and by `by` of the other arguments."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def once(judge: Judge, task: Task, *args: Any, **options: Any) -> Any:
            kept = judge.kept.setdefault(method.__name__, Kept(limit))
            return kept.get(
                (task.digest, by(*args, **options)), lambda: method(judge, task, *args, **options)
            )

        return cast(Method, once)

    return decorate


@contextlib.contextmanager
def _ours(what: str) -> Iterator[None]:
    """Wraps the judge's own work: passes on UserError, NotModelled and out-of-memory errors, and turns any other exception into
    InfrastructureError. A bug of ours must never look as if there were nothing to check."""
    try:
        yield
    except (UserError, NotModelled, InfrastructureError, OSError):
        raise
    except Exception as error:
        if of_the_machine(error):
            raise
        raise InfrastructureError(f"{what}: {type(error).__name__}: {error}") from error


def _shorten(length: int, share: float) -> int:
    """That share of a length; a power of two stays one."""
    if length & (length - 1) == 0:
        return length >> math.ceil(-math.log2(share))
    return int(length * share)


def _means_another(made: ShapeCases, own: Sequence[ShapeCases], protocol: Protocol) -> bool:
    """Whether the task means something else at these sizes than at its own: a slice that takes a part there takes all, such as the
    first eight of three columns, or the reference strays there alone, such as a sine of the forty-second octave."""
    if made.operators.count("alias") > max(shape.operators.count("alias") for shape in own):
        return True

    def wild(shape: ShapeCases) -> bool:
        usual = (case for case in shape.cases if case.scale == 1.0 and not case.special)
        return any(strays(one, protocol) for case in usual for one in case.expected)

    return wild(made) and not any(map(wild, own))


Work = Callable[[Mapping[str, int]], float]
_Work = tuple[float, float, float, float]
"""The reference's work at some sizes: bytes it moves, bytes of inputs and outputs, FLOPs of products, operators."""


def _estimated_sets(
    task: Task, small: Sequence[str], estimate: Work, done: Work, factor: float, apart: bool = False
) -> list[dict[str, int]] | None:
    """Sets of long sizes by the estimated work `estimate`, times `factor`, which is corrected by the real work `done`; None if the two
    do not come close."""
    for _ in range(_ROUNDS):
        found = long_sets(task, small, lambda sizes, by=factor: by * estimate(sizes), apart)  # type: ignore[misc]
        estimates = list(map(estimate, found))
        if not all(estimates):  # moves alone
            return None
        shares = [done(sizes) / about for sizes, about in zip(found, estimates, strict=True)]
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
        """`compiled`: on a GPU, also time torch.compile. `beside`: further protocols; accepted outputs are compared under their
        tolerances, too. `priced`: without a GPU, also compile accepted candidates and model their time. `timing_precision`: of
        measured times, see `Clock.rounds`. `proofs`: without a GPU, also run accepted candidates in exact arithmetic."""
        self.protocol, self.beside = protocol, tuple(beside)
        self.target = target_sheet(target)
        self.deadline_s, self.priced, self.timing_precision = deadline_s, priced, timing_precision
        self._secret, self.proofs = secret, proofs
        self._ended, self._times_compiled = False, compiled
        self.kept: dict[str, Kept[Any]] = {}
        """Method -> its results (`_once`)."""
        self._hidden_taken: dict[str, dict[str, dict[str, int]]] = {}
        """Task -> name -> hidden sizes that its reference accepts."""
        self._long_sizes: dict[tuple[str, str], dict[str, int]] = {}
        """(task, name of a long set) -> its sizes."""
        self._timings = Store("timings")

    def end(self) -> None:
        """Let verifications that are under way raise InfrastructureError at the next piece of the judge's own work."""
        self._ended = True

    def _go_on(self) -> None:
        if self._ended:
            raise InfrastructureError("the judge was closed")

    def cases(self, task: Task) -> list[ShapeCases]:
        """The correctness cases of a task's small shape sets, made once. Raises UserError for a broken task."""
        shapes = self.small(task)
        if not shapes:
            raise UserError(
                f"task {task.id} has no shape set named small*: a kernel is judged at small sizes "
                "(add [shapes.small] or load the task through kernelwright.tasks)"
            )
        return list(self._make_cases(task))

    def small(self, task: Task) -> list[str]:
        """Names of a task's small shape sets within its ranges. Raises UserError if there are none, or if the full size lies
        outside."""
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
        """Name of a set -> its sizes, for all sets whose values are checked; hidden ones once their cases are made."""
        own = {name: dict(task.shapes[name]) for name in self.small(task)}
        return own | self._hidden_taken.get(task.digest, {})

    def large_sets(self, task: Task) -> list[dict[str, int]]:
        """Large sets of a task with ranges, which are checked in the way the full size is."""
        return large_sets(task, self._secret)

    def ragged(self, task: Task) -> Iterator[tuple[Task, Baseline]]:
        """(task, baseline) with full sizes near the task's own that tiles do not divide: first several sizes changed, then one. Only
        those that the reference accepts."""
        if not (self.protocol.honesty and self.protocol.more_shapes):
            return
        yield from self._planned(task, ragged_sets(task, self.small(task), self._secret))

    def planned_between(self, task: Task) -> Iterator[tuple[Task, Baseline]]:
        """The same with sizes from `between` as full ones."""
        if self.protocol.honesty:
            yield from self._planned(task, self.between(task))

    def _planned(self, task: Task, sets: Iterable[Mapping[str, int]]) -> Iterator[tuple[Task, Baseline]]:
        for sizes in sets:
            made = task.model_copy(update={"shapes": {**task.shapes, "full": dict(sizes)}})
            if (base := self.baseline(made)) is not None:
                yield made, base

    def _shape_cases(
        self, task: Task, name: str, sizes: Mapping[str, int], position: int = _NAMED_POSITION, **options: Any
    ) -> ShapeCases:
        """Cases from the oracle, with its `options`. Raises UserError."""
        self._go_on()
        return shape_cases(task, name, sizes, self.protocol, self._secret, position, **options)

    @_once(by=lambda key, *_, **options: key)
    def _kept_case(
        self, task: Task, key: str, what: str, name: str, sizes: Mapping[str, int], **options: Any
    ) -> ShapeCases | None:
        """`_shape_cases`, made once; None if the reference does not accept these sizes."""
        with contextlib.suppress(UserError), _ours(what):
            return self._shape_cases(task, name, sizes, **options)
        return None

    @_once()
    def after_calls(self, task: Task) -> list[ShapeCases]:
        """Cases in the states that earlier calls leave behind, at the second small sizes, where a ring and the rows written to it are
        of different lengths; none if a call leaves nothing."""
        sizes = task.shapes[self.small(task)[:2][-1]]
        states: dict[str, State] = {}
        with contextlib.suppress(UserError), _ours("what calls leave behind"):
            states = states_after_calls(task, sizes, self.protocol, self._secret, _NAMED_POSITION)
        found: list[ShapeCases] = []
        for name, state in states.items():
            with contextlib.suppress(UserError), _ours("what calls leave behind"):
                found.append(self._shape_cases(task, name, sizes, special=False, moved=state))
        return found

    def make_ahead(self, task: Task) -> threading.Thread | None:
        """Begin to make what a candidate for a network is asked last, in a thread of its own: the judge's process has little to do
        while others interpret. None for smaller references."""
        if len(self.cases(task)[0].operators) < _NETWORK:
            return None

        def make() -> None:
            with contextlib.suppress(Exception):  # what fails here fails again where it is asked
                self.none_case(task)
                self.after_calls(task)
                self.step_counts(task)
                self.long_cases(task, True)

        thread = threading.Thread(target=make, name="cases ahead")
        thread.start()
        return thread

    @_once()
    def step_counts(self, task: Task) -> list[ShapeCases]:
        """Cases with other step counts (`renumbered.step_counts`) at the first small sizes, made once."""
        sizes = task.shapes[self.small(task)[0]]
        with contextlib.suppress(UserError), _ours("other step counts"):
            return [
                self._shape_cases(task, f"{COUNTED}{number}", sizes, special=False, numbers={place: number})
                for place, number in step_counts(task, sizes, self.protocol, self._secret)
            ]
        return []

    @_once()
    def _make_cases(self, task: Task) -> list[ShapeCases]:
        shapes = self.small(task)[: None if self.protocol.more_shapes else 1]
        found = [self._shape_cases(task, name, task.shapes[name], at) for at, name in enumerate(shapes)]
        if len(shapes) > 1 or task.ranges:
            found += self._hidden_cases(task, shapes, found)
        elif self.protocol.more_shapes:  # what is asked at a second size only
            with contextlib.suppress(UserError), _ours("a second set of values"):
                found.append(self._shape_cases(task, AGAIN, task.shapes[shapes[0]], 1))
        return found

    def _hidden_cases(self, task: Task, shapes: list[str], own: Sequence[ShapeCases]) -> list[ShapeCases]:
        """Cases at secret sizes: one set of each kind that the reference accepts."""
        found: list[ShapeCases] = []
        wanted = list(hidden_sizes(task, shapes, self._secret))
        if not BUCKETS.isdisjoint(own[0].operators):
            wanted += at_powers(task, shapes)
        for name, proposals in wanted:
            for sizes in proposals:
                position = len(shapes) + len(found)
                try:
                    with _ours("hidden sizes"):
                        made = self._shape_cases(task, name, sizes, position)
                except UserError:
                    continue
                if _means_another(made, own, self.protocol):
                    continue
                found.append(made)
                self._hidden_taken.setdefault(task.digest, {})[name] = sizes
                break
        return found

    def cases_for(self, task: Task, code: str) -> list[ShapeCases]:
        """All cases of a candidate at small sizes: the task's, and those for values and sizes that its code names."""
        first, *others = self.cases(task)
        if self.protocol.honesty and (values := named_values(code)):
            first = self._at_named_values(task, first, values)
        return [first, *others, *self.named_cases(task, code)]

    @_once(by=lambda first, values: tuple(values))
    def _at_named_values(self, task: Task, first: ShapeCases, values: Sequence[float]) -> ShapeCases:
        with _ours("values that a candidate names"):
            return at_named_values(first, values, for_task(self.protocol, task), self._secret)

    @_once(by=lambda name, sizes: (name, *sizes.items()))
    def _at_named_sizes(self, task: Task, name: str, sizes: Mapping[str, int]) -> ShapeCases:
        with _ours("sizes that a candidate names"):
            return self._shape_cases(task, name, sizes)

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
        if averages(self.cases(task)[0].operators):
            parts = sizes_beyond(task, shapes, named_parts(code), ROOM_OF_PARTS)[:_MOST_PARTS]
            wanted += [(f"{FEW}_in_parts_{number}", several) for number, several in enumerate(parts)]
        wanted += [(f"{BEYOND}_{number}", several) for number, several in enumerate(beyond)]
        few = sizes_at(task, shapes, named_few(code))
        few += sizes_divided(task, shapes, named_divisors(code))
        wanted += [(f"{FEW}_{number}", [sizes]) for number, sizes in enumerate(few)]
        found: list[ShapeCases] = []
        for name, proposals in wanted:
            for sizes in proposals:
                if not inside(task, sizes):
                    continue
                with contextlib.suppress(UserError):
                    made = self._at_named_sizes(task, name, sizes)
                    if not _means_another(made, self.cases(task)[: len(shapes)], self.protocol):
                        found.append(made)
                        break
        return found

    def long_cases(self, task: Task, special: bool, room: int = 1) -> list[ShapeCases]:
        """Cases at sizes some of which are as long as at full size (`reference/long_sizes.py`), made once. `special`: return none if
        they would have ordinary values only. `room`: factor on the reference's permitted work."""
        if not (self.protocol.honesty and self.protocol.more_shapes and len(self.small(task)) > 1):
            return []
        if special and not has_special(self.cases(task)[0]) and not self.farther(task)[1]:
            return []
        return list(self._long_cases(task, room))

    @_once()
    def _long_cases(self, task: Task, room: int) -> list[ShapeCases]:
        found: list[ShapeCases] = []
        usual = self._long_sets(task, room)
        wanted: list[tuple[str, dict[str, int], dict[str, Any]]] = [
            (f"{LONG}_{number}" if room == 1 else f"{LONG}_{number}_x{room}", sizes, {"special": True})
            for number, sizes in enumerate(usual)
        ]
        far = self.farther(task) if room == 1 else ("", {})
        bend = self.cases(task)[0].bend
        few = room == 1 and bool(bend)
        if far[1] or few:
            sets = self._long_sets(task, _FAR_ROOM)
            longest = max(sets, key=lambda sizes: sizes.get(far[0], 0), default={})
            if far[1] and longest:
                wanted.append((f"{LONG}_far", longest, {"special": False, "farther": far[1]}))
            wanted += [
                (f"{LONG}_few_{number}", sizes, {"special": False, "few": True})
                for number, sizes in enumerate(sets)
                if few and sizes not in usual
            ]
        first = self.cases(task)[0]
        weighed = weighs(first.operators)
        if room == 1 and (weighed or follows_lists(first.operators, first.cases[0].inputs)):
            dice = random.Random(f"both long {self._secret}:{task.digest}")
            sizes = both_long(task, self.small(task), usual, dice)
            if sizes and self._cost(task, sizes) <= _BOTH_ROOM:
                wanted.append((BOTH_LONG, sizes, {"special": False}))
            given = first.cases[0].inputs if weighed else ()
            if any(one.dtype in _COUNTS for one in flatten(given)):
                wanted += [
                    (f"{FAR_COUNTS}_{number}", sizes, {"special": False})
                    for number, sizes in enumerate(self._long_sets(task, _BOTH_ROOM))
                    if sizes not in usual
                ]
        if room == 1 and (sizes := self._sizes_of_lists(task)):
            wanted.append((LISTS, sizes, {"special": False}))
        for name, sizes, options in wanted:
            with contextlib.suppress(UserError), _ours("long sizes"):
                wide = self._with_enough(task, sizes)
                made = self._shape_cases(task, name, wide, long=True, bend=bend, **options)
                if not _means_another(made, self.cases(task)[:1], self.protocol):
                    found.append(made)
                    made.far |= name.startswith((BOTH_LONG, FAR_COUNTS, LISTS))
                    self._long_sizes[task.digest, made.name] = sizes
        return found

    def _sizes_of_lists(self, task: Task) -> dict[str, int]:
        """See `long_sizes.of_lists`."""

        def measure(sizes: Mapping[str, int]) -> tuple[int, int]:
            with contextlib.suppress(UserError):
                return lists(Reference(task, dict(sizes)).inputs(self._secret))
            return 0, 0

        if not groups(self.cases(task)[0].operators):
            return {}
        with _ours("long sizes"):
            return of_lists(
                task, self.small(task), measure, lambda sizes: self._cost(task, sizes) / _BOTH_ROOM
            )

    def _long_sets(self, task: Task, room: int) -> list[dict[str, int]]:
        """Sets of long sizes at which the reference does at most `room` times the usual work. We estimate the work from the graph's
        types, and correct that by the real work at the sets it proposes; if the two do not come close, or without a graph, we use
        the real work throughout."""

        def done(sizes: Mapping[str, int]) -> float:
            return self._cost(task, sizes) / room

        estimate = self._estimate_cost(task)
        apart = any(map(are_offsets, flatten(self.cases(task)[0].cases[0].inputs)))
        found = estimate and _estimated_sets(task, self.small(task), estimate, done, 1.0 / room, apart)
        return long_sets(task, self.small(task), done, apart) if found is None else found

    def _estimate_cost(self, task: Task) -> Work | None:
        """An estimate of `_cost` in proportion to the graph's work at full size; None for a task without a graph."""
        base = self.baseline(task) if task.graph else None
        if base is None:
            return None
        graph = Graph.model_validate_json(task.graph)
        hints = {one.name: one.hint for one in graph.symbols}
        shares = (base.eager.bytes / MOST_BYTES, base.contraction_flops / MOST_FLOPS)

        def at(sizes: Mapping[str, int]) -> tuple[int, int]:
            return work(graph, hints | {name.lower(): size for name, size in sizes.items()})

        full = at(full_sizes(task))

        def estimate(sizes: Mapping[str, int]) -> float:
            try:
                return max(
                    share * now / max(1, then)
                    for share, now, then in zip(shares, at(sizes), full, strict=True)
                )
            except ValueError:  # a size below zero
                return math.inf

        return estimate

    @_once()
    def farther(self, task: Task) -> tuple[str, dict[str, float]]:
        """(size, changes to weights that let elements reach further along it, `reference/reach.py`)."""
        if next(self.cases(task)[0].cases[0].module.parameters(), None) is None:
            return "", {}
        dice = random.Random(f"{self._secret}:{task.digest}:reach")
        if not small_parameters(self.cases(task)[0].cases[0].module):
            return "", {}
        for name, sizes in stretched(
            task, self.small(task), lambda sizes: self._cost(task, sizes, operators=MOST_OPERATORS)
        ):
            with contextlib.suppress(NotModelled, UserError), _ours("how far elements reach"):
                reference = Reference(task, sizes)
                if found := farther(reference.build(), reference.inputs(self._secret), dice):
                    return name, found
        return "", {}

    def shorter(self, task: Task, name: str, share: float) -> ShapeCases | None:
        """One case with the long sizes of the long set `name` shortened to `share`. If the cost permits, the other sizes are raised so
        that outputs have more elements. None if nothing is long any more."""
        own = self._long_sizes[task.digest, name]
        longest = {size: max(task.shapes[one].get(size, 0) for one in self.small(task)) for size in own}
        sizes = {
            size: length if length <= longest[size] else _shorten(length, share)
            for size, length in own.items()
        }
        sizes = self._raised(task, sizes)
        if not any(length > longest[size] for size, length in sizes.items()):
            return None
        return self._kept_case(
            task, str(sizes), "long sizes", f"{name}_shorter", sizes, long=True, special=False
        )

    def _raised(self, task: Task, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes with the short ones raised, so that outputs have more elements, if the cost permits."""
        full = full_sizes(task)
        wider = {size: min(max(length, _WIDER), full.get(size, length)) for size, length in sizes.items()}
        return wider if self._cost(task, wider) <= _WIDER_COST else dict(sizes)

    def _with_enough(self, task: Task, sizes: dict[str, int]) -> dict[str, int]:
        """Sizes raised if that makes enough elements of an output in half precision that has too few."""
        if not self._few(task, sizes):
            return sizes
        wider = self._raised(task, sizes)
        return sizes if self._few(task, wider) else wider

    def _few(self, task: Task, sizes: Mapping[str, int]) -> bool:
        """Whether an output in half precision has too few elements for their root mean square to show digits lost by each."""
        found = baseline(task, dict(sizes), self.target).form.expected
        return any(one.dtype in (torch.bfloat16, torch.float16) and one.numel() < _WIDER for one in found)

    def held_case(self, task: Task, sizes: Mapping[str, int]) -> ShapeCases | None:
        """Cases at sizes some of which are full (`long_sizes.held_sizes`), with all special values, made once; None if that costs too
        much."""
        if not self.fits(task, sizes):
            return None
        return self._held_case(task, "held", sizes, 0)

    def fits(self, task: Task, sizes: Mapping[str, int]) -> bool:
        """Whether a call at sizes some of which are full does not cost too much."""
        return self._cost(task, sizes) <= _HELD

    def longer_than(self, task: Task, sizes: Mapping[str, int]) -> list[ShapeCases]:
        """One case for each further size made full, or as long as the cost permits."""
        longer = one_more_full(task, sizes, lambda made: self._cost(task, made) / _WHOLE)
        found = [self._held_case(task, "held, longer", made, _NAMED_POSITION) for made in longer]
        return [one for one in found if one is not None]

    def between(self, task: Task) -> list[dict[str, int]]:
        """Sizes between the small and the full ones, at which launches are traced."""
        if not self.protocol.more_shapes or task.ranges or len(self.small(task)) < 2:
            return []
        return between_sets(task, self.small(task))

    def tuned_cases(self, task: Task) -> Iterator[tuple[ShapeCases, ShapeCases]]:
        """Pairs of cases for modules with equal constructor arguments: at small sizes, and with one of these sizes full."""
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
        """One case of ordinary values at sizes from `between`, made once; None if that costs too much."""
        return self._held_case(task, BETWEEN, sizes, _NAMED_POSITION) if self.fits(task, sizes) else None

    def _held_case(self, task: Task, name: str, sizes: Mapping[str, int], position: int) -> ShapeCases | None:
        key, usual = f"{name} {sorted(sizes.items())}", position > 0
        how = {"position": position, "long": usual, "special": not usual}
        return self._kept_case(task, key, "sizes of which some are full", name, sizes, **how)

    @_once()
    def none_case(self, task: Task) -> ShapeCases | None:
        """One case in which one size is 0, made once: the first size that the constructor does not depend on and for which the
        reference accepts 0 and has the shapes of its other sizes; None if there is none."""
        init = self.cases(task)[0].init
        for sizes in none_of_each(task, self.small(task)):
            with contextlib.suppress(UserError), _ours("a size of 0"):
                if equal_plain(Reference(task, sizes).init_inputs(), init) and self._survives(task, sizes):
                    made = self._shape_cases(task, NONE, sizes)
                    if NO_CHANNELS not in made.operators:
                        return made
        return None

    def _survives(self, task: Task, sizes: Mapping[str, int]) -> bool:
        """Whether a reference runs, or raises, at a size of 0. Some of torch's fused attentions divide by it, which ends the process
        (torch 2.11: no keys), so they are tried in another."""
        if not any("scaled_dot_product" in name for name in self.cases(task)[0].operators):
            return True
        ended = run_forked(lambda _: self._shape_cases(task, NONE, sizes), _TRY_S)
        return ended.status is not None and ended.status >= 0

    def whole_case(self, task: Task) -> ShapeCases | None:
        """One case at full size, made once; None if interpreting all of it costs too much."""
        sizes = full_sizes(task)
        if self._cost(task, sizes, _PASSES) > _WHOLE:
            return None
        return self._kept_case(task, WHOLE_SIZE, "the full size", WHOLE_SIZE, sizes, long=True, special=False)

    @_once(_COSTS, by=lambda sizes: tuple(sizes.items()))
    def _work(self, task: Task, sizes: Mapping[str, int]) -> _Work:
        """The reference's work at some sizes; infinite if it does not accept them."""
        self._go_on()
        with contextlib.suppress(NotModelled, UserError), _ours("long sizes"):
            made = baseline(task, dict(sizes), self.target)
            return made.eager.bytes, made.min_bytes, made.contraction_flops, made.eager.launches
        return math.inf, math.inf, 0.0, 0.0

    def _cost(
        self, task: Task, sizes: Mapping[str, int], passes: float = 1.0, operators: float = math.inf
    ) -> float:
        """The reference's work at some sizes as a share of the most that we interpret at long sizes, its bytes divided by `passes`
        and its products by their root, and of the most `operators`; infinite if it does not accept the sizes."""
        moved, least, flops, calls = self._work(task, sizes)
        moved, flops = max(moved / passes, least), flops / math.sqrt(passes)
        return max(moved / MOST_BYTES, flops / MOST_FLOPS, calls / operators)

    @_once()
    def another_size(self, task: Task) -> object:
        """Inputs (`describe`d) that differ from those of the first small set in one size that is not a constructor argument; None if
        there is no such size."""
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

    @_once()
    def exchanged_sizes(self, task: Task) -> list[object]:
        """At most one set of inputs (`describe`d): the second small set with two sizes exchanged, for equal constructor arguments."""
        sizes = dict(task.shapes[self.small(task)[:2][-1]])
        for one, other in itertools.combinations(sizes, 2):
            with contextlib.suppress(NotModelled, UserError), _ours("sizes in exchange"):
                turned = sizes | {one: sizes[other], other: sizes[one]}
                (init, known), (its, inputs) = forms(task, sizes), forms(task, turned)
                if inputs != known and equal_plain(its, init):
                    baseline(task, turned, self.target)  # raises if the reference does not accept them
                    return [inputs]
        return []

    @_once(_GPU_TASKS, by=lambda gpu, held: gpu.index)
    def gpu_cases(self, task: Task, gpu: Gpu, held: AbstractContextManager[object]) -> list[GpuCases]:
        """Shape sets on a GPU with all their cases, small ones first and the full size last; made while holding `held`.

        Raises UserError.
        """
        with held, gpu.counted("cases"):
            made = self._make_gpu_cases(task, gpu)
            gpu.admission.register(made)
        return made

    def gpu_draws(self, full: bool, position: int) -> list[tuple[float, int]]:
        """(scale, seed) of each case of a task's `position`-th shape set on a GPU."""
        rank = 0 if full and not self.protocol.honesty else min(position, 1) if full else position
        plan = distributions.draws(self.protocol, self._secret, rank)
        if full and self.protocol.honesty:
            # A large factor as well, for which a softmax needs its maximum. GPU memory has no room for the copies from which
            # inputs below zero are made. The last case is uneven.
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
            # Sizes that a candidate may decline were checked before the GPU was used.
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

    @_once()
    def baseline(self, task: Task) -> Baseline | None:
        """The modelled baselines at full size; None if the reference cannot be modelled."""
        with contextlib.suppress(NotModelled), _ours("the baseline"):
            return baseline(task, dict(task.shapes.get("full", {})), self.target)
        return None

    @_once(_PATCHES)
    def patch(self, task: Task) -> Patch | None:
        """One period of a case at full size (`reference/periodic.py`); None if there is none."""
        with contextlib.suppress(NotModelled), _ours("a case at full size"):
            shapes, base = self.cases(task), self.baseline(task)
            if base is not None:
                small, once = [one.cases[0] for one in shapes], rounds_once(shapes[0].operators)
                return periodic.patch(task, small, base, self.protocol, self._secret, once)
        return None

    def needs_all(self, task: Task, index: int) -> bool:
        """Whether a task's outputs depend on every element of an input, at every small size."""
        return -1 in self.all_of(task, index)

    @_once()
    def all_of(self, task: Task, index: int) -> frozenset[int]:
        """Outputs that depend on every element of an input at every small size (`periodic.needs_all`); -1: all outputs together do."""
        dice = random.Random(f"{self._secret}:{task.digest}:{index}")
        with _ours("what an output depends on"):
            found = [
                periodic.needs_all(shape.first_as_drawn(), index, dice)
                for shape in self.cases(task)
                if shape.name.startswith("small")
            ]
            return frozenset.intersection(*found) if found else frozenset((-1,))

    @_once(by=lambda shape: shape.name)
    def question(self, task: Task, shape: ShapeCases) -> Posed:
        """The reference in exact arithmetic at a small size (`exact/verification.py`)."""
        with _ours("exact arithmetic"):
            return question(shape, self._secret)

    @_once()
    def in_part(self, task: Task) -> bool:
        """Whether part of a reference's products does not matter (`periodic.in_part`), as in causal attention."""
        dice = random.Random(f"{self._secret}:{task.digest}:part")
        shape = self.cases(task)[0]
        if any("conv" in name for name in shape.operators):
            return False  # elements at an edge reach fewer outputs, but all of their products matter
        with _ours("what an output depends on"):
            return periodic.in_part(shape.cases[0], dice)

    @_once(by=lambda gpu, *_: gpu.name)
    def compiled_ratio(self, task: Task, gpu: Gpu, zygote: Zygote, size: int) -> float | None:
        """torch.compile's time over eager's at full size; None if it is not timed or the reference does not compile."""
        return compiled.ratio(task, gpu, zygote, size, self._timings) if self._times_compiled else None
