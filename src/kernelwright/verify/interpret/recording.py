"""Runs program instances of a launch from a recording of the first one.

Triton's interpreter spends nine tenths of its time on the language: types, broadcasts, promotions, wrappers. Instances of
a launch mostly take the same path through it. So the first is interpreted with a recorder in front of the builder, which
gives a list of builder calls; calls that depend on neither the place in the grid nor memory are done once and for all. Other
instances run the rest of the list, in order, through the same functions: every access is checked and counted as before.

At a decision (a loop's bound, a condition) an instance with another value leaves the list and is interpreted. That must
happen before it has written anything, so a kernel that decides after a write is always interpreted, and so is one that does
what is not understood here.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, Protocol, TypeGuard

import triton.language as tl
from triton.runtime import interpreter

from kernelwright.verify.structures import Args, Function

_Handle = interpreter.TensorHandle
Step = tuple[Callable[..., Any], tuple[int, ...], dict[str, object], Any]
"""A function, the places of its arguments, its keyword arguments, and the places of its results."""
_WAYS = 64
"""The most recordings of a launch by first decision: paths that its instances take through the kernel."""
_ALIKE = 3
"""The most recordings with the same first decision."""
_LAUNCHES = 64
"""The most launches with recordings kept; equal launches have the same kernel, grid and arguments, addresses included."""
_WRITES = ("store", "atomic", "scatter")
_READS = ("load", "get_program_id", "descriptor_gather")
PLACED = frozenset(
    (
        "create_get_program_id", "pack", "create_add", "create_sub", "create_mul", "create_minsi", "create_maxsi",
        "create_and", "create_or", "create_xor", "create_splat", "create_broadcast", "create_expand_dims", "create_addptr",
        "create_int_cast", *(f"create_icmp{how}" for how in ("SLT", "SLE", "SGT", "SGE", "ULT", "ULE", "UGT", "UGE", "EQ", "NE")),
    )
)  # fmt: skip
"""Operations with the same result for the same arguments and no side effects: if they depend only on an instance's place, they
are done once for all calls. No quotients or shifts: where those are undefined, each call draws."""
_HELD_BYTES = 48 << 20
"""The most bytes of such values, for all instances."""
_BY_ONE_THREAD = ("create_store", "create_masked_store", "create_atomic_rmw", "create_atomic_cas")
"""What one thread does if it is done to a single element."""
_SPEAKS = ("create_print", "create_assert", "create_assume", "create_barrier")
"""Operations that are done for their effect."""


class Watcher(Protocol):
    """Watches the rounds of a loop (`rounds.py`)."""

    def lose(self) -> None: ...
    def plain(self, args: tuple[object, ...]) -> tuple[object, ...]: ...
    def note(self, label: str, function: Function, args: Args, kwargs: dict[str, object], made: object, step: bool,
             flops: float, line: int) -> None: ...  # fmt: skip


class Mask(tl.tensor):
    """The mask of a single lane. Triton asks whether it is true where that changes nothing, so instances of either kind have one
    list; the answer is noted as that to any decision."""


class _Diverged(Exception):
    """This instance takes another path than the recorded one."""


class Recording:
    """The list of one instance. `record` wraps its interpretation, `play` runs another instance from it."""

    def __init__(
        self, arguments: dict[str, object], flops: Callable[[float], float], keep: bool = False
    ) -> None:
        """`arguments`: the launch's, equal for every instance. `flops(x)` adds x to the operations done and returns their number.
        `keep`: keep the recorded instance's results, for `program_map.py`."""
        self.replayable = True
        self.understood = True
        """Whether every tensor came from a step or a constant."""
        self.labels: list[str] = []
        """By step: the builder's method, or `pack`, `decide`, `reduce`."""
        self.made: dict[int, interpreter.TensorHandle] = {}
        """By place: the recorded instance's handle, if kept."""
        self.decisions: list[tuple[int, object]] = []
        """(line, outcome) of each step `decide`, in order."""
        self.branches: list[tuple[int, object]] = []
        """(line, outcome) of each decision that is the same for all instances."""
        self.rounds: Watcher | None = None
        """Watches the loop whose round is being interpreted, if any."""
        self.keeps = keep
        self.kept_bytes = 0
        """Bytes of `made`."""
        self._flops = flops
        self.values: list[object] = []
        """By place: constants, and for values that depend on the instance, those of the one now playing."""
        self.steps: list[Step] = []
        self._places: dict[int, int] = {}
        """By id of a handle that depends on the instance: its place in `values`."""
        self._kept: list[interpreter.TensorHandle] = []
        """Kept alive, so that no id is reused."""
        self._loaded: set[int] = set()
        """Ids of handles that depend on memory."""
        self._constants = {id(one) for one in _handles(arguments)}
        self._once = 0.0
        """Operations of an instance that are not repeated for others."""
        self._first: tuple[int, Callable[[interpreter.TensorHandle], object]] | None = None
        """The number of the first deciding step, and a function that reads its decision."""
        self.decision: object = None
        """The recorded instance's first decision; None if nothing decides."""
        self.operations = 0.0
        """Operations of the recorded instance, and of each on the same path."""
        self.widest = 1
        """Elements of the largest block that a step makes."""
        self.moving: set[int] = set()
        """Places of results of steps."""
        self.blocks: dict[int, tuple[int, ...]] = {}
        """Place -> shape of each result of more than one element."""
        self.narrow: Recording | Literal[False] | None = None
        """The recording without lanes that do nothing (`dead_lanes.py`); False if there is none, None if not yet looked for."""
        self.before_cut = 0
        """Lanes of its blocks before dead ones were cut off; 0 if none were."""
        self._rest: list[Step] = []
        self._rest_labels: list[str] = []
        self._last: dict[bool, list[tuple[int, ...]]] = {}
        self.taken: tuple[int, ...] = ()
        """Places that depend only on the place in the grid and that other steps use."""
        self._begun = 0.0
        """Operations of the steps that the last `decides` ran."""
        self._wrote = False
        self._inside = 0

    # -- recording ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def record(self) -> Iterator[None]:
        """Record the instance that is interpreted inside the block."""
        builder = interpreter.interpreter_builder
        saved = [(owner, name, owner.__dict__[name]) for owner, name in _HOOKS]
        for name in _METHODS:
            builder.__dict__[name] = functools.partial(self._called, name, getattr(builder, name))
        for owner, name, own in saved:
            setattr(owner, name, self._hook(name, own))
        try:
            yield
        finally:
            for name in _METHODS:
                del builder.__dict__[name]
            for owner, name, own in saved:
                setattr(owner, name, own)
            self._places.clear()
            self._loaded.clear()
            self._kept.clear()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Do not record calls in the block: their like is recorded already."""
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def placed(self, number: object) -> TypeGuard[tl.tensor]:
        """Whether a number depends on the instance's place in the grid, but not on memory."""
        if not isinstance(number, tl.tensor):
            return False
        known = id(number.handle)
        return known in self._places and known not in self._loaded

    def _called(self, name: str, function: Callable[..., object], *args: object, **kwargs: object) -> object:
        """Do a builder call, and record it unless it can be done once and for all."""
        if self._inside:
            return function(*args, **kwargs)
        asked, rounds = args, self.rounds
        if rounds is not None:
            args = rounds.plain(args)
        given = _handles((args, kwargs) if kwargs else args)
        for one in given:
            # Python numbers become handles of one element; any other unknown handle was made unobserved.
            if id(one) not in self._places and id(one) not in self._constants and one.data.shape != (1,):
                self.replayable = self.understood = False
        dynamic = any(id(one) in self._places for one in given)
        does, writes = acts(name)
        before = self._flops(0.0)
        self._inside += 1
        try:
            made = function(*args, **kwargs)
        finally:
            self._inside -= 1
        done = self._flops(0.0) - before
        step = dynamic or does
        if rounds is not None:
            rounds.note(name, function, asked, kwargs, made, step, done, deciding_line())
        if not step:
            self._once += done
            for one in _handles(made):
                self._constants.add(id(one))
                self._kept.append(one)
            return made
        self._wrote |= writes
        self._note(name, function, args, kwargs, made)
        if (does and name != "create_get_program_id") or any(id(one) in self._loaded for one in given):
            self._loaded.update(map(id, _handles(made)))
        return made

    def _note(
        self, name: str, function: Function, args: Args, kwargs: dict[str, object], made: object
    ) -> None:
        if any(id(one) in self._places for one in _handles(kwargs)):
            function = _by_name(function, len(args), list(kwargs))
            args, kwargs = (*args, *kwargs.values()), {}
        places = []
        for one in args:
            if isinstance(one, list | tuple) and any(id(part) in self._places for part in _handles(one)):
                self.steps.append((_pack(type(one)), tuple(map(self._place, one)), {}, len(self.values)))
                self.labels.append("pack")
                places.append(len(self.values))
                self.values.append(None)
            else:
                places.append(self._place(one))
        out: int | tuple[int, ...] | None = None
        if isinstance(made, _Handle):
            out = self._new(made)
        elif isinstance(made, list | tuple) and all(isinstance(one, _Handle) for one in made):
            out = tuple(map(self._new, made))
        elif made is not None:
            self.replayable = self.understood = False
        self.steps.append((function, tuple(places), kwargs, out))
        self.labels.append(name)

    def _place(self, one: object) -> int:
        known = self._places.get(id(one)) if isinstance(one, _Handle) else None
        if known is not None:
            return known
        if any(id(part) in self._places for part in _handles(one)):
            self.replayable = self.understood = False  # nested deeper than in any builder call
        self.values.append(one)
        return len(self.values) - 1

    def _new(self, handle: interpreter.TensorHandle) -> int:
        self._places[id(handle)] = len(self.values)
        self._kept.append(handle)
        self.widest = max(self.widest, handle.data.size)
        if handle.data.size > 1:
            self.blocks[len(self.values)] = handle.data.shape
        self.keep(len(self.values), handle)
        self.values.append(None)
        return len(self.values) - 1

    def keep(self, place: int, handle: interpreter.TensorHandle) -> None:
        """Keep the recorded instance's result, if asked."""
        if self.keeps and handle.data.dtype.kind in "iub":  # may be an address or a mask
            self.made[place] = handle
            self.kept_bytes += handle.data.nbytes

    @property
    def size(self) -> tuple[int, int]:
        """Values and steps so far."""
        return len(self.values), len(self.steps)

    def count_once(self, operations: float) -> None:
        """Add operations that are not repeated for other instances."""
        self._once += operations

    def replace(self, old: interpreter.TensorHandle, new: interpreter.TensorHandle, by: int) -> None:
        """Let `new` take the place of `old`, moved on by `by` values."""
        self._kept.append(new)
        place = self._places.get(id(old))
        if place is None:
            self._constants.add(id(new))
            return
        self._places[id(new)] = place + by
        if id(old) in self._loaded:
            self._loaded.add(id(new))

    def _hook(self, name: str, own: Callable[..., Any]) -> Function:
        """A wrapper for a function that reads or makes tensors without the builder."""
        if name in ("__index__", "__bool__"):

            def decided(tensor: tl.tensor) -> object:
                if isinstance(tensor, Mask) and not (self.keeps or self._inside):
                    seen = functools.partial(told_line, deciding_line(), _read, own, tensor.type)
                    self._called("mask", seen, tensor.handle)
                    return True
                found = own(tensor)
                if self._inside:
                    return found
                if self.rounds is not None:
                    self.rounds.lose()
                line = deciding_line()
                if id(tensor.handle) not in self._places:
                    self.branches.append((line, outcome_of(found)))
                elif tensor.handle.data.size == 1:
                    self.decisions.append((line, outcome_of(found)))
                    self.labels.append("decide")
                    self.replayable &= not self._wrote
                    place, kind = self._places[id(tensor.handle)], tensor.type

                    # The note of the decision was made when it was recorded.
                    plainly = getattr(own, "__wrapped__", own)

                    def read(handle: object) -> object:
                        return plainly(tl.tensor(handle, kind))

                    if self._first is None:
                        self._first, self.decision = (len(self.steps), read), found
                    self.steps.append((functools.partial(_check, read, found), (place,), {}, None))
                return found

            return decided

        def applied(operator: object, values: tl.tensor | tuple[tl.tensor, ...]) -> object:
            if self._inside:
                return own(operator, values)
            given = values if isinstance(values, tuple) else (values,)
            kinds, single = [one.type for one in given], not isinstance(values, tuple)
            found: list[Any] = []

            def again(*handles: interpreter.TensorHandle) -> object:
                tensors = tuple(tl.tensor(one, kind) for one, kind in zip(handles, kinds, strict=True))
                made = own(operator, tensors[0] if single else tensors)
                found[:] = [made]
                return [one.handle for one in made] if isinstance(made, list | tuple) else made.handle

            again.terms = functools.partial(_terms, operator)  # type: ignore[attr-defined]
            again.operator = operator  # type: ignore[attr-defined]
            self._called("reduce", again, *(one.handle for one in given))
            return found[0]

        return applied

    def spreads(self, number: int) -> bool:
        """Whether the single number that a step loads is used for more than single stores and atomic operations: for a block,
        or a decision."""
        found = {self.steps[number][3]}
        for (_, places, _, out), label in zip(
            self.steps[number + 1 :], self.labels[number + 1 :], strict=True
        ):
            if found.isdisjoint(places) or label in _BY_ONE_THREAD:
                continue
            made = {out} if type(out) is int else set(out or ())
            if not made or not made.isdisjoint(self.blocks):
                return True
            found |= made
        return False

    # -- playing ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """After recording: separate what depends only on the place in the grid, and find what the rest uses of it."""
        moving: set[int] = set()
        fixed: set[int] = set()
        taken: dict[int, None] = {}
        self._rest, self._rest_labels = [], []
        for step, label in zip(self.steps, self.labels, strict=True):
            _, places, _, out = step
            still = moving.isdisjoint(places)
            if still and label == "decide":
                continue
            made = (out,) if type(out) is int else out or ()
            self.moving.update(made)
            if still and label in PLACED:
                fixed.update(made)
                continue
            moving.update(made)
            taken.update(dict.fromkeys(place for place in places if place in fixed))
            self._rest.append(step)
            self._rest_labels.append(label)
        self.taken = tuple(taken)

    def listed(self, rest: bool) -> tuple[list[Step], list[str], list[tuple[int, ...]]]:
        """Steps and labels (without those that depend only on the place if `rest`), and by step the places last used there."""
        steps, labels = (self._rest, self._rest_labels) if rest else (self.steps, self.labels)
        if rest not in self._last:
            needed, last = set(self.taken), list[tuple[int, ...]]()
            for _, places, _, out in reversed(steps):
                made = (out,) if type(out) is int else out or ()
                last.append(tuple(({*places, *made} & self.moving) - needed))
                needed.update(places)
            self._last[rest] = last[::-1]
        return steps, labels, self._last[rest]

    def placed_values(self) -> list[object]:
        """The values of the instance just played that `resume` takes."""
        return [self.values[place] for place in self.taken]

    def resume(self, placed: list[object]) -> bool:
        """`play` for an instance whose `placed_values` are known from an earlier call of the same launch."""
        for place, one in zip(self.taken, placed, strict=True):
            self.values[place] = one
        return self._all_of(self._rest)

    def decides(self) -> object:
        """The first decision of the instance at which the builder is: all of a launch's do the same until then."""
        if self._first is None:
            return None
        count, read = self._first
        before = self._flops(0.0)
        self._do(self.steps[:count])
        self._begun = self._flops(0.0) - before
        self._flops(-self._begun)
        return read(self.values[self.steps[count][1][0]])

    def _do(self, steps: Iterable[Step]) -> None:
        values = self.values
        for function, places, kwargs, out in steps:  # inlined: there are millions of steps
            made = function(*[values[place] for place in places], **kwargs)
            if type(out) is int:
                values[out] = made
            elif out is not None:
                for place, one in zip(out, made, strict=True):
                    values[place] = one

    def play(self, begun: bool = False) -> bool:
        """Run the list for the builder's current instance; if `begun`, `decides` has run the first steps. False if the instance
        takes another path; then nothing was written."""
        if not begun or self._first is None:
            return self._all_of(self.steps)
        done = self._all_of(self.steps[self._first[0] :])
        self._flops(self._begun if done else 0.0)
        return done

    def _all_of(self, steps: list[Step]) -> bool:
        before = self._flops(0.0)
        try:
            self._do(steps)
        except _Diverged:
            self._flops(before - self._flops(0.0))
            return False
        self._flops(self._once)
        return True


class Instances:
    """Runs the instances of launches, from a recording if there is one."""

    def __init__(self, flops: Callable[[float], float]) -> None:
        """`flops`: see `Recording`."""
        self.making: Recording | None = None
        """The recording in progress."""
        self._flops = flops
        self._known: dict[object, dict[object, list[Recording]] | None] = {}
        """By launch, recordings by first decision; None if the launch cannot be recorded."""
        self.launch: object = None
        self._last: Recording | None = None
        """The recording last played for this launch."""
        self._placed: dict[object, dict[object, tuple[Recording, list[object]]]] = {}
        """By launch and place in the grid: the instance's recording, and its values that depend only on the place."""
        self._held = 0
        """Bytes of these values."""

    def begin(self, function: object, grid: tuple[int, ...], arguments: dict[str, object]) -> None:
        """Begin a launch."""
        self._last = None
        self.launch = (function, grid, tuple((name, _identity(value)) for name, value in arguments.items()))
        try:
            known = self.launch in self._known
        except TypeError:  # an argument that cannot be a key
            self.launch, known = object(), False
        if not known:
            if len(self._known) >= _LAUNCHES:
                self._known.clear()
                self._placed.clear()
                self._held = 0
            self._known[self.launch] = {}

    def run(self, body: Callable[..., object], arguments: dict[str, object]) -> Recording | None:
        """Run the builder's current instance. Returns the recording of its path, if there is one."""
        by_decision = self._known[self.launch]
        if by_decision is None:
            body(**arguments)
            return None
        at, placed = interpreter.interpreter_builder.grid_idx, self._placed.setdefault(self.launch, {})
        before = placed.get(at)
        if before is not None and before[0].resume(before[1]):
            return before[0]
        last = self._last or next((one[-1] for one in by_decision.values()), None)
        alike = by_decision.get(last.decides(), []) if last is not None else []
        for place in reversed(range(len(alike))):
            if alike[place].play(begun=alike[place] is last):
                self._last = alike.pop(place)  # neighbours mostly take the same path
                alike.append(self._last)
                if self._held < _HELD_BYTES:
                    placed[at] = self._last, self._last.placed_values()
                    self._held += sum(one.data.nbytes for one in _handles(placed[at][1]))
                return self._last
        if len(alike) == _ALIKE or len(by_decision) == _WAYS:
            body(**arguments)
            return None
        self.making = made = Recording(arguments, self._flops)
        begun = self._flops(0.0)
        try:
            with made.record():
                body(**arguments)
        finally:
            self.making = None
        if not made.replayable:
            self._known[self.launch] = None
            return None
        made.operations = self._flops(0.0) - begun
        made.settle()
        by_decision.setdefault(made.decision, []).append(made)
        return made


_TOLD: list[int] = []
"""Lines of the kernel whose calls are being repeated."""


def told_line(line: int, function: Function, *args: object) -> object:
    """Repeat a call of a kernel's line."""
    _TOLD.append(line)
    try:
        return function(*args)
    finally:
        _TOLD.pop()


def deciding_line() -> int:
    """The line of the kernel that decides, directly or through a function of Triton's; 0 if unknown."""
    if _TOLD:
        return _TOLD[-1]
    frame = sys._getframe(1)
    while frame.f_back is not None and not frame.f_code.co_filename.startswith("<kernel"):
        frame = frame.f_back
    return frame.f_lineno if frame.f_code.co_filename.startswith("<kernel") else 0


def asking_frame() -> types.FrameType:
    """The frame that asks the current generator for its next value."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_flags & inspect.CO_GENERATOR:
        frame = frame.f_back
    return frame


def outcome_of(found: object) -> object:
    """The outcome of a decision, without a loop's exact number of rounds: a boolean, or whether a number is 0."""
    return found if isinstance(found, bool) else f"{'no ' if not found else ''}number"


def _identity(value: object) -> object:
    """A key for an argument, by value."""
    if isinstance(value, tl.tensor):
        return str(value.type), value.handle.data.tobytes()
    if isinstance(value, tl.constexpr):
        return _identity(value.value)
    if isinstance(value, tuple):
        return tuple(map(_identity, value))
    return type(value), value


_METHODS = tuple(
    name
    for name in dir(interpreter.InterpreterBuilder)
    if not name.startswith("__") and callable(getattr(interpreter.InterpreterBuilder, name))
)
"""The builder's methods: while an instance is recorded, instance attributes override them."""
_HOOKS: tuple[tuple[object, str], ...] = (
    (tl.tensor, "__index__"),
    (tl.tensor, "__bool__"),
    (interpreter.ReduceOps, "apply_impl"),
    (interpreter.ScanOps, "apply_impl"),
)


def _terms(operator: Any, shape: tuple[int, ...]) -> int | None:
    """How many elements of a block each result sums; 1 for maxima and minima, None for other functions."""
    name = getattr(operator.combine_fn, "__name__", "")
    if "sum" in name:
        return math.prod(shape) if operator.axis is None else shape[operator.axis]
    return 1 if "max" in name or "min" in name else None


def _handles(value: object) -> list[interpreter.TensorHandle]:
    """Every handle in a nest."""
    found: list[interpreter.TensorHandle] = []
    _gather(value, found)
    return found


def _gather(value: object, found: list[interpreter.TensorHandle]) -> None:
    if isinstance(value, _Handle):
        found.append(value)
    elif isinstance(value, tl.tensor):
        found.append(value.handle)
    elif isinstance(value, list | tuple):
        for one in value:
            if type(one) is _Handle:
                found.append(one)
            else:
                _gather(one, found)
    elif isinstance(value, dict):
        for one in value.values():
            _gather(one, found)


@functools.cache
def acts(name: str) -> tuple[bool, bool]:
    """Whether a builder call does more than compute, and whether it writes."""
    writes = any(word in name for word in _WRITES)
    return writes or name in _SPEAKS or any(word in name for word in _READS), writes


def _by_name(function: Callable[..., object], count: int, names: list[str]) -> Callable[..., object]:
    return lambda *args: function(*args[:count], **dict(zip(names, args[count:], strict=True)))


def _read(own: Callable[[tl.tensor], object], kind: tl.dtype, handle: object) -> None:
    own(tl.tensor(handle, kind))


def _pack(kind: type) -> Callable[..., object]:
    return lambda *parts: kind(parts)


def _check(read: Callable[[object], object], expected: object, handle: object) -> None:
    """Raises _Diverged if a value decides differently."""
    if read(handle) != expected:
        raise _Diverged
