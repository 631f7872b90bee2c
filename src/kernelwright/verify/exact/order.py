"""Comparisons, selections and maxima of unknown numbers.

`a > b` is an uninterpreted function s of a - b, with s(-d) = 1 - s(d), and selecting x or y by s is y + s * (x - y): all
ways of writing a ReLU, an absolute value or a clamp by comparisons give the same polynomial. Where that does not suffice
(exp(min(x, 0)) where x is below 0), comparisons can be `decided`: 0 or 1 at random, by the same rule. Then half of the
elements take a wrong path, and `fewest_decisions` counts the distinct ones.

Ties between different numbers (a set of measure zero) are left to the special values of the other checks.

A maximum is the inverse image of the sum of its elements' images under a bijection, which is symmetric and needs no order.
A repeated element counts once, unless one of the two is in a maximum already. With a literal, a maximum is a selection.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernelwright.verify.exact import field
from kernelwright.verify.exact.arithmetic import Number
from kernelwright.verify.exact.functions import Functions
from kernelwright.verify.exact.values import (
    ABOVE,
    BELOW,
    FAR_ABOVE,
    FAR_BELOW,
    UNDEFINED,
    Exact,
    Tag,
    markers,
    same,
    with_markers,
)

_FAR_UP = 10.0
Condition = Any
"""An array of booleans, or an `Exact` of kind `b`."""


class Calculator(Functions):
    """All operations of kernels and graphs on numbers."""

    def __init__(
        self, key: int, levels: int = field.LEVELS, deadline: float = math.inf, decided: bool = False
    ) -> None:
        super().__init__(key, levels, deadline)
        self.decided = decided
        self._site: tuple[int, ...] = (0,)
        self._asked = 0
        self._sites: dict[tuple[int, ...], list[np.ndarray]] = {}

    @property
    def site(self) -> tuple[int, ...]:
        """The launch being computed. The n-th comparisons of all its programs count as one comparison."""
        return self._site

    @site.setter
    def site(self, site: tuple[int, ...]) -> None:
        self._site, self._asked = site, 0

    def fewest_decisions(self) -> int:
        """Least number of distinct differences compared at any comparison."""
        counts = [
            np.unique(np.concatenate([part.reshape(-1) for part in parts])).size
            for parts in self._sites.values()
        ]
        return min((count for count in counts if count), default=1 << 30)

    # -- conditions ------------------------------------------------------------------------------------------

    def compare(self, name: str, one: Number, other: Number) -> Condition:
        """`name` is less, less_equal, greater, greater_equal, equal or not_equal."""
        a, b = self.aligned(one, other)
        if name in ("less", "less_equal"):
            return self.compare({"less": "greater", "less_equal": "greater_equal"}[name], b, a)
        if name == "not_equal":
            return self.invert(self.compare("equal", one, other))
        if name == "equal":
            return self._equal(a, b)
        gap = self.subtract(a.plain(), b.plain())
        made = self._above(gap, name == "greater_equal")
        if a.special or b.special:
            made = self._beside_infinities(made, a, b, name == "greater_equal")
        if isinstance(made, Exact):
            made.tag = Tag("order", (a.plain(), b.plain()))
        return made

    @staticmethod
    def _equal(a: Exact, b: Exact) -> np.ndarray:
        """Different unknown numbers are unequal, except on a set of measure zero."""
        return same(a, b)

    def _above(self, gap: Exact, ties: bool) -> Condition:
        """Whether a difference is positive."""
        known = self.signs(gap)
        if (known < 2).all():
            return (known > 0) | ((known == 0) & ties)
        self.functions.add("comparison")
        row = np.maximum(gap.planes[0], 0)
        least = np.minimum(row, field.PRIMES[0] - row)
        drawn = field.hash_to_field(least, self.key ^ 0xC0FFEE, self.levels)
        if self.decided:
            self._sites.setdefault((*self.site, self._asked), []).append(least[known == 2])
            self._asked += 1
            drawn = np.broadcast_to(drawn[:1] & 1, drawn.shape)
        flipped = field.subtract(np.ones_like(drawn), drawn)
        planes = np.where(row == least, drawn, flipped)
        planes = np.where(known < 2, (known > 0) | ((known == 0) & ties), planes)
        return planes[0] == 1 if self.decided else Exact(planes, kind="b")

    def _beside_infinities(self, made: Condition, a: Exact, b: Exact, ties: bool) -> Condition:
        one, other = markers(a), markers(b)
        rank = {ABOVE: 1, BELOW: -1}
        high = np.select([one == mark for mark in rank], list(rank.values()), 0)
        low = np.select([other == mark for mark in rank], list(rank.values()), 0)
        undefined = (one == UNDEFINED) | (other == UNDEFINED)
        decided = (one < 0) | (other < 0)
        truth = ~undefined & ((high > low) | ((high == low) & ties))
        planes = made.planes if isinstance(made, Exact) else self.number(made).planes
        planes = np.where(decided, truth, planes)
        if ((planes[0] == 0) | (planes[0] == 1)).all():
            return planes[0] == 1
        return Exact(planes, kind="b")

    def invert(self, condition: Condition) -> Condition:
        if not isinstance(condition, Exact):
            return ~np.asarray(condition)
        made = self.subtract(1, condition.plain("i")).plain("b")
        if condition.tag is not None and condition.tag.kind == "order":
            made.tag = Tag("order", condition.tag.values[::-1])
        return made

    def both(self, one: Condition, other: Condition) -> Condition:
        if not isinstance(one, Exact) and not isinstance(other, Exact):
            return np.logical_and(one, other)
        return self._decide(self.multiply(self._bits(one), self._bits(other)).plain("b"))

    def either(self, one: Condition, other: Condition) -> Condition:
        return self.invert(self.both(self.invert(one), self.invert(other)))

    def differ(self, one: Condition, other: Condition) -> Condition:
        """Exclusive or."""
        a, b = self._bits(one), self._bits(other)
        return self._decide(self.subtract(self.add(a, b), self.multiply(self.multiply(a, b), 2)).plain("b"))

    def _bits(self, condition: Condition) -> Exact:
        if isinstance(condition, Exact):
            return condition.plain("i")
        return self.number(np.asarray(condition)).plain("i")

    @staticmethod
    def _decide(made: Exact) -> Condition:
        return made.planes[0] == 1 if ((made.planes[0] == 0) | (made.planes[0] == 1)).all() else made

    # -- choices ---------------------------------------------------------------------------------------------

    def select(self, condition: Condition, one: Number, other: Number) -> Exact:
        """`one` where the condition holds, `other` elsewhere."""
        if not isinstance(condition, Exact):
            return self._move(np.asarray(condition, dtype=bool), one, other)
        a, b = self.aligned(one, other)
        s, a, b = self.aligned(condition, a, b)
        if self._is_softplus(condition, a, b):
            return a if a.tag is not None and a.tag.kind == "softplus" else b
        if condition.tag is not None and condition.tag.kind == "order" and not (a.special or b.special):
            high, low = condition.tag.values
            high, low, _ = self.aligned(high, low, a)
            if bool(same(a, high).all() and same(b, low).all()):
                return self.maximum(high, low)
            if bool(same(b, high).all() and same(a, low).all()):
                return self.minimum(high, low)
        decided = (s.planes[0] == 0) | (s.planes[0] == 1)
        safe_a, safe_b = (_finite(x) for x in (a, b))
        made = self.add(
            safe_b.plain(), self.multiply(s.plain("i"), self.subtract(safe_a.plain(), safe_b.plain()))
        )
        if a.special or b.special:
            chosen = np.where(s.planes[0] == 1, markers(a), markers(b))
            doubtful = np.minimum(markers(a), markers(b)) < 0
            made = with_markers(
                made.planes, np.where(decided, chosen, np.where(doubtful, UNDEFINED, 0)), made.kind
            )
        if self._is_absolute(condition, a, b):
            made.tag = Tag("even", (a.plain(),))
        return made

    def _is_softplus(self, condition: Exact, a: Exact, b: Exact) -> bool:
        """Whether this selects between x and softplus(x) for large x, where they are equal (to 5e-5 at 10)."""
        if condition.tag is None or condition.tag.kind != "order":
            return False
        high, low = condition.tag.values
        for soft, linear, argument, limit in ((b, a, high, low), (a, b, low, high)):
            if soft.tag is None or soft.tag.kind != "softplus" or self.least(limit) < _FAR_UP:
                continue
            known, straight, given = self.aligned(soft.tag.values[0], linear.plain(), argument)
            if bool((same(known, straight) & same(known, given)).all()):
                return True
        return False

    def _is_absolute(self, condition: Exact, a: Exact, b: Exact) -> bool:
        """Whether this selects between a number and its negative, by its sign."""
        if condition.tag is None or condition.tag.kind != "order" or a.special or b.special:
            return False
        high, low = condition.tag.values
        if low.planes.any():
            return False
        high, _ = self.aligned(high, a)
        return bool(same(a, high).all() and same(self.negative(b.plain()), high).all())

    def _move(self, mask: np.ndarray, one: Number, other: Number) -> Exact:
        a, b, spread = self.aligned(one, other, mask)
        mask = spread.planes[0] == 1
        if mask.all():
            return a
        kind = a.kind if a.kind == b.kind else "f"
        made = Exact(np.where(mask, a.planes, b.planes), False, None, kind)
        made.special = (a.special or b.special) and bool((made.planes[0] < 0).any())
        for tagged, rest, taken in ((a, b, ~mask), (b, a, mask)):
            tag = tagged.tag
            if tag is None or rest.tag is not None:
                continue
            zeros = tag.kind == "scale" and bool((rest.planes[0][taken] == 0).all())
            if zeros or tag.kind == "maximum" or (tag.kind == "shift" and made.special):
                made.tag = tag
        if (
            a.tag is not None
            and b.tag is not None
            and a.tag.kind == b.tag.kind
            and len(a.tag.values) == len(b.tag.values)
        ):
            pairs = zip(a.tag.values, b.tag.values, strict=True)
            made.tag = Tag(a.tag.kind, tuple(self._move(mask, x.plain(), y.plain()) for x, y in pairs))
        return made

    def absolute(self, value: Number) -> Exact:
        a = self.number(value)
        made = self.select(self.compare("greater", a, 0), a, self.negative(a))
        made.tag = Tag("even", (a.plain(),))
        return made

    def sign(self, value: Number) -> Exact:
        positive = self._bits(self.compare("greater", value, 0))
        made = self.subtract(self.multiply(positive, 2), 1).plain("f")
        zero = self.number(value).planes[0] == 0
        return Exact(np.where(zero, 0, made.planes)) if zero.any() else made

    # -- maxima ----------------------------------------------------------------------------------------------

    def maximum(self, one: Number, other: Number) -> Exact:
        a, b = self.aligned(one, other)
        literal = (self.signs(a) < 2) | (self.signs(b) < 2)
        infinite = (a.planes[0] < 0) | (b.planes[0] < 0)
        tag = Tag("maximum") if any(x.tag is not None and x.tag.kind == "maximum" for x in (a, b)) else None
        if (literal & ~infinite).any():
            choice = self._choose(a, b)
            if (literal & ~infinite).all():
                choice.tag = tag
                return choice
            rest = self._largest([a, b])
            made = Exact(
                np.where(literal & ~infinite, choice.planes[: rest.levels], rest.planes[: choice.levels])
            )
            made.special = bool((made.planes[0] < 0).any())
        else:
            made = self._largest([a, b])
        made.tag = tag or Tag("maximum")
        return made

    def _choose(self, a: Exact, b: Exact) -> Exact:
        """The maximum by a comparison."""
        condition = self.compare("greater", a.plain(), b.plain())
        if not isinstance(condition, Exact):
            return self._move(condition, a.plain(), b.plain())
        return self.select(condition.plain(), a.plain(), b.plain())

    def minimum(self, one: Number, other: Number) -> Exact:
        return self.negative(self.maximum(self.negative(one), self.negative(other)))

    def maximum_over(self, value: Number, axis: int) -> Exact:
        a = self.number(value)
        made = self._largest([a], axis % a.ndim)
        made.tag = Tag("maximum")
        return made

    def minimum_over(self, value: Number, axis: int) -> Exact:
        return self.negative(self.maximum_over(self.negative(value), axis))

    def _largest(self, values: list[Exact], axis: int | None = None) -> Exact:
        """The elementwise maximum of arrays of one shape, or of one array along an axis."""
        levels = min(one.levels for one in values)
        if axis is None:
            planes = np.stack([one.planes[:levels] for one in values], axis=1)
            axis = 0
        else:
            planes = values[0].planes
        row = planes[0]
        moved = field.add(np.maximum(row, 0)[None], np.full_like(row[None], self.key % field.PRIMES[0]))
        images = np.where((row < 0) | _repeat(row, axis), 0, field.cube(moved)[0])
        counted = (row >= 0).sum(axis)
        image = field.total(images[None], axis + 1)
        back = field.subtract(field.cube_root(image), np.full_like(image, self.key % field.PRIMES[0]))[0]
        made = field.hash_to_field(back, self.key ^ 0x3A51, self.levels)
        made[0] = back
        first = np.expand_dims((row >= 0).argmax(axis), axis)
        places = np.broadcast_to(first, (len(planes), *first.shape))
        own = np.take_along_axis(planes, places, axis + 1).squeeze(axis + 1)
        repeated = (row == np.take_along_axis(row, first, axis)).sum(axis) == counted
        if (single := (counted == 1) | (repeated & (counted > 0))).any():
            shared = min(len(own), len(made)) if single.all() else len(made)
            if len(own) < shared:
                shared = len(own)
            made = np.where(single, own[:shared], made[:shared])
        if not single.all():
            self.functions.add("maximum")
        above = (row == ABOVE).any(axis) | (row == FAR_ABOVE).any(axis)
        marks = np.where((row == UNDEFINED).any(axis), UNDEFINED, np.where(above, ABOVE, 0))
        nothing = np.where((row == FAR_BELOW).any(axis), FAR_BELOW, BELOW)
        return with_markers(made, np.where((marks == 0) & (counted == 0), nothing, marks))


def _repeat(row: np.ndarray, axis: int) -> np.ndarray:
    """Which elements repeat an earlier one along an axis; a maximum ignores these."""
    order = np.argsort(row, axis=axis, kind="stable")
    ordered = np.take_along_axis(row, order, axis)
    again = np.zeros(row.shape, dtype=bool)
    later = tuple(slice(1, None) if place == axis else slice(None) for place in range(row.ndim))
    again[later] = np.diff(ordered, axis=axis) == 0
    found = np.zeros(row.shape, dtype=bool)
    np.put_along_axis(found, order, again, axis)
    return found


def _finite(value: Exact) -> Exact:
    return Exact(np.maximum(value.planes, 0), False, value.tag, value.kind) if value.special else value
