"""Runs the rounds of a kernel's loop that repeat the round before, without Python.

While an instance is recorded (`recording.py`), the first rounds of a long loop are interpreted and their calls noted. If the
third round made the same calls as the second, each on results of its own round, of the one before, or from before the loop,
and if Python holds the same after both, then all further rounds but the last are run as those calls. The recording then has
the same list as if they had been interpreted, except that what is the same in each round is done once.

Python must decide nothing in such a loop. The loop's variable is a `Round`: a number whose sums and products with numbers
stay linear in it. Whatever else depends on it, unless it is the same in all rounds, makes us interpret the loop; so does
reading a truth value or number from a tensor.
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
"""The result of arithmetic with a Python number: a number, or NotImplemented to let the other operand decide."""
Out = int | tuple[int, ...] | None
"""Place of one result, of several, or of none."""
Work = tuple[list[int], Function, dict[str, object], Out]
"""A call of a round: cells of its arguments, the function, keyword arguments, cells of its results."""
_READ = 3
"""Rounds that are interpreted before others follow."""
FEWEST = 8
"""The least rounds of a loop for this to be tried."""
_MADE = ("create_make_range",)
_PLAIN = (int, float, bool, str, type(None))


class Round(int):
    """`factor` times a loop's variable plus `plus`, in the current round."""

    factor: int
    plus: int
    of: Rounds

    @classmethod
    def made(cls, of: Rounds, factor: int, plus: int) -> Self:
        self = cls(factor * of.value + plus)
        self.of, self.factor, self.plus = of, factor, plus
        return self

    def _linear(self, factor: int, other: object, by: int = 1) -> Number:
        """`factor` times this plus `by` times `other`."""
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
        """Tensors and constexprs take over the operation; anything else would keep a value that we cannot follow."""
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
    """A method of `int` whose result is not linear in the number."""

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
    """One call of the builder in a round."""

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
"""A result: of the current round (`now`) or the one before, the number of its call, and which of the call's results."""


class Differs(Exception):
    """Two rounds differ, or may differ."""


class Same:
    """Equal only to itself; single numbers that no call made are compared by value."""

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
        """Calls by round."""
        self.sizes: list[tuple[int, int]] = []
        """Values and steps in the recording before each round, and after the last."""
        self._held: dict[str, object] = {}
        """What the kernel's names held after the round before."""

    def lose(self) -> None:
        """Interpret the whole loop."""
        self.lost = True

    def note(self, label: str, function: Function, args: Sequence[object], kwargs: dict[str, object],
             made: object, step: bool, flops: float, line: int) -> None:  # fmt: skip
        """Record a call of the current round: a step of the recording, or something done once for all instances."""
        if not self.lost:
            self.calls[-1].append(Call(label, function, args, kwargs, made, step, flops, line))

    @staticmethod
    def plain(args: tuple[object, ...]) -> tuple[object, ...]:
        """Arguments with the loop's variable as a plain number."""
        return tuple([int.__int__(one) if type(one) is Round else one for one in args])

    def begin(self, place: int) -> int:
        """The loop's variable in a round that is interpreted."""
        self.value = self.values[place]
        if self.lost or place >= _READ:
            self.making.rounds = None
            return self.value
        self.making.rounds = self
        self.calls.append([])
        self.sizes.append(self.making.size)
        return Round.made(self, 1, 0)

    def follow(self, place: int, frame: types.FrameType, each: Callable[[], None]) -> int:
        """Run the rounds after this place, except the last, and return how many. `frame` is the kernel's; `each` is called before
        every round."""
        self.making.rounds = None
        if self.lost or place not in (_READ - 2, _READ - 1):
            return 0
        try:
            places = self.places(place)
            held = {name: self._told(value, places) for name, value in frame.f_locals.items()}
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
        """What a name holds, in a form that can be compared between rounds. Raises Differs."""
        if type(value) is Round:
            if (value.factor, value.plus) != (1, 0):
                raise Differs  # after the skipped rounds it could not be set right
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
        """For ids of handles made in this round or the one before: which result of which call."""
        found: dict[int, Place] = {}
        for which, calls in (("now", self.calls[number]), ("before", self.calls[number - 1])):
            for place, call in enumerate(calls):
                for item, made in enumerate(call.results):
                    found.setdefault(id(made), (which, place, item))
        return found


def _argument(value: object, places: dict[int, Place]) -> object:
    """An argument of a call, in a form that can be compared between rounds. Raises Differs."""
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
    """A call's function, in a form that can be compared. Raises Differs."""
    function = call.function
    if isinstance(function, functools.partial):
        return "partial", function.func, function.args, function.keywords
    operator = getattr(function, "operator", None)
    return function if operator is None else (type(operator), vars(operator))


class Follower:
    """Repeats the calls of a round for the following rounds."""

    def __init__(self, rounds: Rounds, frame: types.FrameType) -> None:
        """Raises Differs if the last two rounds differ."""
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
        """Arguments and results of calls in the current round."""
        self._cell: dict[object, int] = {}
        """The cell of a result's place, or of the id of a value that is the same in each round."""
        self._still = self._same()
        """Numbers of calls that make the same in each round."""
        self._handed: list[tuple[int, int]] = []
        """Cells of results that the next round uses, and the cells in which it expects them."""
        self._variables: list[tuple[int, int, int]] = []
        """Cells of numbers that are linear in the loop's variable: factor and summand."""
        self._program: list[Work] = []
        self._added: list[tuple[Step, list[bool], str, Out]] = []
        """Steps of the recording, which of their places move on in each round, labels, cells of results."""
        self._filled: list[tuple[int, int]] = []
        """Places of the recording that hold a cell's value."""
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
        """The cell of an argument, and the place of the result that it is, if that changes from round to round."""
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
        arguments = [self._of(value) for value in call.args]
        cells = [self._of(made)[0] for made in call.results]
        out = cells[0] if isinstance(call.made, _Handle) else tuple(cells) if cells else None
        function, kwargs = call.function, call.kwargs
        if call.line and ("cast" in call.label or "_to_" in call.label):
            function = functools.partial(told_line, call.line, functools.partial(function, **call.kwargs))
            kwargs = {}
        self._program.append(([cell for cell, _ in arguments], function, kwargs, out))
        if step is None:
            return
        moves = []
        for value, (cell, place), at in zip(call.args, arguments, step[1], strict=True):
            source = None if place is None else (self._calls if place[0] == "now" else self._former)[place[1]]
            moves.append(source is not None or isinstance(value, Round))
            if isinstance(value, Round) or (source is not None and not source.step):
                self._filled.append((at, cell))
        self._added.append((step, moves, call.label, out))

    def round(self, value: int) -> None:
        """Run the next round, with this value of the loop's variable."""
        cells, making = self._cells, self._making
        for now, before in self._handed:
            cells[before] = cells[now]
        for cell, factor, plus in self._variables:
            cells[cell] = factor * value + plus
        for arguments, function, kwargs, out in self._program:
            made: Any = function(*[cells[cell] for cell in arguments], **kwargs)
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
        """After the last followed round: store its results in the recording and in the kernel's names."""
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
    """Pairs of results and what belongs to them."""
    if type(out) is int:
        return ((out, others),)
    return () if not isinstance(out, tuple) else tuple(zip(out, others, strict=True))


def _tensors(value: object) -> Iterator[tl.tensor]:
    if isinstance(value, tl.tensor):
        yield value
    elif isinstance(value, tuple | tl.tuple):
        for one in value:
            yield from _tensors(one)
