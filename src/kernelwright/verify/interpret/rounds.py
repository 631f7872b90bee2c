"""Rounds of a kernel's loop that do what the round before did, without the language.

While an instance is recorded (`recording.py`), the first rounds of a long loop are interpreted and what they call is noted. Where
the third did what the second did, each call on results of its own round, of the one before, or of what was there before the
loop, and where Python holds the same behind both, all rounds but the last follow as those calls. The recording has the same list
then as if they had been interpreted, but for what is the same in each round, which is done once.

Python decides nothing in such a loop: `Round`, the loop's variable, is a number whose sums and products with numbers stay linear
in it. Whoever asks it for anything else that is not the same in all rounds has the loop interpreted, and so has a truth value or
a number asked of a tensor.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from kernelwright.verify.interpret.recording import PLACED, Recording, Step, told_line
from kernelwright.verify.structures import Function

_Handle = interpreter.TensorHandle
Number: TypeAlias = Any
"""What arithmetic with a number of Python's gives: that, or what says that the other has to be asked."""
Out = int | tuple[int, ...] | None
"""Of one result, of several, of none."""
Work = tuple[list[int], Function, dict[str, object], Out]
"""A call of a round: cells that it takes, the function, its keywords, and cells of what it makes."""
_READ = 3
"""Rounds that are interpreted before others follow."""
FEWEST = 8
"""Rounds of a loop that is looked at."""
_MADE = ("create_make_range",)
_PLAIN = (int, float, bool, str, type(None))


class Round(int):
    """`factor` times the variable of a loop, plus a number, in the round at hand."""

    factor: int
    plus: int
    of: Rounds

    @classmethod
    def made(cls, of: Rounds, factor: int, plus: int) -> Self:
        self = cls(factor * of.value + plus)
        self.of, self.factor, self.plus = of, factor, plus
        return self

    def _linear(self, factor: int, other: object, by: int = 1) -> Number:
        """`factor` times this and `by` times `other`."""
        if isinstance(other, Round):
            if other.of is not self.of:
                self.of.lose()
                other.of.lose()
                return factor * int.__int__(self) + by * int.__int__(other)
            return Round.made(
                self.of, factor * self.factor + by * other.factor, factor * self.plus + by * other.plus
            )
        if not isinstance(other, int):
            return self._handed(other)
        return Round.made(self.of, factor * self.factor, factor * self.plus + by * int(other))

    def _handed(self, other: object) -> Number:
        """A tensor takes it from here, and a constant asks again; who else does keeps what nobody knows."""
        if not isinstance(other, tl.tensor | tl.constexpr):
            self.of.lose()
        return NotImplemented

    def __hash__(self) -> int:
        self.of.lose()
        return int.__hash__(self)

    def __add__(self, other: object) -> Number:
        return self._linear(1, other)

    def __radd__(self, other: object) -> Number:
        return self._linear(1, other)

    def __sub__(self, other: object) -> Number:
        return self._linear(1, other, -1)

    def __rsub__(self, other: object) -> Number:
        return self._linear(-1, other)

    def __neg__(self) -> Number:
        return self._linear(-1, 0)

    def __pos__(self) -> Number:
        return self

    def __mul__(self, other: object) -> Number:
        if isinstance(other, Round):
            return _not_linear(int.__mul__)(self, other)
        return self._linear(int(other), 0) if isinstance(other, int) else self._handed(other)

    __rmul__ = __mul__

    def _compared(self, other: object, compare: Callable[[int, int], object]) -> Number:
        if not isinstance(other, int):
            return self._handed(other)
        ends = [self.factor * end + self.plus for end in (self.of.values[0], self.of.values[-1])]
        within = min(ends) <= other <= max(ends)
        if isinstance(other, Round) or (
            within if compare in _EQUAL else compare(ends[0], other) is not compare(ends[1], other)
        ):
            self.of.lose()
        return compare(int.__int__(self), int.__int__(other))

    def __lt__(self, other: object) -> Number:
        return self._compared(other, int.__lt__)

    def __le__(self, other: object) -> Number:
        return self._compared(other, int.__le__)

    def __gt__(self, other: object) -> Number:
        return self._compared(other, int.__gt__)

    def __ge__(self, other: object) -> Number:
        return self._compared(other, int.__ge__)

    def __eq__(self, other: object) -> Number:
        return self._compared(other, int.__eq__)

    def __ne__(self, other: object) -> Number:
        return self._compared(other, int.__ne__)


_EQUAL = (int.__eq__, int.__ne__)


def _not_linear(own: Function) -> Function:
    """A method of a number that is not linear in it."""

    @functools.wraps(own)
    def ask(self: Round, *others: object) -> object:
        made = own(self, *others)
        if made is not NotImplemented or not all(isinstance(one, tl.tensor | tl.constexpr) for one in others):
            self.of.lose()
        return made

    return ask


_KEPT = ("__getattr", "__setattr", "__delattr", "__init", "__sizeof", "__reduce", "__dir")
for _name, _own in ((name, getattr(int, name)) for name in dir(int)):
    _method = isinstance(_own, types.WrapperDescriptorType | types.MethodDescriptorType)
    if _method and _name not in vars(Round) and not _name.startswith(_KEPT):
        setattr(Round, _name, _not_linear(_own))


@dataclasses.dataclass(slots=True)
class Call:
    """One of the builder's, in a round."""

    label: str
    function: Function
    args: Sequence[object]
    kwargs: dict[str, object]
    made: object
    step: bool
    flops: float
    line: int

    @property
    def results(self) -> tuple[Any, ...]:
        made = self.made
        return (made,) if isinstance(made, _Handle) else tuple(made) if isinstance(made, list | tuple) else ()


Place = tuple[str, int, int]
"""A result: of the round at hand (`now`) or the one before, which call's, and which of its results."""


class Differs(Exception):
    """Two rounds are not alike, or nobody knows whether they are."""


class Same:
    """Equal to itself alone; of numbers that no call made, by value."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same):
            return False
        one, two = self.value, other.value
        if isinstance(one, _Handle) and isinstance(two, _Handle) and one.data.shape == two.data.shape == (1,):
            return bool(one.dtype == two.dtype and one.data.tobytes() == two.data.tobytes())
        return one is two


class Rounds:
    """One loop of a recorded instance."""

    def __init__(self, making: Recording, values: range) -> None:
        self.making, self.values, self.value = making, values, 0
        self.lost = False
        self.calls: list[list[Call]] = []
        """By round."""
        self.sizes: list[tuple[int, int]] = []
        """Of the recording before each round, and behind the last: values and steps."""
        self._held: dict[str, object] = {}
        """What the kernel's names held behind the round before."""

    def lose(self) -> None:
        """Interpret all of it."""
        self.lost = True

    def note(self, label: str, function: Function, args: Sequence[object], kwargs: dict[str, object],
             made: object, step: bool, flops: float, line: int) -> None:  # fmt: skip
        """The round at hand does that: a step of the recording, or once for all instances."""
        if not self.lost:
            self.calls[-1].append(Call(label, function, args, kwargs, made, step, flops, line))

    @staticmethod
    def plain(args: tuple[object, ...]) -> tuple[object, ...]:
        """Arguments with the loop's variable as the number that it is."""
        return tuple([int.__int__(one) if type(one) is Round else one for one in args])

    def begin(self, place: int) -> int:
        """The loop's variable in that round, which is interpreted."""
        self.value = self.values[place]
        if self.lost or place >= _READ:
            self.making.rounds = None
            return self.value
        self.making.rounds = self
        self.calls.append([])
        self.sizes.append(self.making.size)
        return Round.made(self, 1, 0)

    def follow(self, place: int, frame: types.FrameType, each: Callable[[], None]) -> int:
        """Do the rounds behind the one of that place, but for the last one; how many. `frame` is the kernel's, `each` is called
        before each round."""
        self.making.rounds = None
        if self.lost or place not in (_READ - 2, _READ - 1):
            return 0
        try:
            held = {name: self._told(value, self.places(place)) for name, value in frame.f_locals.items()}
            if place < _READ - 1:
                self._held = held
                return 0
            if held != self._held or not self.making.replayable:
                raise Differs
            self.sizes.append(self.making.size)
            follower = Follower(self, frame)
        except Differs:
            self.lose()
            return 0
        followed = self.values[_READ:-1]
        with self.making.aside():
            for value in followed:
                each()
                follower.round(value)
        follower.end()
        self.calls.clear()
        return len(followed)

    def _told(self, value: object, places: dict[int, Place]) -> object:
        """What a name holds, as far as two rounds can be told apart. Raises Differs."""
        if type(value) is Round:
            if (value.factor, value.plus) != (1, 0):
                raise Differs  # behind the rounds that follow nobody could put it right
            return "round"
        if type(value) in _PLAIN:
            return type(value), value
        if isinstance(value, tl.tensor):
            return places.get(id(value.handle), Same(value.handle)), str(value.type)
        if isinstance(value, tuple | tl.tuple):
            return type(value), [self._told(one, places) for one in value]
        if isinstance(value, list | dict | set):
            raise Differs
        return Same(value)

    def places(self, number: int) -> dict[int, Place]:
        """By identity of a handle that this round or the one before made, which of its results it is."""
        found: dict[int, Place] = {}
        for which, calls in (("now", self.calls[number]), ("before", self.calls[number - 1])):
            for place, call in enumerate(calls):
                for item, made in enumerate(call.results):
                    found.setdefault(id(made), (which, place, item))
        return found


def _argument(value: object, places: dict[int, Place]) -> object:
    """An argument of a call, as far as two rounds can be told apart. Raises Differs."""
    if isinstance(value, _Handle):
        return places.get(id(value)) or Same(value)
    if isinstance(value, Round):
        return "round", value.factor, value.plus
    if isinstance(value, list | tuple):
        if any(isinstance(one, _Handle | Round | list | tuple) for one in value):
            raise Differs
        return type(value), list(value)
    if isinstance(value, np.ndarray | tl.tensor):
        raise Differs
    return type(value), value


def _function(call: Call) -> object:
    """What tells a call's function from others. Raises Differs."""
    function = call.function
    if isinstance(function, functools.partial):
        return "partial", function.func, function.args, function.keywords
    operator = getattr(function, "operator", None)
    return function if operator is None else (type(operator), vars(operator))


class Follower:
    """The calls of a round, for those behind it."""

    def __init__(self, rounds: Rounds, frame: types.FrameType) -> None:
        """Raises Differs where the last two rounds are not alike."""
        self._making, self._frame = rounds.making, frame
        self._calls = rounds.calls[-1]
        self._places = rounds.places(len(rounds.calls) - 1)
        before = rounds.places(len(rounds.calls) - 2)
        self._alike(rounds.calls[-2], before)
        sizes = rounds.sizes
        self._stride = sizes[-1][0] - sizes[-2][0]
        if sizes[-1][0] - sizes[-2][0] != sizes[-2][0] - sizes[-3][0]:
            raise Differs
        self._steps = self._making.steps[sizes[-2][1] :]
        if [call.label for call in self._calls if call.step] != self._making.labels[sizes[-2][1] :]:
            raise Differs
        self._former = rounds.calls[-2]
        self._cells: list[Any] = []
        """What calls take and make, in the round at hand."""
        self._cell: dict[object, int] = {}
        """By place, or by identity of what is the same in each round: where that is."""
        self._still = self._same()
        """Calls that make the same in each round."""
        self._handed: list[tuple[int, int]] = []
        """Cells of results that the next round takes, and where it does."""
        self._variables: list[tuple[int, int, int]] = []
        """Cells of numbers that are linear in the loop's variable: factor, and what is added."""
        self._program: list[Work] = []
        self._added: list[tuple[Step, list[bool], str, Out]] = []
        """Steps of the recording, which of their places move on by a round, labels, cells of results."""
        self._filled: list[tuple[int, int]] = []
        """Places of the recording that hold what a cell does."""
        self._shift = self._count = 0
        self._once = sum(call.flops for call in self._calls if not call.step)
        steps = iter(self._steps)
        for number, call in enumerate(self._calls):
            self._enter(number, call, next(steps) if call.step else None)
        for value in frame.f_locals.values():
            for tensor in _tensors(value):
                self._of(tensor.handle)

    def _alike(self, former: list[Call], before: dict[int, Place]) -> None:
        if len(former) != len(self._calls):
            raise Differs
        for one, other in zip(former, self._calls, strict=True):
            if (one.label, one.step, one.flops) != (other.label, other.step, other.flops):
                raise Differs
            if _function(one) != _function(other) or one.kwargs != other.kwargs:
                raise Differs
            if len(one.args) != len(other.args):
                raise Differs
            if any(isinstance(value, _Handle | Round | list | tuple) for value in other.kwargs.values()):
                raise Differs
            for first, second in zip(one.args, other.args, strict=True):
                if _argument(first, before) != _argument(second, self._places):
                    raise Differs
            kinds = [
                [(made.dtype, made.data.dtype, made.data.shape) for made in call.results]
                for call in (one, other)
            ]
            if kinds[0] != kinds[1] or any(made is given for made in other.results for given in other.args):
                raise Differs

    def _same(self) -> set[int]:
        found: set[int] = set()
        for number, call in enumerate(self._calls):
            if call.flops or not (
                call.label in PLACED or call.label in _MADE or call.label.startswith("get_")
            ):
                continue
            sources = [self._places[id(value)] for value in call.args if id(value) in self._places]
            moving = any(which == "before" or source not in found for which, source, _ in sources)
            if not moving and not any(isinstance(value, Round) for value in call.args):
                found.add(number)
        return found

    def _new(self, value: object = None) -> int:
        self._cells.append(value)
        return len(self._cells) - 1

    def _of(self, value: object) -> tuple[int, Place | None]:
        """The cell of an argument; whose result it is where that is another in each round."""
        place = self._places.get(id(value)) if isinstance(value, _Handle) else None
        if place is not None and place[1] in self._still:
            _, number, item = place
            place, value = None, self._calls[number].results[item]
        key: object = id(value) if place is None else place
        known = self._cell.get(key)
        if known is None:
            known = self._cell[key] = self._new(value)
            if isinstance(value, Round):
                self._variables.append((known, value.factor, value.plus))
            elif place is not None and place[0] == "before":
                _, number, item = place
                self._handed.append((self._of(self._calls[number].results[item])[0], known))
        return known, place

    def _enter(self, number: int, call: Call, step: Step | None) -> None:
        if number in self._still:
            return
        taken = [self._of(value) for value in call.args]
        cells = [self._of(made)[0] for made in call.results]
        out = cells[0] if isinstance(call.made, _Handle) else tuple(cells) if cells else None
        function, kwargs = call.function, call.kwargs
        if call.line and ("cast" in call.label or "_to_" in call.label):
            function = functools.partial(told_line, call.line, functools.partial(function, **call.kwargs))
            kwargs = {}
        self._program.append(([cell for cell, _ in taken], function, kwargs, out))
        if step is None:
            return
        moves = []
        for value, (cell, place), at in zip(call.args, taken, step[1], strict=True):
            source = None if place is None else (self._calls if place[0] == "now" else self._former)[place[1]]
            moves.append(source is not None or isinstance(value, Round))
            if isinstance(value, Round) or (source is not None and not source.step):
                self._filled.append((at, cell))
        self._added.append((step, moves, call.label, out))

    def round(self, value: int) -> None:
        """The next round, of that value of the loop's variable."""
        cells, making = self._cells, self._making
        for now, before in self._handed:
            cells[before] = cells[now]
        for cell, factor, plus in self._variables:
            cells[cell] = factor * value + plus
        for taken, function, kwargs, out in self._program:
            made: Any = function(*[cells[cell] for cell in taken], **kwargs)
            for cell, one in _pairs(out, made):
                cells[cell] = one
        self._shift += self._stride
        self._count += 1
        shift = self._shift
        making.values += [None] * self._stride
        for place, cell in self._filled:
            making.values[place + shift] = cells[cell]
        for (function, places, kwargs, results), moves, label, out in self._added:
            moved = tuple(
                [place + shift if move else place for place, move in zip(places, moves, strict=True)]
            )
            at = tuple([one + shift for one in results]) if isinstance(results, tuple) else results
            at = at + shift if type(at) is int else at
            making.steps.append((function, moved, kwargs, at))
            making.labels.append(label)
            if making.keeps:
                for place, cell in _pairs(at, out):
                    making.keep(place, cells[cell])

    def end(self) -> None:
        """The last round is behind: let the recording and the kernel's names have what it made."""
        if not self._count:
            return
        self._making.count_once(self._once * self._count)
        new: dict[int, Any] = {}
        for key, cell in self._cell.items():
            if isinstance(key, tuple):
                which, number, item = key
                old = (self._calls if which == "now" else self._former)[number].results[item]
                new[id(old)] = self._cells[cell]
                self._making.replace(old, self._cells[cell], self._shift)
        for value in self._frame.f_locals.values():
            for tensor in _tensors(value):
                tensor.handle = new.get(id(tensor.handle), tensor.handle)


def _pairs(out: Out, others: Any) -> Sequence[tuple[int, Any]]:
    """Each result with what belongs to it."""
    if type(out) is int:
        return ((out, others),)
    return () if not isinstance(out, tuple) else tuple(zip(out, others, strict=True))


def _tensors(value: object) -> Iterator[tl.tensor]:
    if isinstance(value, tl.tensor):
        yield value
    elif isinstance(value, tuple | tl.tuple):
        for one in value:
            yield from _tensors(one)
