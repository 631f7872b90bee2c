"""State by which a module could count its calls, advanced as if by thousands of calls.

A forward pass that does its work only in the first fifty calls would take as many calls to be found out. Instead, every value
that changed in each of several calls (a number, the length of a text or container, a number in a tuple, elements of an
array) is advanced at once as far as many calls would, and whatever yields a sequence (iterators, generators, random
numbers) is consumed. What falls (a length, a number above 0) is taken to its end. An honest counter does no harm: the pass
acts the same before and after. Version counters of tensors advance like numbers, and a view's sizes and offset as far as
its memory goes. State that changes in each call but cannot be advanced (booleans, arrays that grow, numbers that wrap) is
`unmoved`: only thousands of real calls tell.

Not guaranteed: state inside a library's objects beyond their attributes; a counter that acts at single numbers only (every
thousandth call) is mostly missed.
"""

from __future__ import annotations

import array
import bisect
import functools
import gc
import itertools
import math
import random
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from kernelwright.verify.trace.pretend_cuda import storage_of

_NODES, _DEPTH = 5000, 8
_MOST_ITEMS, _MOST_TEXT, _MOST_STEPS = 65_536, 1 << 20, 10_000
_SAME_STEPS = 3
"""A value must have changed in this many consecutive steps."""
_NEAR, _FAR, _FURTHER = (1.0, 2.5), (2.5, 7.5), (5.0, 7.5)
"""log10 ranges of how many calls to advance: near, far, and far again after a far jump."""
_GROWING = 5
"""Calls over which memory that grows is told from memory that is kept once."""
_MOST_VERSION = 2**31 - 1
_MOST_HELD = 65_536
"""The most elements of an array that is examined."""
Place = tuple[Any, ...]
"""The identity of an object that holds a value, and the key of the value in it."""
Put = Callable[[Any], None]
_PLAIN = (bool, int, float, str, bytes, type(None))
_CONTAINERS = (list, dict, set, deque)
_TRITONS = frozenset(
    ["cache", "bench_time", "_configs_timings", "_best_config", "_launched", "nargs", "restore_copies"]
)
"""Attributes that Triton's autotuning changes itself."""


class _Form(tuple[int, ...]):
    """Sizes, strides and offset of a tensor, then the offset at which its memory ends."""


class _Length(int):
    """Length of a sequence that can be shortened but not lengthened."""


_CUT = (list, np.ndarray, range, bytearray, memoryview, array.array)


class Counters:
    """State of one module and the namespace in which it was made. Call `note` after each call, then `jump`."""

    def __init__(self, module: torch.nn.Module, namespace: dict[str, object]) -> None:
        self._roots: tuple[object, ...] = (module, namespace)
        self._name = namespace.get("__name__", "")
        self._notes: list[dict[Place, tuple[object, Put]]] = []
        self._streams: dict[int, object] = {}
        self._storages: set[int] = set()
        self._undo: list[tuple[Put, object]] = []
        self._kept: list[int] = []
        """Number of storages found after each call."""
        self._far = False
        """Whether the last jump was far."""
        self.unmoved = False
        """Whether something changed in each of the last calls that the last jump could not advance."""

    def note(self) -> None:
        """Record every value as it is now."""
        self._streams, self._storages = {}, set()
        found = {place: (value, put) for place, value, put in self._values()}
        self._kept.append(len(self._storages))
        self._notes = [*self._notes[-_SAME_STEPS:], found]

    @property
    def grows(self) -> bool:
        """Whether the number of tensors held kept growing over the last calls."""
        last = self._kept[-_GROWING:]
        return len(last) == _GROWING and last == sorted(last) and last[-1] >= last[0] + _GROWING // 2

    def jump(self, dice: random.Random, near: bool = False) -> bool:
        """Advance what changed in each of the last calls, and all streams. Returns whether any value was advanced. `near`: by
        tens of calls, not thousands."""
        self._undo.clear()
        self.unmoved = False
        for stream in self._streams.values():
            _advance(stream, dice)
        if len(self._notes) <= _SAME_STEPS:
            return False
        *earlier, now = self._notes
        for place, (value, put) in now.items():
            values = [note[place][0] for note in earlier if place in note] + [value]
            if len(values) < len(self._notes) or any(_same(*pair) for pair in itertools.pairwise(values)):
                continue
            times = int(10.0 ** dice.uniform(*(_NEAR if near else _FURTHER if self._far else _FAR)))
            further = _further(values, times if near else max(times, _steps_to_end(values)))
            if further is None:
                self.unmoved |= _counts(value)
            else:
                self._undo.append((put, value))
                put(further)
        self._notes.clear()
        self._far = not near
        return bool(self._undo)

    def undo(self) -> None:
        """Restore the values that the last jump advanced."""
        for put, value in self._undo:
            put(value)

    def _values(self) -> Iterator[tuple[Place, object, Put]]:
        seen: set[int] = set()
        queue: deque[tuple[object, int, bool]] = deque((root, 0, True) for root in self._roots)
        while queue and len(seen) < _NODES:
            one, depth, own = queue.popleft()
            if id(one) in seen or depth > _DEPTH:
                continue
            seen.add(id(one))
            if isinstance(one, _CONTAINERS):
                yield (id(one), len), len(one), _lengthen(one)
            elif isinstance(one, np.ndarray) and one.dtype.kind in "iuf" and one.size <= _MOST_HELD:
                yield (id(one), "elements"), one.copy(), _fill(one)
            elif isinstance(one, torch.Generator):
                yield (id(one), "seed"), one.initial_seed(), functools.partial(_set_seed, one)
            elif isinstance(one, random.Random | np.random.Generator | types.GeneratorType) or _iterates(one):
                self._streams[id(one)] = one
            for key, value, put in self._inside(one):
                if isinstance(value, _PLAIN):
                    if value is not None:
                        yield (id(one), key), value, put
                    continue
                if isinstance(value, torch.Tensor):
                    self._storages.add(storage_of(value)._cdata)
                    yield from _of_tensor((id(one), key), value, put)
                    continue
                if isinstance(value, _CUT) and not (isinstance(value, np.ndarray) and not value.ndim):
                    length = len(value) if isinstance(value, list) else _Length(len(value))
                    yield (id(one), key, len), length, _length_setter(value, put)
                if isinstance(value, tuple):
                    yield (id(one), key), value, put
                mine = self._is_own(value)
                if own or mine:  # of a library's objects, only attributes set from outside
                    queue.append((value, depth + 1, mine))

    def _is_own(self, one: object) -> bool:
        """Whether an object belongs to the candidate or is a Python container."""
        kind = type(one)
        return (
            isinstance(
                one, (*_CONTAINERS, tuple, frozenset, torch.nn.Module, types.MethodType, types.GeneratorType)
            )
            or kind.__module__ == self._name
            or getattr(one, "__module__", None) == self._name
            or kind.__module__ == "functools"
        )

    def _inside(self, one: object) -> Iterator[tuple[Any, Any, Put]]:
        """(key, value, setter) of what an object holds."""
        if isinstance(one, dict):
            for key, value in list(dict.items(one)):
                if key != "__builtins__":
                    yield key, value, _into(one, key)
        elif isinstance(one, list | deque):
            for place, value in enumerate(list(one)):
                yield place, value, _into(one, place)
        elif isinstance(one, tuple | set | frozenset):
            for place, value in enumerate(one):
                if not isinstance(value, _PLAIN):
                    yield place, value, _nowhere
        elif isinstance(one, types.FunctionType):
            if one.__module__ != self._name:
                return
            for cell in one.__closure__ or ():
                try:
                    yield id(cell), cell.cell_contents, _onto(cell, "cell_contents")
                except ValueError:  # not filled yet
                    continue
            yield "defaults", one.__defaults__, _onto(one, "__defaults__")
            yield "keywords", one.__kwdefaults__, _nowhere
            yield "attributes", one.__dict__, _nowhere
        elif isinstance(one, types.MethodType):
            yield "self", one.__self__, _nowhere
            yield "function", one.__func__, _nowhere
        elif isinstance(one, type):
            if one.__module__ == self._name:
                for key, value in list(vars(one).items()):
                    yield key, value, _onto(one, key)
        elif not isinstance(one, types.ModuleType):
            yield from self._held(one)

    def _held(self, one: object) -> Iterator[tuple[Any, Any, Put]]:
        """An object's class, attributes and slots; for generators and `functools` objects also unnamed referents."""
        yield "class", type(one), _nowhere
        held = getattr(one, "__dict__", None)
        if isinstance(held, dict):
            for key, value in list(held.items()):
                if key not in _TRITONS:
                    yield key, value, _into(held, key)
        for owner in type(one).__mro__ if type(one).__module__ == self._name else ():
            slots = vars(owner).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else tuple(slots):
                try:
                    yield name, getattr(one, name), _onto(one, name)
                except AttributeError:  # not filled yet
                    continue
        if isinstance(one, types.GeneratorType) or type(one).__module__ == "functools":
            for place, value in enumerate(gc.get_referents(one)):
                if not isinstance(value, (*_PLAIN, type, types.ModuleType)) and value is not held:
                    yield place, value, _nowhere


def _of_tensor(place: Place, tensor: torch.Tensor, put: Put) -> Iterator[tuple[Place, object, Put]]:
    """The state of a tensor that may count calls: its version and its form. `put` stores another tensor in its place."""
    if not tensor.is_inference():
        yield (*place, "version"), tensor._version, functools.partial(set_version, tensor)
    form = (*tensor.shape, *tensor.stride(), int(tensor.storage_offset()))
    end = storage_of(tensor).nbytes() // tensor.element_size()
    yield (*place, "form"), _Form((*form, end)), _form_setter(tensor, put)


def _counts(value: object) -> bool:
    """Whether a value that changes in each call may count calls."""
    return isinstance(value, _Form | bool | int | float | str | bytes)


def _iterates(one: object) -> bool:
    """Whether an object is one of Python's built-in iterators."""
    return type(one).__module__ in ("builtins", "itertools") and hasattr(type(one), "__next__")


def _same(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.shape == other.shape and bool((one == other).all())
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, _PLAIN) and isinstance(other, _PLAIN):
        return type(one) is type(other) and one == other
    return type(one) is type(other)  # their contents are compared as values of their own


def _steps_to_end(values: list[Any]) -> int:
    """Steps until a falling value reaches 0, or a form an end of its memory; 0 if neither applies."""
    now, before = values[-1], values[-2]
    if isinstance(now, _Form):
        return sum(now)  # no size or offset can take more
    if isinstance(now, str | bytes | tuple):
        now, before = len(now), len(before)
    falls = isinstance(now, int | float) and isinstance(before, int | float) and before > now > 0
    return math.ceil(min(now / (before - now), _MOST_VERSION)) if falls else 0


def _further_form(values: list[_Form], times: int) -> _Form | None:
    """The last of several forms, advanced by up to `times` steps as far as its memory allows."""
    now = values[-1]
    if len(set(map(len, values))) > 1:
        return None
    made = {
        tuple(after - before for before, after in zip(*pair, strict=True))
        for pair in itertools.pairwise(values)
    }
    steps, axes = made.pop(), len(now) // 2 - 1
    if made or steps[-1]:
        return None

    def fits(count: int) -> bool:
        *form, end = (is_now + step * count for is_now, step in zip(now, steps, strict=True))
        sizes, strides, start = form[:axes], form[axes : 2 * axes], form[-1]
        if min(form) < 0:
            return False
        last = start + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        return start <= end if 0 in sizes else last < end

    most = bisect.bisect_left(range(times), True, key=lambda count: not fits(count + 1))
    return _Form(is_now + step * most for is_now, step in zip(now, steps, strict=True)) if most else None


def _further(values: list[Any], times: int) -> object:
    """The last of several values, advanced by `times` more steps; None if unknown."""
    now, kinds = values[-1], set(map(type, values))
    if len(kinds) > 1 or isinstance(now, bool):
        return None
    if isinstance(now, _Form):
        return _further_form(values, times)
    if isinstance(now, int | float):
        steps = [after - before for before, after in itertools.pairwise(values)]
        if isinstance(now, _Length) and max(steps) > 0:
            return None
        return now + steps[-1] * times if min(steps) > 0 or max(steps) < 0 else None  # else it wraps
    if isinstance(now, str | bytes):
        grown = (len(now) - len(values[0])) // (len(values) - 1)
        text: Any = now
        if grown > 0:
            return text + text[-1:] * min(grown * times, _MOST_TEXT)
        if grown < 0:
            return _shorten(text, len(text) + grown * times)
        try:
            made = _further([int(value) for value in values], times)
        except ValueError:
            return None
        return str(made) if isinstance(now, str) else str(made).encode()
    if isinstance(now, np.ndarray):
        if any(value.shape != now.shape for value in values):
            return None
        with np.errstate(all="ignore"):
            return now + (now - values[-2]) * np.asarray(min(times, 1 << 20)).astype(now.dtype)
    return _further_tuple(values, times) if isinstance(now, tuple) else None


def _further_tuple(values: list[Any], times: int) -> object:
    now = values[-1]
    grown = (len(now) - len(values[0])) // (len(values) - 1)
    if grown > 0:
        made = now + now[-1:] * min(grown * times, _MOST_ITEMS)
    elif grown < 0:
        made = _shorten(now, len(now) + grown * times)
    elif any(len(value) != len(now) for value in values):
        return None
    else:
        columns = zip(*values, strict=True)
        moved = [
            None
            if any(_same(*pair) for pair in itertools.pairwise(column))
            else _further(list(column), times)
            for column in columns
        ]
        if all(item is None for item in moved):
            return None
        made = tuple(was if item is None else item for was, item in zip(now, moved, strict=True))
    return made if type(now) is tuple else type(now)(*made) if hasattr(now, "_fields") else None


def _advance(stream: Any, dice: random.Random) -> None:
    """Consume a stream as if it had been asked many times."""
    if isinstance(stream, random.Random):
        stream.seed(dice.getrandbits(64))
        return
    if isinstance(stream, np.random.Generator):
        stream.random(dice.randrange(1, _MOST_STEPS))
        return
    try:
        for _ in range(
            int(10.0 ** dice.uniform(1.0, 2.5 if isinstance(stream, types.GeneratorType) else 5.0))
        ):
            next(stream)
    except StopIteration:
        return


def _into(held: Any, key: Any) -> Put:
    def put(value: object) -> None:
        held[key] = value

    return put


def _onto(owner: object, name: str) -> Put:
    def put(value: object) -> None:
        setattr(owner, name, value)

    return put


def _set_seed(generator: torch.Generator, seed: int) -> None:
    generator.manual_seed(seed % 2**64)


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Set a tensor's version counter to the nearest it can hold, as if it had been written in place that often."""
    torch._C._autograd._unsafe_set_version_counter((tensor,), (min(max(version, 0), _MOST_VERSION),))


def _fill(array: np.ndarray) -> Put:
    def put(value: object) -> None:
        if array.flags.writeable:
            array[...] = value

    return put


def _nowhere(value: object) -> None:
    """Setter for a value that cannot be replaced."""


def _shorten(items: Any, length: int) -> Any:
    """The last `length` items."""
    return items[len(items) - max(length, 0) :]


def _length_setter(items: Any, put: Put) -> Put:
    """A setter that replaces a sequence by a shorter one, a longer one (lists only), or the original."""
    own = len(items)

    def put_items(length: Any) -> None:
        more = min(length - own, _MOST_ITEMS)
        put(items if not more else items + items[-1:] * more if more > 0 else _shorten(items, length))

    return put_items


def _form_setter(tensor: torch.Tensor, put: Put) -> Put:
    """A setter that replaces a tensor by another view of its memory, or by itself again."""
    axes, own = tensor.dim(), (*tensor.shape, *tensor.stride(), tensor.storage_offset())

    def put_view(form: Any) -> None:
        with torch.no_grad():
            sizes, strides, start = form[:axes], form[axes : 2 * axes], form[-2]
            put(tensor if form[:-1] == own else tensor.as_strided(sizes, strides, start))

    return put_view


def _lengthen(items: Any) -> Put:
    """A setter that pads a container (repeated items, dummy keys) or shortens it; its second call restores the contents."""
    before: list[Any] = []

    def put(length: Any) -> None:
        ordered = isinstance(items, list | deque)
        if before:
            items.clear()
            (items.extend if ordered else items.update)(before.pop())
            return
        before.append(dict(items) if isinstance(items, dict) else list(items))
        while len(items) > max(length, 0):
            items.popitem() if isinstance(items, dict) else items.pop()
        if not items:
            return
        length = min(int(length), len(items) + _MOST_ITEMS)
        if ordered:
            items.extend([items[-1]] * (length - len(items)))
            return
        last = next(reversed(items.values())) if isinstance(items, dict) else None
        while len(items) < length:
            if isinstance(items, dict):
                items[object()] = last
            else:
                items.add(object())

    return put
