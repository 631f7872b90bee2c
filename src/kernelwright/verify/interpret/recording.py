"""Program instances of a launch as straight lines: what the first one did, done again for the others.

Triton's interpreter spends nine tenths of its time on the language: types, broadcasts, promotions, wrappers. Instances of
one launch mostly take the same way through it. So the first is interpreted with a recorder in front of the builder, and what came of that is a list of the builder's calls, of which those that hang on neither the place in
the grid nor on memory were done once and for all. The others do the rest of the list, in its order, through the same
functions: every access is checked, counted and watched as before.

Where a value decides (a loop's bound, a condition), an instance whose value is another leaves the list and is interpreted.
That has to be before it has written anything, so a kernel that decides after it wrote is always interpreted; and so is
one that does what is not understood here.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeGuard

import triton.language as tl
from triton.runtime import interpreter

from kernelwright.verify.structures import Args, Function

_Handle = interpreter.TensorHandle
Step = tuple[Callable[..., Any], tuple[int, ...], dict[str, object], Any]
"""A function, the places of its arguments, its keywords, and the places of what it makes."""
_WAYS = 64
"""Recordings of a launch: ways that its instances take through the kernel."""
_ALIKE = 3
"""Of them, those whose first decision is the same."""
_LAUNCHES = 64
"""Launches whose recordings are remembered: the same kernel with the same grid and arguments, addresses included."""
_WRITES = ("store", "atomic", "scatter")
_READS = ("load", "get_program_id", "descriptor_gather")
PLACED = frozenset(
    (
        "create_get_program_id", "pack", "create_add", "create_sub", "create_mul", "create_minsi", "create_maxsi",
        "create_and", "create_or", "create_xor", "create_splat", "create_broadcast", "create_expand_dims", "create_addptr",
        "create_int_cast", *(f"create_icmp{how}" for how in ("SLT", "SLE", "SGT", "SGE", "ULT", "ULE", "UGT", "UGE", "EQ", "NE")),
    )
)  # fmt: skip
"""What does the same each time it is given the same, and leaves no note: of an instance's place alone it is done once for all
calls. No quotient or shift: where those are undefined, each call draws."""
_HELD_BYTES = 48 << 20
"""Of such values, for all instances."""
_SPEAKS = ("create_print", "create_assert", "create_assume", "create_barrier")
"""What is done for its effect, whatever it is given."""


class Watcher(Protocol):
    """Whoever looks at the rounds of a loop (`rounds.py`)."""

    def lose(self) -> None: ...
    def plain(self, args: tuple[object, ...]) -> tuple[object, ...]: ...
    def note(self, label: str, function: Function, args: Args, kwargs: dict[str, object], made: object, step: bool,
             flops: float, line: int) -> None: ...  # fmt: skip


class _Diverged(Exception):
    """This instance takes another way than the recorded one."""


class Recording:
    """The list of one instance. `record` is used around its interpretation, `play` for another instance."""

    def __init__(
        self, arguments: dict[str, object], flops: Callable[[float], float], keep: bool = False
    ) -> None:
        """`arguments` are the launch's, the same for every instance; `flops(x)` adds to the operations done, and says how
        many there are. `keep` what the recorded instance made of each step, for `program_map.py`."""
        self.replayable = True
        self.understood = True
        """Whether every tensor came from a step or a constant."""
        self.labels: list[str] = []
        """By step: the builder's name for it, or `pack`, `decide`, `reduce`."""
        self.made: dict[int, interpreter.TensorHandle] = {}
        """By place: the recorded instance's handle, where they are kept."""
        self.decisions: list[tuple[int, object]] = []
        """(line, outcome) of each step `decide`, in order."""
        self.branches: list[tuple[int, object]] = []
        """(line, outcome) of each decision that is the same for every instance."""
        self.rounds: Watcher | None = None
        """Of the loop whose round is being interpreted, where somebody looks at it."""
        self.keeps = keep
        self.kept_bytes = 0
        """Of `made`."""
        self._flops = flops
        self.values: list[object] = []
        """Constants, and at the places of what hangs on the instance, what the one now playing has."""
        self.steps: list[Step] = []
        self._places: dict[int, int] = {}
        """By identity of a handle that hangs on the instance: its place in `_values`."""
        self._kept: list[interpreter.TensorHandle] = []
        """So that no identity is given twice."""
        self._loaded: set[int] = set()
        """Identities of handles that hang on memory."""
        self._constants = {id(one) for one in _handles(arguments)}
        self._once = 0.0
        """Operations of an instance that are not done again."""
        self._first: tuple[int, Callable[[interpreter.TensorHandle], object]] | None = None
        """The step that decides first, and how what it decides on is read."""
        self.decision: object = None
        """What that was when it was recorded; None where nothing decides."""
        self.operations = 0.0
        """Of the recorded instance, and of each that takes its way."""
        self.widest = 1
        """Elements of the largest block that a step makes."""
        self.moving: set[int] = set()
        """Places of what steps make."""
        self._rest: list[Step] = []
        self._rest_labels: list[str] = []
        self._last: dict[bool, list[tuple[int, ...]]] = {}
        self.taken: tuple[int, ...] = ()
        """Places of what hangs on the place in the grid alone, and other steps take."""
        self._begun = 0.0
        """Operations of the steps that `decides` did last."""
        self._wrote = False
        self._inside = 0

    # -- recording ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def record(self) -> Iterator[None]:
        """While an instance is interpreted."""
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
        """While somebody does calls whose like are noted already."""
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def placed(self, number: object) -> TypeGuard[tl.tensor]:
        """Whether a number hangs on the instance's place in the grid, and on no memory."""
        if not isinstance(number, tl.tensor):
            return False
        known = id(number.handle)
        return known in self._places and known not in self._loaded

    def _called(self, name: str, function: Callable[..., object], *args: object, **kwargs: object) -> object:
        """Do a call of the builder's, and note it unless it can be done once and for all."""
        if self._inside:
            return function(*args, **kwargs)
        asked, rounds = args, self.rounds
        if rounds is not None:
            args = rounds.plain(args)
        given = _handles((args, kwargs) if kwargs else args)
        for one in given:
            # Python's numbers become handles of one element; anything else was made where nobody looked.
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
            self.replayable = self.understood = False  # deeper than the builder's calls ever nest them
        self.values.append(one)
        return len(self.values) - 1

    def _new(self, handle: interpreter.TensorHandle) -> int:
        self._places[id(handle)] = len(self.values)
        self._kept.append(handle)
        self.widest = max(self.widest, handle.data.size)
        self.keep(len(self.values), handle)
        self.values.append(None)
        return len(self.values) - 1

    def keep(self, place: int, handle: interpreter.TensorHandle) -> None:
        """Remember what the recorded instance made there, if somebody wants to know."""
        if self.keeps and handle.data.dtype.kind in "iub":  # of what has a place or a mask
            self.made[place] = handle
            self.kept_bytes += handle.data.nbytes

    @property
    def size(self) -> tuple[int, int]:
        """Values and steps so far."""
        return len(self.values), len(self.steps)

    def count_once(self, operations: float) -> None:
        """So many were done that are not done again."""
        self._once += operations

    def replace(self, old: interpreter.TensorHandle, new: interpreter.TensorHandle, by: int) -> None:
        """`new` is what `old` was so many values before."""
        self._kept.append(new)
        place = self._places.get(id(old))
        if place is None:
            self._constants.add(id(new))
            return
        self._places[id(new)] = place + by
        if id(old) in self._loaded:
            self._loaded.add(id(new))

    def _hook(self, name: str, own: Callable[..., Any]) -> Function:
        """For what reads or makes tensors beside the builder."""
        if name in ("__index__", "__bool__"):

            def decided(tensor: tl.tensor) -> object:
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

                    plainly = getattr(
                        own, "__wrapped__", own
                    )  # what comes of it is noted when it is recorded

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

    # -- playing ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Once recorded: tell what hangs on the place in the grid alone from the rest, and what the rest takes of it."""
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
        """Steps and labels, all or the `rest` behind what hangs on the place in the grid alone, and places that no later step takes."""
        steps, labels = (self._rest, self._rest_labels) if rest else (self.steps, self.labels)
        if rest not in self._last:
            needed, last = set(self.taken), list[tuple[int, ...]]()
            for _, places, _, out in reversed(steps):
                made = (out,) if type(out) is int else out or ()
                last.append(tuple({*places, *made} & self.moving - needed))
                needed.update(places)
            self._last[rest] = last[::-1]
        return steps, labels, self._last[rest]

    def placed_values(self) -> list[object]:
        """Of the instance that was just played, what `resume` takes."""
        return [self.values[place] for place in self.taken]

    def resume(self, placed: list[object]) -> bool:
        """`play` for an instance whose `placed_values` are known from an earlier call of the same launch."""
        for place, one in zip(self.taken, placed, strict=True):
            self.values[place] = one
        return self._all_of(self._rest)

    def decides(self) -> object:
        """What `decision` is for the instance that the builder stands at: all of a launch's do the same until then."""
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
        for function, places, kwargs, out in steps:  # without a call for each: there are millions
            made = function(*[values[place] for place in places], **kwargs)
            if type(out) is int:
                values[out] = made
            elif out is not None:
                for place, one in zip(out, made, strict=True):
                    values[place] = one

    def play(self, begun: bool = False) -> bool:
        """Do the list for the instance that the builder stands at, of which `decides` has done the first steps if it has `begun`.
        False where it takes another way; nothing was written then."""
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
    """Runs the instances of launches, by a recording where there is one."""

    def __init__(self, flops: Callable[[float], float]) -> None:
        """`flops`: see `Recording`."""
        self.making: Recording | None = None
        """What is being recorded."""
        self._flops = flops
        self._known: dict[object, dict[object, list[Recording]] | None] = {}
        """By launch, its recordings by what they decide first; None where there can be none."""
        self.launch: object = None
        self._last: Recording | None = None
        """Of this launch, what was played last."""
        self._placed: dict[object, dict[object, tuple[Recording, list[object]]]] = {}
        """By launch and place in the grid: which way that instance took, and what hangs on its place alone."""
        self._held = 0
        """Bytes of that."""

    def begin(self, function: object, grid: tuple[int, ...], arguments: dict[str, object]) -> None:
        """What follows are instances of this launch."""
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
        """The instance that the builder stands at, and the way it took where that is known."""
        ways = self._known[self.launch]
        if ways is None:
            body(**arguments)
            return None
        at, placed = interpreter.interpreter_builder.grid_idx, self._placed.setdefault(self.launch, {})
        before = placed.get(at)
        if before is not None and before[0].resume(before[1]):
            return before[0]
        asked = self._last or next((one[-1] for one in ways.values()), None)
        alike = ways.get(asked.decides(), []) if asked is not None else []
        for place in reversed(range(len(alike))):
            if alike[place].play(begun=alike[place] is asked):
                self._last = alike.pop(place)  # neighbours mostly take the same way
                alike.append(self._last)
                if self._held < _HELD_BYTES:
                    placed[at] = self._last, self._last.placed_values()
                    self._held += sum(one.data.nbytes for one in _handles(placed[at][1]))
                return self._last
        if len(alike) == _ALIKE or len(ways) == _WAYS:
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
        ways.setdefault(made.decision, []).append(made)
        return made


_TOLD: list[int] = []
"""Lines whose calls are done again."""


def told_line(line: int, function: Function, *args: object) -> object:
    """A call of that line of the kernel."""
    _TOLD.append(line)
    try:
        return function(*args)
    finally:
        _TOLD.pop()


def deciding_line() -> int:
    """The line of the kernel that asks for a decision, itself or through a function of Triton's; 0 if nobody knows."""
    if _TOLD:
        return _TOLD[-1]
    frame = sys._getframe(1)
    while frame.f_back is not None and not frame.f_code.co_filename.startswith("<kernel"):
        frame = frame.f_back
    return frame.f_lineno if frame.f_code.co_filename.startswith("<kernel") else 0


def asking_frame() -> types.FrameType:
    """Of whoever asks the generator at hand for the next value."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_flags & inspect.CO_GENERATOR:
        frame = frame.f_back
    return frame


def outcome_of(found: object) -> object:
    """What a decision comes to, beside the number of a loop's rounds: a truth value, and whether a number is 0."""
    return found if isinstance(found, bool) else f"{'no ' if not found else ''}number"


def _identity(value: object) -> object:
    """What tells an argument from others, by value."""
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
"""The builder's: while an instance is recorded, its own attributes of these names come first."""
_HOOKS: tuple[tuple[object, str], ...] = (
    (tl.tensor, "__index__"),
    (tl.tensor, "__bool__"),
    (interpreter.ReduceOps, "apply_impl"),
    (interpreter.ScanOps, "apply_impl"),
)


def _terms(operator: Any, shape: tuple[int, ...]) -> int | None:
    """Of how many elements of a block one result is the sum; 1 of those that it is one of, None of another function."""
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
    """Whether a call of the builder's does more than compute, and whether it writes."""
    writes = any(word in name for word in _WRITES)
    return writes or name in _SPEAKS or any(word in name for word in _READS), writes


def _by_name(function: Callable[..., object], count: int, names: list[str]) -> Callable[..., object]:
    return lambda *args: function(*args[:count], **dict(zip(names, args[count:], strict=True)))


def _pack(kind: type) -> Callable[..., object]:
    return lambda *parts: kind(parts)


def _check(read: Callable[[object], object], expected: object, handle: object) -> None:
    """Raises _Diverged where a value decides otherwise."""
    if read(handle) != expected:
        raise _Diverged
