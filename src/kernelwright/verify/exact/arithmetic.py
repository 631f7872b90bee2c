"""Sums, products and quotients of `Exact` arrays and ordinary numbers.

Over the reals: `inf - inf`, `0 * inf` and `x / 0` are undefined, and so is `inf * x` if the sign of x is unknown.
Tags that these operations propagate (`functions.py` reads them):

    maximum         a maximum, or a multiple of one, as softmaxes subtract
    shift (t,)      an exponent with the summand t
    scale (t,)      a number with the factor exp(t)
    more (t,)       1 + exp(t), and `less (t,)` its reciprocal
    even (x,)       x or -x
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from kernelwright.verify.exact import field
from kernelwright.verify.exact.constants import FACTORS, INFINITE, Form, closest
from kernelwright.verify.exact.values import (
    ABOVE,
    BELOW,
    FAR_ABOVE,
    FAR_BELOW,
    UNDEFINED,
    Exact,
    Kind,
    NotExact,
    Tag,
    markers,
    same,
    with_markers,
)

_MULTIPLE = 400
_TABLE = 256
"""An array with more distinct numbers is a table, whose numbers are not literals."""
_NOTED = 64
"""Integers of an array up to this size count as literals."""
Number = Exact | np.ndarray | float
"""An operand."""


class Arithmetic:
    """Uses `levels` of the tower; `key` seeds the values of functions that are known only to be functions."""

    def __init__(self, key: int, levels: int = field.LEVELS, deadline: float = math.inf) -> None:
        """`deadline` is in seconds of this process's CPU time; after it, operations raise NotExact."""
        self.key, self.levels, self.deadline = key, levels, deadline
        self.functions: set[str] = set()
        """Names of such functions that were used."""
        self.scalars: tuple[float, ...] = ()
        """Small weights, which a candidate's Python may know: multiples of them are recognised."""
        self.weights = np.zeros(0)
        """Sorted values of the learnt weights: a number equal to one stands for that weight, wherever it is."""
        self._literals: dict[float, tuple[int, ...]] = {}
        self._signs: dict[int, int] = {0: 0}
        self._sorted: tuple[np.ndarray, np.ndarray] | None = None

    # -- numbers ---------------------------------------------------------------------------------------------

    def number(self, value: Number) -> Exact:
        """Ordinary numbers as residues: integers exactly, floats as the closest literals."""
        if isinstance(value, Exact):
            return value
        array = np.asarray(value)
        if array.dtype.kind in "iub":
            kind: Kind = "b" if array.dtype.kind == "b" else "i"
            wide = array.astype(np.int64)
            if wide.size <= _NOTED:
                for one in set(wide.reshape(-1).tolist()):
                    self._note(one % field.PRIMES[0], one)
            planes = field.reduce_levels(np.broadcast_to(wide, (self.levels, *wide.shape)))
            return Exact(planes, kind=kind)
        if array.dtype.kind != "f":
            raise NotExact(f"numbers of type {array.dtype}")
        wide = array.astype(np.float64)
        distinct, places = np.unique(wide, return_inverse=True)
        if distinct.size > _TABLE:
            table = self._single(distinct)
        else:
            table = np.array([self._literal(float(one)) for one in distinct], dtype=np.int64).T
        planes = table.reshape(self.levels, -1)[:, places.reshape(-1)].reshape(self.levels, *array.shape)
        return Exact(planes, bool((planes[0] < 0).any()) if planes.size else False)

    def _single(self, values: np.ndarray) -> np.ndarray:
        """Numbers of a long table, which are not literals: their float32 values, exactly."""
        single = values.astype(np.float32).astype(np.float64)
        usual = np.isfinite(single) & (np.abs(values) < INFINITE)
        mantissa, exponent = np.frexp(np.where(usual, single, 0.0))
        whole = field.reduce_levels(
            np.broadcast_to((mantissa * 2**24).astype(np.int64), (self.levels, values.size))
        )
        powers = {
            int(one): [pow(2, int(one) - 24, prime) for prime in field.PRIMES[: self.levels]]
            for one in np.unique(exponent)
        }
        scale = np.array([powers[int(one)] for one in exponent], dtype=np.int64).T
        made = field.multiply(whole, np.ascontiguousarray(scale))
        odd = np.array([self._literal(float(one)) for one in values[~usual]], dtype=np.int64).reshape(
            -1, self.levels
        )
        made[:, ~usual] = odd.T
        return made

    def _literal(self, value: float) -> tuple[int, ...]:
        known = self._literals.get(value)
        if known is None:
            known = self._literals[value] = self._residues(value)
            if known[0] >= 0:
                self._note(known[0], value)
        return known

    def _note(self, residue: int, value: float) -> None:
        """Record the sign of a literal."""
        if value and residue not in self._signs:
            sign = 1 if value > 0 else -1
            self._signs[residue], self._signs[field.PRIMES[0] - residue] = sign, -sign
            self._sorted = None

    def _residues(self, value: float) -> tuple[int, ...]:
        if not np.isfinite(value) or abs(value) >= INFINITE:
            high, low = (ABOVE, BELOW) if np.isinf(value) else (FAR_ABOVE, FAR_BELOW)
            return (UNDEFINED if np.isnan(value) else high if value > 0 else low,) * self.levels
        form = closest(value)
        if form.inexact:
            for scalar in self.scalars:
                for multiple, inverse in ((value / scalar, False), (value * scalar, True)):
                    ratio = closest(multiple)
                    if (
                        not ratio.inexact
                        and ratio.fraction.numerator * ratio.fraction.denominator <= _MULTIPLE
                    ):
                        known = np.array(self._residues_of(closest(scalar)))[:, None]
                        factor = np.array(self._residues_of(ratio))[:, None]
                        product = field.multiply(field.reciprocal(known) if inverse else known, factor)
                        return tuple(int(one) for one in product[:, 0])
        return self._residues_of(form)

    def _residues_of(self, form: Form) -> tuple[int, ...]:
        found = []
        for prime in field.PRIMES[: self.levels]:
            found.append(form.fraction.numerator * pow(form.fraction.denominator, -1, prime) % prime)
        made = np.array(found, dtype=np.int64)[:, None]
        for _ in range(form.roots):
            made = field.root(made)
        for part in form.factor.split("/")[0], *(f"1/{one}" for one in form.factor.split("/")[1:]):
            made = field.multiply(made, self._known(part, form.roots > 0))
        if form.sign < 0:
            made = field.negative(made)
        return tuple(int(one) for one in made[:, 0])

    def _known(self, name: str, root: bool) -> np.ndarray:
        """Residues of a known factor: pi, ln2 and ln10 are random squares, so that they have roots."""
        if name == "1":
            return np.ones((self.levels, 1), dtype=np.int64)
        if name.startswith("1/"):
            return field.reciprocal(self._known(name[2:], root))
        assert name in FACTORS
        drawn = field.hash_to_field(np.array([sum(name.encode())]), self.key, self.levels)
        square = field.multiply(drawn, drawn)
        return field.root(square) if root and name == "pi" else square

    def signs(self, value: Exact) -> np.ndarray:
        """Sign of each element: -1, 0 or 1 for a literal, 2 if unknown."""
        if self._sorted is None:
            keys = np.array(sorted(self._signs), dtype=np.int64)
            self._sorted = keys, np.array([self._signs[int(one)] for one in keys])
        keys, signs = self._sorted
        row = value.planes[0]
        at = np.searchsorted(keys, row).clip(0, len(keys) - 1)
        found = np.where(keys[at] == row, signs[at], 2)
        if not value.special:
            return found
        marks = markers(value)
        return np.where(marks == ABOVE, 1, np.where(marks == BELOW, -1, found))

    def weight(self, values: np.ndarray) -> Exact:
        """Learnt weights: a random residue for each distinct value."""
        bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
        return Exact(field.hash_to_field(bits, self.key ^ 0x3E16475, self.levels))

    def stored(self, values: np.ndarray) -> Exact:
        """Numbers in memory: literals, or copies of weights."""
        if not self.weights.size or values.dtype.kind != "f" or not values.size:
            return self.number(values)
        at = np.searchsorted(self.weights, values).clip(0, self.weights.size - 1)
        known = self.weights[at] == values
        made = self.number(np.where(known, 0.0, values))
        if not known.any():
            return made
        planes = np.where(known, self.weight(values).planes, made.planes)
        return Exact(planes, bool((planes[0] < 0).any()))

    def least(self, value: Exact) -> float:
        """The smallest element if all are literals, else minus infinity."""
        known = {made[0]: number for number, made in self._literals.items()}
        return min((known.get(int(one), -math.inf) for one in np.unique(value.planes[0])), default=-math.inf)

    # -- shapes ----------------------------------------------------------------------------------------------

    def aligned(self, *values: Number) -> list[Exact]:
        """The values broadcast to one shape, with equally many levels."""
        if time.process_time() > self.deadline:
            raise NotExact("too much to be done in time")
        given = [self.number(one) for one in values]
        levels = min(one.levels for one in given)
        shape = np.broadcast_shapes(*(one.shape for one in given))

        def spread(planes: np.ndarray) -> np.ndarray:
            missing = len(shape) + 1 - planes.ndim
            lifted = planes.reshape(len(planes), *(1,) * missing, *planes.shape[1:])
            return np.broadcast_to(lifted, (len(planes), *shape))

        made = []
        for one in given:
            moved = one if one.shape == shape else one.mapped(spread)
            made.append(
                moved
                if moved.levels == levels
                else Exact(moved.planes[:levels], moved.special, moved.tag, moved.kind)
            )
        return made

    # -- the field -------------------------------------------------------------------------------------------

    def add(self, one: Number, other: Number) -> Exact:
        a, b = self.aligned(one, other)
        planes = field.add(a.planes, b.planes)
        if a.special and b.special:
            planes = np.where(_far_apart(a, b), 0, planes)
        made = self._finished(planes, _sum_marks, a, b)
        made.tag = self._sum_tag(a, b)
        return made

    def subtract(self, one: Number, other: Number) -> Exact:
        return self.add(one, self.negative(other))

    def negative(self, value: Number) -> Exact:
        a = self.number(value)
        made = Exact(field.negative(a.planes), a.special, None, _signed(a))
        if a.special:
            marks = np.minimum(a.planes[0], 0)
            made.planes = np.where(marks < 0, _OPPOSITE[-marks], made.planes)
        if a.tag is not None and a.tag.kind in ("maximum", "even"):
            made.tag = a.tag
        elif a.tag is not None and a.tag.kind in ("shift", "softened"):
            made.tag = Tag(a.tag.kind, (self.negative(a.tag.values[0]),)) if a.tag.kind == "shift" else None
        return made

    def multiply(self, one: Number, other: Number) -> Exact:
        a, b = self.aligned(one, other)
        made = self._finished(field.multiply(a.planes, b.planes), self._product_marks, a, b)
        tags = [x.tag for x in (a, b) if x.tag is not None and x.tag.kind in ("maximum", "shift", "scale")]
        if len(tags) == 1 and a is not b:
            tag, factor = tags[0], b if a.tag is tags[0] else a
            if tag.kind == "maximum" or tag.kind == "scale":
                made.tag = tag
            elif tag.kind == "shift":
                made.tag = Tag("shift", (self.multiply(tag.values[0], factor.plain()),))
        elif len(tags) == 2 and all(tag.kind == "scale" for tag in tags):
            made.tag = Tag("scale", (self.add(tags[0].values[0], tags[1].values[0]),))
        return made

    def reciprocal(self, value: Number) -> Exact:
        a = self.number(value)
        marks = np.where(a.planes[0] == 0, UNDEFINED, 0)
        planes = field.reciprocal(np.where(a.planes < 0, 1, a.planes) if a.special else a.planes)
        if a.special:
            own = markers(a)
            marks = np.where(own == UNDEFINED, UNDEFINED, marks)
            planes = np.where(own < UNDEFINED, 0, planes)
        made = with_markers(planes, marks)
        if a.tag is not None and a.tag.kind in ("more", "less"):
            made.tag = Tag("less" if a.tag.kind == "more" else "more", a.tag.values)
        elif a.tag is not None and a.tag.kind == "scale":
            made.tag = Tag("scale", (self.negative(a.tag.values[0]),))
        return made

    def divide(self, one: Number, other: Number) -> Exact:
        """The quotient; the reciprocal is taken before broadcasting."""
        inverse = self.reciprocal(other)
        if not isinstance(one, Exact) and (np.asarray(one) == 1).all():
            return self.aligned(inverse, one)[0]
        return self.multiply(one, inverse)

    def matmul(self, one: Number, other: Number) -> Exact:
        """Batched matrix product of arrays with at least two axes each."""
        a, b = self.number(one), self.number(other)
        levels = min(a.levels, b.levels)
        if a.special or b.special:
            raise NotExact("a product of matrices with infinite or undefined elements")
        return Exact(field.matmul(a.planes[:levels], b.planes[:levels]))

    def sum(self, value: Number, axis: int) -> Exact:
        a = self.number(value)
        axis %= a.ndim
        planes = field.total(np.where(a.planes < 0, 0, a.planes) if a.special else a.planes, axis + 1)
        made = Exact(planes, kind=_signed(a))
        if a.special:
            marks = markers(a)
            undefined = (marks == UNDEFINED).any(axis) | (
                (marks == BELOW).any(axis) & (marks == ABOVE).any(axis)
            )
            made = with_markers(planes, np.where(undefined, UNDEFINED, marks.min(axis)), made.kind)
        if a.tag is not None and a.tag.kind == "scale":
            made.tag = self._common_scale(a, a.tag.values[0], axis)
        return made

    def running_sum(self, value: Number, axis: int) -> Exact:
        a = self.number(value)
        if a.special:
            raise NotExact("a running sum of infinite or undefined elements")
        return Exact(field.running_total(a.planes, axis % a.ndim + 1), kind=_signed(a))

    def running_product(self, value: Number, axis: int) -> Exact:
        a = self.number(value)
        if a.special:
            raise NotExact("a running product of infinite or undefined elements")
        rows = np.moveaxis(a.planes, axis % a.ndim + 1, 0)
        found = [rows[0]] if len(rows) else []
        for row in rows[1:]:
            found.append(field.multiply(found[-1], row))
        return Exact(np.moveaxis(np.stack(found), 0, axis % a.ndim + 1), kind=_signed(a))

    def product(self, value: Number, axis: int) -> Exact:
        running = self.running_product(value, axis)
        return running.mapped(lambda planes: np.take(planes, -1, axis=axis % running.ndim + 1))

    # -- infinite and undefined elements -----------------------------------------------------------------------------

    def _finished(self, planes: np.ndarray, marks: Any, a: Exact, b: Exact) -> Exact:
        kind: Kind = "i" if _signed(a) == "i" and _signed(b) == "i" else "f"
        if not (a.special or b.special):
            return Exact(planes, kind=kind)
        return with_markers(planes, marks(a, b), kind)

    def _product_marks(self, a: Exact, b: Exact) -> np.ndarray:
        one, other = markers(a), markers(b)
        signs = self.signs(a) * self.signs(b)
        infinite = (one < UNDEFINED) | (other < UNDEFINED)
        sided = np.where(signs == 1, ABOVE, np.where(signs == -1, BELOW, UNDEFINED))
        undefined = (one == UNDEFINED) | (other == UNDEFINED)
        return np.where(undefined, UNDEFINED, np.where(infinite, sided, 0))

    # -- tags ------------------------------------------------------------------------------------------------------

    def _sum_tag(self, a: Exact, b: Exact) -> Tag | None:
        kinds = {x.tag.kind for x in (a, b) if x.tag is not None}
        if kinds & {"maximum", "shift"}:
            parts = [x.plain() if x.tag.kind == "maximum" else x.tag.values[0]
                     for x in (a, b) if x.tag is not None and x.tag.kind in ("maximum", "shift")]  # fmt: skip
            return Tag(
                "shift", (parts[0] if len(parts) == 1 else self.add(parts[0].plain(), parts[1].plain()),)
            )
        if "scale" in kinds:
            return self._shared_scale(a, b)
        return None

    def _shared_scale(self, a: Exact, b: Exact) -> Tag | None:
        """The tag of a sum whose terms share a factor exp(t). Zeros share any factor; 1 + exp(t) gets the tag `more`."""
        if a.tag is None or b.tag is None or "scale" not in (a.tag.kind, b.tag.kind):
            tagged, other = (a, b) if a.tag is not None and a.tag.kind == "scale" else (b, a)
            assert tagged.tag is not None
            if not other.special and not other.planes.any():
                return tagged.tag
            if not other.special and (other.planes == 1).all() and self.is_exponential(tagged):
                return Tag("more", tagged.tag.values)
            factor, free = tagged.tag.values[0], tagged.planes[0] == 0
            zero = other.planes[0] == 0
            return tagged.tag if bool((free | zero).all()) and factor is not None else None
        one, other = a.tag.values[0], b.tag.values[0]
        free, loose = a.planes[0] == 0, b.planes[0] == 0
        if not bool((same(one, other) | free | loose).all()):
            return None
        if not free.any():
            return a.tag
        levels = min(one.levels, other.levels)
        planes = np.where(free, other.planes[:levels], one.planes[:levels])
        return Tag("scale", (Exact(planes, one.special or other.special),))

    def _common_scale(self, a: Exact, factor: Exact, axis: int) -> Tag | None:
        counts = a.planes[0] != 0
        first = np.expand_dims(counts.argmax(axis), axis)
        chosen = factor.mapped(
            lambda planes: np.take_along_axis(
                planes, np.broadcast_to(first, (len(planes), *first.shape)), axis + 1
            )
        )
        alike = same(*self.aligned(factor.plain(), chosen.plain())) | ~counts
        if bool(alike.all()):
            return Tag("scale", (chosen.mapped(lambda planes: planes.squeeze(axis + 1)),))
        return None

    def is_exponential(self, value: Exact) -> bool:
        """Whether a value is exp(t) for the t of its tag `scale`."""
        if value.tag is None or value.tag.kind != "scale" or value.special:
            return False
        exponent = value.tag.values[0]
        if exponent.levels < 2 or exponent.special:
            return False
        return bool((field.exponential(exponent.planes)[0] == value.planes[0]).all())


def _signed(value: Exact) -> Kind:
    return "f" if value.kind == "f" else "i"


_OPPOSITE = np.array([0, UNDEFINED, ABOVE, BELOW, FAR_ABOVE, FAR_BELOW])
"""Negated marker -> marker of the negative number."""


def _far_apart(a: Exact, b: Exact) -> np.ndarray:
    """Where FAR_ABOVE meets FAR_BELOW."""
    found: np.ndarray = (np.minimum(a.planes[0], b.planes[0]) == FAR_ABOVE) & (
        np.maximum(a.planes[0], b.planes[0]) == FAR_BELOW
    )
    return found


def _sum_marks(a: Exact, b: Exact) -> np.ndarray:
    one, other = np.minimum(a.planes[0], 0), np.minimum(b.planes[0], 0)
    far_one, far_other = one <= FAR_BELOW, other <= FAR_BELOW
    least = np.where(
        far_one & ~far_other & (other < 0),
        other,
        np.where(far_other & (one < 0), one, np.minimum(one, other)),
    )
    clash = (one < UNDEFINED) & (other < UNDEFINED) & (one != other) & (far_one == far_other)
    undefined = clash | (one == UNDEFINED) | (other == UNDEFINED)
    return np.where(_far_apart(a, b), 0, np.where(undefined, UNDEFINED, least))
