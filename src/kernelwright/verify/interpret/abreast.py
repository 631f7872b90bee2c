"""Runs many instances of a launch at once: each step of a recording (`recording.py`) is done for all of them together.

Their values lie along a new first axis. Elementwise operations, moves, loads and stores are done at once by the same
functions, which check every lane as before; anything else is done instance by instance. The order of steps among instances
must not matter: a launch that reads or updates what it stores, or updates twice, runs one by one (`Alone`). Instances whose
values decide differently are split off (`Split`) before anything is written.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from kernelwright.verify.interpret.combine import at_once
from kernelwright.verify.interpret.dead_lanes import narrowed, widened
from kernelwright.verify.interpret.memory import Region, spread
from kernelwright.verify.interpret.number_formats import np_dtype
from kernelwright.verify.interpret.races import Clock, Races
from kernelwright.verify.interpret.recording import Instances, Recording, Step, acts
from kernelwright.verify.structures import Function

_Handle = interpreter.TensorHandle
Handle: TypeAlias = interpreter.TensorHandle
Index = tuple[int, int, int]
MOST_ELEMENTS = 1 << 16
"""The most elements of the widest block over all instances run at once: more gain nothing."""
_MOST_WIDENED = 1 << 20
"""The same of blocks that have their dead lanes for a reduction only."""
_FEWEST, _TRIES = 3, 4
"""The least instances of a launch that are worth it, and how many paths are tried for the others in vain."""
MOST_INSTANCES = 1 << 20
"""The most instances of a launch to keep lists of: a kernel may ask for billions, and runs out of time."""
_LAUNCHES, _GROUPS, _HELD_BYTES = 64, 64, 48 << 20
_COMPARISONS = ("LT", "LE", "GT", "GE", "EQ", "NE")
_AT_ONCE = frozenset(
    f"create_{name}"
    for name in (
        "fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "precise_divf", "approx_divf", "add", "sub", "mul", "sdiv", "udiv",
        "idiv", "srem", "urem", "shl", "lshr", "ashr", "and", "or", "xor", "minsi", "minui", "maxsi", "maxui", "minimumf",
        "maximumf", "minnumf", "maxnumf", "select", "clampf", "cos", "sin", "exp", "exp2", "log", "log2", "floor", "ceil",
        "fabs", "iabs", "sqrt", "precise_sqrt", "rsqrt", "erf", "addptr", "bitcast", "int_cast", "fp_to_fp", "fp_ext",
        "fp_trunc", "fp_to_si", "fp_to_ui", "si_to_fp", "ui_to_fp", "dot",
        *(f"icmp{sign}{how}" for how in _COMPARISONS for sign in ("S", "U", "")),
        *(f"fcmp{sign}{how}" for how in _COMPARISONS for sign in ("O", "U")),
    )
)  # fmt: skip
_FROM_INTEGERS = ("create_si_to_fp", "create_ui_to_fp")
_LOADS, _STORES = ("create_load", "create_masked_load"), ("create_store", "create_masked_store")
_KNOWN_ACTS = (
    "create_get_program_id",
    "create_barrier",
    "create_assert",
    "create_assume",
    "create_atomic_rmw",
    *_LOADS,
    *_STORES,
)
_FOLDS = {"_sum_combine": np.sum, "_elementwise_max": np.nanmax, "_elementwise_min": np.nanmin}
"""Functions of `tl.standard`, and what Triton's interpreter computes for them."""


class Split(Exception):
    """Some instances take another path."""

    def __init__(self, same: list[int]) -> None:
        """`same`: indices of the instances that do not."""
        super().__init__()
        self.same = same


class Alone(Exception):
    """The launch reads what it stores, or does something that cannot be done for many instances."""


class Watch:
    """`Races` for instances run at once."""

    def __init__(self, races: Races, programs: Sequence[int]) -> None:
        self._races, self._programs = races, programs
        self._first, self._barriers = races.phase + 1, 0
        self._places = [(program, 0, Clock()) for program in programs]
        self.at: int | None = None
        """Index of the instance that is run by itself."""

    def minds(self, region: Region | None) -> bool:
        return self._races.minds(region)

    def barrier(self) -> None:
        self._barriers += 1

    def read(self, pointers: np.ndarray, mask: np.ndarray, itemsize: int, volatile: bool) -> None:
        if self.at is not None:
            with self._standing(self.at):
                self._races.read(pointers, mask, itemsize, volatile)
            return
        mask = spread(mask, pointers.shape)
        for place in range(len(self._programs)):
            with self._standing(place):
                self._races.read(pointers[place], mask[place], itemsize, volatile)

    def apart(self, pointers: np.ndarray, mask: np.ndarray, itemsize: int) -> bool:
        """`Races.apart` for a store that all instances then make at once."""
        stamps = [self._races.stamp_of(one) for one in self._places]
        phases = self._first + self._barriers * len(self._programs) + np.arange(len(self._programs))
        return self._races.apart(pointers, mask, itemsize, np.array(stamps), phases)

    def write(
        self, pointers: np.ndarray, mask: np.ndarray, itemsize: int, changed: Callable[[], np.ndarray]
    ) -> None:
        if self.at is not None:  # or it is noted that it is `apart`
            with self._standing(self.at):
                self._races.write(pointers, mask, itemsize, changed)

    def atomic(self, pointers: np.ndarray, mask: np.ndarray, itemsize: int, order: str, narrow: bool) -> None:
        assert self.at is not None
        self.barrier()
        with self._standing(self.at):
            self._races.atomic(pointers, mask, itemsize, order, narrow)
        self.barrier()

    @contextlib.contextmanager
    def _standing(self, place: int) -> Iterator[None]:
        """Switch to this instance's state, in a phase of its own."""
        self._races.come_back(self._places[place])
        self._races.phase = self._first + self._barriers * len(self._programs) + place
        yield
        self._places[place] = self._races.place()

    def end(self) -> None:
        self._races.phase = self._first + (self._barriers + 1) * len(self._programs)


class Uses:
    """How the instances of a launch use each storage."""

    many = False
    """Whether many instances are running."""
    mixed = False
    """Whether some storage is used in more than one way."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def note(self, region: Region | None, mask: np.ndarray, how: Literal["read", "store", "update"]) -> None:
        """Record an access before it is made. Raises Alone."""
        mixed = bool(mask.any()) if region is None else self._known.setdefault(region.keep._cdata, how) != how
        self.mixed |= mixed
        if mixed and self.many:
            raise Alone


class Abreast:
    """Runs the steps of a recording for many instances. The methods raise Split, Alone."""

    def __init__(
        self, way: Recording, programs: Sequence[int], indices: Sequence[Index], races: Races | None
    ) -> None:
        self.way, self.indices, self.count = way, indices, len(programs)
        self.watch = None if races is None else Watch(races, programs)
        self._values: list[Any] = []
        self._packs: dict[int, tuple[int, ...]] = {}
        self._widened: dict[int, Handle] = {}
        """By place: blocks that the current step, a reduction, gets with their dead lanes."""

    def play(self, placed: list[Handle] | None) -> list[Handle]:
        """Run the list. `placed`: values that depend only on the place in the grid, if known; returns them."""
        way = self.way
        if way.labels.count("create_atomic_rmw") > 1:
            raise Alone  # the order in which they reach one place matters
        self._values = list(way.values)
        for place, one in zip(way.taken, placed or (), strict=False):
            self._values[place] = one
        steps, labels, last = way.listed(placed is not None)
        values = self._values
        for number, (step, label) in enumerate(zip(steps, labels, strict=True)):
            made = self._step(step, label)
            out = step[3]
            if type(out) is int:
                values[out] = made
            elif out is not None:
                for place, one in zip(out, made, strict=True):
                    values[place] = one
            for place in last[number]:
                values[place] = None
        if self.watch is not None:
            self.watch.end()
        return [values[place] for place in way.taken] if placed is None else placed

    def _step(self, step: Step, label: str) -> Any:
        function, places, kwargs, out = step
        if label == "decide":
            self._decide(function, places[0])
            return None
        args = [self._values[place] for place in places]
        self._widened.clear()
        if label == "reduce" and self.way.before_cut:
            args = [widened(one, self.way.before_cut, self.count) for one in args]
            self._widened.update(zip(places, args, strict=True))
        if label == "pack":
            assert type(out) is int
            self._packs[out] = places
            return function(*args)
        if label == "create_get_program_id":
            numbers = np.array([[index[args[0]]] for index in self.indices], dtype=np.int32)
            return _Handle(numbers, tl.int32)
        if label == "create_barrier":
            return function(*args, **kwargs)
        many = [place in self.way.moving for place in places]
        if label in _AT_ONCE:
            if not self._aligned(args, many):
                raise Alone  # the marks of a product would be lost
            if label not in _FROM_INTEGERS or args[0].data[0].size > 1:  # for one lane nothing is noted
                return function(*args, **kwargs)
        elif label in _MOVES and many[-1 if label == "create_splat" else 0] and not kwargs:
            made = _MOVES[label](self.count, *args)
            if made is not None:
                return made
        elif (label in _LOADS or label in _STORES) and many[0]:
            full = self._full(args, many)
            if label in _LOADS or self.watch is None or self._apart(full):
                return function(*full, **kwargs)
        elif label == "create_gather" and not kwargs and args[2] >= 0:
            block, index = (
                one
                if is_many
                else _Handle(np.broadcast_to(one.data, (self.count, *one.data.shape)), one.dtype)
                for one, is_many in zip(args[:2], many[:2], strict=True)
            )
            return function(block, index, args[2] + 1)
        elif label == "reduce" and all(many):
            made = self._combined(function, args, out)
            if made is None and len(args) == 1:
                made = self._fold(function, args[0])
            if made is not None:
                return made
        elif acts(label)[0] and label not in _KNOWN_ACTS and "descriptor" not in label:
            raise Alone
        return self._each(function, places, kwargs)

    def _apart(self, args: list[Any]) -> bool:
        """Whether a store, given its arguments, is noted as one that cannot race."""
        pointers = args[0].data
        mask = args[2].data if len(args) > 2 and isinstance(args[2], _Handle) else np.ones((1,), dtype=bool)
        itemsize = np_dtype(args[0].get_element_ty()).itemsize
        return self.watch is not None and self.watch.apart(pointers, mask, itemsize)

    def _decide(self, function: Any, place: int) -> None:
        read, expected = function.args
        same = [one for one in range(self.count) if read(self._of(place, one)) == expected]
        if len(same) < self.count:
            raise Split(same)

    def _of(self, place: int, one: int) -> object:
        """The value of one instance."""
        value = self._widened.get(place, self._values[place])
        if place in self._packs:
            parts = zip(value, self._packs[place], strict=True)
            return type(value)(
                _Handle(part.data[one], part.dtype) if at in self.way.moving else part for part, at in parts
            )
        if place not in self.way.moving:
            return value
        return _Handle(value.data[one], value.dtype)

    def _each(self, function: Function, places: Sequence[int], kwargs: dict[str, object]) -> object:
        """Call a function instance by instance."""
        made = []
        for one in range(self.count):
            if self.watch is not None:
                self.watch.at = one
            made.append(function(*[self._of(place, one) for place in places], **kwargs))
        if self.watch is not None:
            self.watch.at = None
        if isinstance(made[0], _Handle):
            return _stacked(made)
        return [_stacked(several) for several in zip(*made, strict=True)] if made[0] is not None else None

    @staticmethod
    def _aligned(args: Sequence[object], many: Sequence[bool]) -> bool:
        """Whether all blocks have the same number of axes, so that constants broadcast over the instances."""
        found = {
            one.data.ndim - is_many
            for one, is_many in zip(args, many, strict=True)
            if isinstance(one, _Handle) and one.data.ndim
        }
        return len(found) == 1

    def _full(self, args: list[Any], many: list[bool]) -> list[object]:
        """Arguments of a memory access, broadcast to all instances."""
        shape = args[0].data.shape
        return [
            one if is_many or not isinstance(one, _Handle)
            else _Handle(np.broadcast_to(one.data, shape), one.dtype)
            for one, is_many in zip(args, many, strict=True)
        ]  # fmt: skip

    def _combined(self, function: Function, blocks: Sequence[Handle], out: object) -> object:
        """A reduction or scan by a kernel's own function, done at once; None for others. Blocks have a power of two of rows."""
        operator = copy.copy(getattr(function, "operator", None))
        if operator is None or operator.axis is None or operator.axis < 0 or at_once(operator.combine_fn):
            return None
        operator.axis += 1
        rows = np.minimum(np.arange(1 << (self.count - 1).bit_length()), self.count - 1)
        tensors = []
        for one in blocks:
            handle = _Handle(one.data[rows], one.dtype)
            tensors.append(tl.tensor(handle, tl.block_type(one.dtype.scalar, list(handle.data.shape))))
        found = operator.apply_impl(tuple(tensors))
        made = []
        for one in found if isinstance(found, list | tuple) else [found]:
            data = one.handle.data[: self.count]
            made.append(_Handle(data.reshape(self.count, *(data.shape[1:] or (1,))), one.handle.dtype))
        return made[0] if type(out) is int else made

    def _fold(self, function: Function, block: Handle) -> object:
        """A reduction done at once, if that gives the same bits; else None."""
        operator = getattr(function, "operator", None)
        name = getattr(getattr(operator, "combine_fn", None), "__name__", "")
        kind = block.dtype.scalar
        fold: Any = _FOLDS.get(name)
        if (
            fold is None
            or not isinstance(operator, interpreter.ReduceOps)
            or operator.axis is None
            or kind.is_bf16()
        ):
            return None
        if operator.combine_fn is not getattr(tl.standard, name, None) or operator.axis < 0:
            return None
        own: Any = function(_Handle(block.data[0], block.dtype))
        first = own[0] if isinstance(own, list) else own
        made: np.ndarray = fold(block.data, axis=operator.axis + 1, keepdims=operator.keep_dims)
        made = made.astype(np_dtype(kind)).reshape(self.count, *first.data.shape)
        if made[0].tobytes() != first.data.tobytes():
            return None
        found = _Handle(made, first.dtype)
        return [found] if isinstance(own, list) else found


@dataclasses.dataclass
class Group:
    """Instances of a launch on one path, and their values that depend only on the place in the grid."""

    way: Recording
    programs: list[int]
    placed: list[Handle] | None = None


class Runner(Protocol):
    """What is needed of an engine."""

    instances: Instances
    flops: float
    uses: Uses | None
    watch: Races | Watch | None


class Groups:
    """Runs the instances of launches: the first of each path by itself, others at once, grouped as found in earlier calls."""

    def __init__(self, engine: Runner, index: Callable[[int, tuple[int, ...]], Index]) -> None:
        self._engine, self._index = engine, index
        self._known: dict[object, list[Group]] = {}
        self._alone: set[object] = set()
        """Functions and launches whose instances are run one by one."""
        self._held = 0
        """Bytes of `placed` values."""

    def run(
        self, run: Callable[[int], Recording | None], order: Sequence[int], grid: tuple[int, ...]
    ) -> None:
        """Run instances, in this order if it matters; `run` runs one of them."""
        launch = self._engine.instances.launch
        left = list(order)
        function = launch[0] if isinstance(launch, tuple) else None
        alone = len(left) < _FEWEST or function is None or not self._alone.isdisjoint((function, launch))
        if len(self._known) > _LAUNCHES:
            self._known.clear()
            self._held = 0
        if alone:
            for one in left:
                run(one)
            return
        self._engine.uses = Uses()
        try:
            self._run(
                run, left, grid, function, launch, self._known.setdefault((launch, order[0] > order[-1]), [])
            )
        finally:
            self._engine.uses = None

    def _run(
        self,
        run: Callable[[int], Recording | None],
        left: list[int],
        grid: tuple[int, ...],
        function: object,
        launch: object,
        known: list[Group],
    ) -> None:
        engine, tries, waiting = self._engine, 0, set(left)
        assert engine.uses is not None
        for group in known:
            new = group.placed is None
            if not waiting.issuperset(group.programs):  # some of its instances already ran with another group
                continue
            done, placed = self._play(group, grid, function)
            waiting -= done
            whole = len(done) == len(group.programs) and all(isinstance(one, _Handle) for one in placed)
            if new and whole and self._held < _HELD_BYTES:  # a descriptor's fields are a list, and made anew
                group.placed = placed
                self._held += sum(one.data.nbytes for one in placed)
        left = [one for one in left if one in waiting]
        while left:
            first, *left = left
            way = run(first)
            if engine.uses.mixed:
                self._alone.add(function)
            if way is None or not left or tries == _TRIES or function in self._alone:
                continue
            way = narrowed(way, _AT_ONCE - {"create_dot"}) or way
            size, begun, others = MOST_ELEMENTS // way.widest, len(left), left
            size = min(size, _MOST_WIDENED // way.before_cut) if way.before_cut else size
            for start in range(0, begun if size > 1 else 0, max(size, 1)):
                group = Group(way, others[start : start + size])
                done, _ = self._play(group, grid, function)
                if done and len(known) < _GROUPS:
                    same = [one for one in group.programs if one in done]
                    known.append(Group(way, [*([] if start else [first]), *same]))
                left = [one for one in left if one not in done]
                if start + size >= begun or function in self._alone:
                    break
            tries += len(left) == begun
        if tries and not known:
            self._alone.add(launch)

    def _play(self, group: Group, grid: tuple[int, ...], function: object) -> tuple[set[int], list[Handle]]:
        """(instances that were run at once, their values that depend only on the place)."""
        engine, way, programs, placed = self._engine, group.way, group.programs, group.placed
        races, flops = engine.watch, engine.flops
        assert not isinstance(races, Watch)
        assert engine.uses is not None
        while len(programs) > 1:
            indices = [self._index(one, grid) for one in programs]
            made = Abreast(way, programs, indices, races)
            engine.watch, engine.uses.many = made.watch, True
            try:
                found = made.play(placed)
                engine.flops = flops + len(programs) * way.operations
                return set(programs), found
            except Split as split:
                programs, placed = [programs[place] for place in split.same], None
            except (
                Alone,
                AttributeError,
                IndexError,
                TypeError,
                ValueError,
            ):  # or an operation failed on many instances
                self._alone.add(function)
                break
            finally:
                engine.watch, engine.uses.many = races, False
        engine.flops = flops
        return set(), []


def _stacked(handles: Sequence[Handle]) -> Handle:
    return _Handle(np.stack([one.data for one in handles]), handles[0].dtype)


def _splat(count: int, kind: tl.block_type, arg: Handle) -> Handle | None:
    shape = tuple(int(getattr(extent, "value", extent)) for extent in kind.shape)
    if arg.data.shape != (count, 1):
        return None
    made = np.empty((count, *shape), dtype=np_dtype(arg.dtype))
    made[...] = arg.data.reshape(count, *[1] * len(shape))
    return _Handle(made, arg.dtype.scalar)


def _broadcast(count: int, arg: Handle, shape: Sequence[int]) -> Handle | None:
    if len(shape) != arg.data.ndim - 1:
        return None
    return _Handle(np.broadcast_to(arg.data, (count, *shape)), arg.dtype.scalar)


def _reshape(count: int, arg: Handle, shape: Sequence[int], reordered: bool) -> Handle | None:
    return None if reordered else _Handle(arg.data.reshape(count, *shape), arg.dtype.scalar)


_MOVES: dict[str, Function] = {
    "create_splat": _splat,
    "create_broadcast": _broadcast,
    "create_expand_dims": lambda count, arg, axis: _Handle(
        np.expand_dims(arg.data, axis + 1 if axis >= 0 else axis), arg.dtype.scalar
    ),
    "create_trans": lambda count, arg, order: _Handle(
        np.transpose(arg.data, [0, *(axis + 1 for axis in order)]), arg.dtype.scalar
    ),
    "create_reshape": _reshape,
}
