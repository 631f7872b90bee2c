"""What one program instance did, read as a function of the program's place in the grid.

A recording (`recording.py`) lists what the first instance of a launch did. Here its integers are followed again, for all
programs of the grid at once and without memory. Each value is either "the recorded program's, plus a shift for this
program", or "a function of a key", where programs of equal key have equal values (a mask at a tensor's edge, a condition
on the program's number). The result tells which programs take the recorded path, which of them compute the same function
of what they load, and where each loads and stores.

Sound up to what a load returns: values from memory count as data. What cannot be followed becomes a key, so programs that
are alike may be told apart, but never the other way round.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelwright.verify.interpret.memory import distinct
from kernelwright.verify.interpret.recording import Recording

MOST_PROGRAMS = 1 << 20
"""Launches of more programs are not followed."""
_CALLS: dict[str, tuple[str, int, int]] = {
    "create_load": ("read", 0, -1), "create_masked_load": ("read", 0, 1), "create_store": ("write", 0, -1),
    "create_masked_store": ("write", 0, 2), "create_atomic_rmw": ("atomic", 1, 3),
    "create_atomic_cas": ("atomic", 0, -1),
}  # fmt: skip
"""Kind of access, and the positions of the pointers and the mask among the arguments."""
_MOVES = frozenset(
    (
        "create_splat", "create_unsplat", "create_broadcast", "create_expand_dims", "create_reshape",
        "create_trans", "promise",
    )
)  # fmt: skip
"""Operations that only move values, so that a shift of all values stays a shift."""
_CASTS = frozenset(("create_int_cast", "cast_impl", "create_bitcast"))
_COMPARISONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("create_icmpSLT", "create_icmpULT", "create_icmpSGE", "create_icmpUGE"), ("left",)),
    **dict.fromkeys(("create_icmpSLE", "create_icmpULE", "create_icmpSGT", "create_icmpUGT"), ("right",)),
    **dict.fromkeys(("create_icmpEQ", "create_icmpNE"), ("left", "right")),
}
"""The side of equal elements on which a comparison's threshold lies."""


class NotFollowed(Exception):
    """The recording does something whose meaning for other programs is unknown here."""


@dataclasses.dataclass(frozen=True)
class Value:
    """What a step made, for every program."""

    at: np.ndarray | None
    """The recorded program's value; None if it was not kept."""
    shift: np.ndarray | None = None
    """Added to `at` for each program; None means 0."""
    keys: frozenset[int] = frozenset()
    data: bool = False
    """Whether it depends on memory."""
    rank: bool = False
    """Whether it depends on the result of an atomic access."""
    base: int | None = None
    """For pointers: the address that they are relative to."""

    @property
    def pure(self) -> bool:
        """Whether it is one number per program that depends only on the program's place."""
        return self.at is not None and self.at.size == 1 and not (self.keys or self.data or self.rank)


@dataclasses.dataclass(frozen=True)
class Access:
    """One load, store or atomic access."""

    kind: str
    pointer: int
    """The address that its pointers are relative to. Masked lanes may point anywhere, such as before a tensor that begins where
    another one ends."""
    pointers: np.ndarray
    """The recorded program's unmasked pointers."""
    shift: np.ndarray
    """Bytes by which each program's pointers are shifted."""
    keys: frozenset[int]
    """Keys that decide which lanes are active, and where they point beyond the shift."""
    itemsize: int
    data: bool
    """Whether memory decides where it goes or what is masked."""


class ProgramMap:
    """The recorded path, for all programs of a grid (linear numbers). Raises NotFollowed."""

    def __init__(
        self, recording: Recording, recorded: int, grid: tuple[int, ...], itemsize: Callable[[object], int]
    ) -> None:
        """`itemsize` gives the bytes per element behind a handle of pointers."""
        if math.prod(grid) > MOST_PROGRAMS:
            raise NotFollowed("more programs than are followed")
        self.count, self.recorded = math.prod(grid), recorded
        linear = np.arange(self.count, dtype=np.int64)
        self._axes = (linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1]))
        self._itemsize = itemsize
        self._columns: list[np.ndarray] = []
        self._known: dict[bytes, int] = {}
        self._classes: dict[frozenset[int], np.ndarray] = {}
        self._shifts: dict[int, np.ndarray] = {}
        """By id of an access's shifts, which many accesses share: the sorted distinct shifts."""
        self.explained = np.ones(self.count, dtype=bool)
        """Programs that take the recorded path, as far as no loaded value decides."""
        self._still = np.zeros(self.count, dtype=np.int64)
        self._scaled: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        """By id of a shift and element size: that shift, and the shift in bytes."""
        self.accesses: list[Access] = []
        self.fed_by: list[int] = []
        """By access, a bit for each access on whose loaded values it depends."""
        self.sinks: set[int] = set()
        """Keys of everything that is stored, decided or addressed."""
        self.ranked = False
        """Whether the result of an atomic access reaches a store or decision."""
        self.data_decides = False
        self.branches: set[tuple[int, object]] = set()
        """(line, outcome) of every condition that no loaded value decides."""
        self._walk(recording)

    # -- keys -------------------------------------------------------------------------------------------------

    def _key(self, column: np.ndarray) -> frozenset[int]:
        """Enter a column that tells programs apart; empty if it does not."""
        if (column == column[0]).all():
            return frozenset()
        text = column.tobytes()
        if text not in self._known:
            self._known[text] = len(self._columns)
            self._columns.append(column)
        return frozenset((self._known[text],))

    def forced(self, value: Value) -> Value:
        """The value with its shift turned into a key."""
        if value.shift is None:
            return value
        return dataclasses.replace(value, shift=None, keys=value.keys | self._key(value.shift), at=None)

    def classes(self, keys: set[int] | frozenset[int]) -> np.ndarray:
        """A number for each program; programs with equal numbers agree in all those keys."""
        known = self._classes.get(frozenset(keys))
        if known is not None:
            return known
        found = np.zeros(self.count, dtype=np.int64)
        for key in sorted(keys):
            _, ranks = np.unique(self._columns[key], return_inverse=True)
            _, found = np.unique(found * (int(ranks.max()) + 1) + ranks, return_inverse=True)
        return self._classes.setdefault(frozenset(keys), found)

    def shifts(self, access: Access, programs: np.ndarray) -> np.ndarray:
        """Distinct shifts of an access over some programs (boolean mask)."""
        if not programs.all():
            return distinct(access.shift[programs])
        if id(access.shift) not in self._shifts:
            self._shifts[id(access.shift)] = distinct(access.shift)
        return self._shifts[id(access.shift)]

    # -- steps ------------------------------------------------------------------------------------------------

    def _walk(self, recording: Recording) -> None:
        values: dict[int, Value] = {}

        def of(place: int) -> Value:
            found = values.get(place)
            if found is None:
                data = _array(recording.values[place])
                found = values[place] = Value(data)
            return found

        decisions = iter(recording.decisions)
        fed: dict[int, int] = {}
        """`fed_by`, by place of the recording."""
        for (_, places, _, out), label in zip(recording.steps, recording.labels, strict=True):
            given = [of(place) for place in places]
            raw = [recording.values[place] for place in places]
            if label == "decide":
                self._decides(given[0], *next(decisions))
                continue
            source = 0
            for place in places:
                source |= fed.get(place, 0)
            if label == "pack":
                values[out], fed[out] = self._mixed(given), source
                continue
            made = self._step(label, given, raw, recording, places, out)
            if label in _CALLS:
                self.fed_by.append(source)
                source |= 1 << len(self.fed_by) - 1
            if source:
                fed |= dict.fromkeys((out,) if type(out) is int else out or (), source)
            if type(out) is int:
                base = _base(given[0]) if label in _MOVES or label == "create_addptr" else None
                values[out] = dataclasses.replace(made, at=_array(recording.made.get(out)), base=base)
            elif out is not None:
                for place in out:
                    values[place] = dataclasses.replace(
                        self.forced(made), at=_array(recording.made.get(place))
                    )
        for line, outcome in recording.branches:
            self.branches.add((line, outcome))

    def _step(
        self,
        label: str,
        given: list[Value],
        raw: list[Any],
        recording: Recording,
        places: tuple[int, ...],
        out: object,
    ) -> Value:
        if label == "create_get_program_id":
            axis = self._axes[int(raw[0])]
            return Value(None, axis - axis[self.recorded])
        if label in _CALLS:
            place = _CALLS[label][1]
            return self._accesses(label, given, recording.made.get(places[place], raw[place]))
        if any(word in label for word in ("load", "store", "gather", "scatter", "atomic", "print")):
            raise NotFollowed(f"{label} is not followed")
        made = _array(recording.made.get(out)) if type(out) is int else None
        shifts = [value.shift for value in given if value.shift is not None]
        if not shifts:
            return self._mixed(given)
        if made is not None and made.dtype.kind in "iub" and all(v.pure for v in given if v.at is not None):
            exact = self._exactly(label, given, made)
            if exact is not None:
                return exact
        if len(shifts) == 1 and (
            label in _MOVES or (label in _CASTS and _whole(made) and _whole(given[0].at))
        ):
            return self._in_range(self._mixed(given, shifts[0]), made)
        if label in ("create_add", "create_sub"):
            first, second = given[0].shift, given[1].shift
            if label == "create_sub" and second is not None:
                second = -second
            return self._in_range(self._mixed(given[:2], _sum(first, second)), made)
        if label == "create_addptr":
            second = given[1].shift
            if second is not None:
                second = self._in_bytes(second, self._itemsize(recording.made.get(places[0], raw[0])))
            return self._mixed(given[:2], _sum(given[0].shift, second))
        if label == "create_mul":
            for one, other in ((given[0], given[1]), (given[1], given[0])):
                if _uniform(other) is not None:
                    shift = None if one.shift is None else one.shift * _uniform(other)
                    return self._in_range(self._mixed(given[:2], shift), made)
        if label in _COMPARISONS and not any(value.data or value.rank for value in given[:2]):
            return self._compared(label, given[0], given[1])
        return self._mixed(given)  # every shift becomes a key

    def _in_bytes(self, shift: np.ndarray, size: int) -> np.ndarray:
        """A shift in bytes: the same array for all rounds of a loop."""
        return self._scaled.setdefault((id(shift), size), (shift, shift * size))[1]

    def _mixed(self, given: list[Value], shift: np.ndarray | None = None) -> Value:
        """A value that depends on all of these: through `shift`, or with their shifts as keys."""
        keep = given if shift is not None else [self.forced(value) for value in given]
        return Value(
            None,
            shift,
            frozenset().union(*(value.keys for value in keep)),
            any(value.data for value in given),
            any(value.rank for value in given),
        )

    def _exactly(self, label: str, given: list[Value], made: np.ndarray) -> Value | None:
        """An integer operation on one number per program, done for all programs; None if it is another."""
        function = _EXACT.get(label)
        numbers = [(v.at, v.shift) for v in given if v.at is not None and v.at.dtype.kind in "iub"]
        if function is None or len(numbers) != 2 or made.size != 1:
            return None
        first, second = (int(at.reshape(-1)[0]) + (0 if shift is None else shift) for at, shift in numbers)
        with np.errstate(all="ignore"):
            found = np.broadcast_to(np.asarray(function(first, second)), (self.count,))
        if found.dtype == bool:
            return Value(None, None, self._key(np.ascontiguousarray(found)))
        found = found.astype(np.int64)
        return self._in_range(Value(None, found - found[self.recorded]), made)

    def _in_range(self, value: Value, made: np.ndarray | None) -> Value:
        """Excludes programs whose numbers leave the type and wrap."""
        if value.shift is None or made is None or made.dtype.kind not in "iu" or not made.size:
            return value
        if made.dtype == np.uint64:
            return value
        limits = np.iinfo(made.dtype)
        low, high = int(made.min()), int(made.max())
        fits = (value.shift >= limits.min - low) & (value.shift <= limits.max - high)
        if not fits.all():
            self.explained &= fits
        return value

    def _compared(self, label: str, first: Value, second: Value) -> Value:
        if first.at is None or second.at is None:
            return self._mixed([first, second])
        apart = first.at.astype(np.int64) - second.at.astype(np.int64)
        shift = _sum(first.shift, None if second.shift is None else -second.shift)
        keys = first.keys | second.keys
        if shift is None:
            return Value(None, None, keys)
        steps = np.unique(apart)
        ranks = [np.searchsorted(steps, -shift, side=side) for side in _COMPARISONS[label]]  # type: ignore[call-overload]
        if len(ranks) == 2:  # equality: a lane's number, or none of them
            ranks = [np.where(ranks[0] == ranks[1], -1, ranks[0])]
        return Value(None, None, keys | self._key(ranks[0].astype(np.int64)))

    def _accesses(self, label: str, given: list[Value], handle: object) -> Value:
        kind, place, masked = _CALLS[label]
        pointers = given[place]
        if pointers.at is None:
            raise NotFollowed("an access to places that nobody kept")
        mask = given[masked] if masked >= 0 else Value(None)
        active = pointers.at
        if mask.at is not None:
            active = active[np.broadcast_to(mask.at, active.shape)]
        shift = self._still if pointers.shift is None else pointers.shift
        where = pointers.keys | self.forced(mask).keys
        self.accesses.append(
            Access(
                kind,
                _origin(pointers, active),
                active.reshape(-1),
                shift,
                where,
                self._itemsize(handle),
                pointers.data or mask.data,
            )
        )
        others = [self.forced(value) for number, value in enumerate(given) if number != place]
        keys = pointers.keys.union(*(value.keys for value in others))
        if kind != "read":
            self.sinks |= keys
            self.ranked |= any(value.rank for value in given)
        return Value(None, None, keys, True, kind == "atomic" or any(value.rank for value in given))

    def _decides(self, value: Value, line: int, outcome: object) -> None:
        self.ranked |= value.rank
        if value.data or value.rank:
            self.data_decides = True
            self.sinks |= self.forced(value).keys
            return
        self.branches.add((line, outcome))
        if value.pure and value.at is not None:
            if value.shift is not None:
                number = int(value.at.reshape(-1)[0])
                truth = (number + value.shift) == number
                if isinstance(outcome, bool):
                    truth = ((number + value.shift) != 0) == outcome
                self.explained &= truth
            return
        classes = self.classes(self.forced(value).keys)
        self.explained &= classes == classes[self.recorded]


def _base(value: Value) -> int | None:
    """The address that derived pointers are relative to; a block may already hold copies of it."""
    if value.base is None and value.at is not None and value.at.size:
        first = value.at.reshape(-1)[0]
        return int(first) if bool((value.at == first).all()) else None
    return value.base


def _origin(pointers: Value, active: np.ndarray) -> int:
    if pointers.base is not None:
        return pointers.base
    assert pointers.at is not None
    return int((active if active.size else pointers.at).reshape(-1)[0])


def _array(value: object) -> np.ndarray | None:
    data = getattr(value, "data", None)
    return data if isinstance(data, np.ndarray) else None


def _whole(data: np.ndarray | None) -> bool:
    return data is not None and data.dtype.kind in "iu"


def _sum(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _uniform(value: Value) -> int | None:
    """The integer that it is for every program and lane, or None."""
    if value.at is None or value.shift is not None or value.keys or value.data or value.rank:
        return None
    if value.at.dtype.kind not in "iu" or not value.at.size:
        return None
    first = value.at.reshape(-1)[0]
    return int(first) if bool((value.at == first).all()) else None


def _quotient(first: Any, second: Any) -> object:
    """Rounded towards zero, as GPUs divide."""
    return (np.abs(first) // np.abs(second)) * np.sign(first) * np.sign(second)


_EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "create_add": lambda a, b: a + b,
    "create_sub": lambda a, b: a - b,
    "create_mul": lambda a, b: a * b,
    "create_sdiv": _quotient,
    "create_idiv": _quotient,
    "create_udiv": _quotient,
    "create_srem": lambda a, b: a - _quotient(a, b) * b,
    "create_urem": lambda a, b: a - _quotient(a, b) * b,
    "create_minsi": np.minimum,
    "create_maxsi": np.maximum,
    "create_and": lambda a, b: a & b,
    "create_or": lambda a, b: a | b,
    "create_xor": lambda a, b: a ^ b,
    "create_shl": lambda a, b: a << b,
    "create_ashr": lambda a, b: a >> b,
    "create_icmpSLT": lambda a, b: a < b,
    "create_icmpSLE": lambda a, b: a <= b,
    "create_icmpSGT": lambda a, b: a > b,
    "create_icmpSGE": lambda a, b: a >= b,
    "create_icmpEQ": lambda a, b: a == b,
    "create_icmpNE": lambda a, b: a != b,
}
"""Integer operations on one number per program. Comparisons give booleans."""
