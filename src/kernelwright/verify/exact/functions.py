"""Exponentials by homomorphism, roots by powers, and uninterpreted functions.

Of a function such as erf we use only that a = b implies f(a) = f(b): its value is drawn for each argument, odd functions
with the argument's sign. Of logarithms we use log(v exp(t)) = t + log(v), where a tag gives t, and
log(1 + exp(t)) = t / 2 + E(t) with E even, so that all stable forms of softplus are equal.

Does not use log(a b) = log a + log b.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from kernelwright.verify.exact import field
from kernelwright.verify.exact.arithmetic import Arithmetic, Number
from kernelwright.verify.exact.values import BELOW, UNDEFINED, Exact, NotExact, Tag, markers, with_markers

Parity = Literal["", "odd", "even"]
_MOST = 64
"""Largest exponent computed by multiplication."""


class Functions(Arithmetic):
    """`Arithmetic` with functions."""

    def exp(self, value: Number) -> Exact:
        a = self.number(value)
        if a.levels < 2:
            if a.special:
                raise NotExact("an exponential of an exponential with infinite elements")
            return self.function("exp of exp", a)
        planes = field.exponential(np.where(a.planes < 0, 0, a.planes) if a.special else a.planes)
        made = Exact(planes)
        if a.special:
            own = markers(a)
            made = with_markers(np.where(own == BELOW, 0, planes), np.where(own == BELOW, 0, own))
        tag = a.tag
        made.tag = Tag("scale", tag.values if tag is not None and tag.kind == "shift" else (a,))
        return made

    def exp2(self, value: Number) -> Exact:
        return self.exp(self.multiply(value, math.log(2.0)))

    def log(self, value: Number) -> Exact:
        a = self.number(value)
        tag = a.tag
        if tag is not None and tag.kind in ("more", "less"):
            soft = self.softplus(tag.values[0])
            return soft if tag.kind == "more" else self.negative(soft)
        if tag is not None and tag.kind == "scale" and tag.values[0].levels > 1:
            exponent = Exact(np.maximum(tag.values[0].planes, 0))
            rest = self.multiply(a.plain(), self.exp(self.negative(exponent).plain()).plain())
            return self.add(self._bare_log(rest), exponent.plain())
        return self._bare_log(a)

    def _bare_log(self, a: Exact) -> Exact:
        made = self.function("log", a.plain())
        planes = np.where(a.planes[0] == 1, 0, made.planes)
        zero = a.planes[0] == 0
        marks = np.where(zero, BELOW, markers(a))
        return with_markers(planes, np.where(marks == BELOW, np.where(zero, BELOW, UNDEFINED), marks))

    def log1p(self, value: Number) -> Exact:
        return self.log(self.add(value, 1))

    def softplus(self, value: Number) -> Exact:
        """log(1 + exp(x))."""
        a = self.number(value)
        known = a.tag.values[0] if a.tag is not None and a.tag.kind == "even" else a
        half = self.multiply(a.plain(), 0.5)
        made = self.add(half, self.function("log", known.plain(), "even", salt="1 + exp"))
        made.tag = Tag("softplus", (a.plain(),))
        return made

    def sigmoid(self, value: Number) -> Exact:
        return self.divide(1.0, self.add(self.exp(self.negative(value)), 1.0))

    def tanh(self, value: Number) -> Exact:
        twice = self.exp(self.multiply(self.number(value).plain(), 2.0))
        return self.divide(self.subtract(twice.plain(), 1.0), self.add(twice.plain(), 1.0))

    def sqrt(self, value: Number) -> Exact:
        a = self.number(value)
        self.functions.add("sqrt")
        if not a.special:
            return Exact(field.root(a.planes))
        marks = markers(a)
        return with_markers(field.root(np.maximum(a.planes, 0)), np.where(marks == BELOW, UNDEFINED, marks))

    def rsqrt(self, value: Number) -> Exact:
        return self.reciprocal(self.sqrt(value))

    def power(self, value: Number, exponent: Number) -> Exact:
        """x ** y: products for small whole exponents, with a root for halves, else exp(y * log(x))."""
        if isinstance(exponent, Exact) or np.size(exponent) != 1:
            return self.exp(self.multiply(self.log(value), exponent))
        number = float(np.reshape(exponent, -1)[0])
        a = self.number(value)
        if abs(number) <= _MOST and 2 * number == int(2 * number):
            whole = int(abs(number))
            made = self.sqrt(a) if abs(number) != whole else None
            power, rest = a.plain(), whole
            while rest:
                if rest & 1:
                    made = power if made is None else self.multiply(made, power)
                rest >>= 1
                power = self.multiply(power, power) if rest else power
            if made is None:
                return self.aligned(1.0, a)[0]
            return self.reciprocal(made) if number < 0 else made
        return self.exp(self.multiply(self.log(a), number))

    def function(self, name: str, value: Number, parity: Parity = "", salt: str = "") -> Exact:
        """An uninterpreted function, of which only the parity is known. It is undefined at infinite or undefined elements."""
        a = self.number(value)
        self.functions.add(name)
        row = np.maximum(a.planes[0], 0)
        other = np.where(row == 0, 0, field.PRIMES[0] - row)
        argument = np.minimum(row, other) if parity else row
        key = self.key ^ int.from_bytes((name + salt).encode(), "little") % (1 << 61)
        planes = field.hash_to_field(argument, key, self.levels)
        if parity == "odd":
            planes = np.where(row == 0, 0, np.where(row == argument, planes, field.negative(planes)))
        return with_markers(planes, np.where(a.planes[0] < 0, UNDEFINED, 0)) if a.special else Exact(planes)

    def hyperbolic(self, name: str, value: Number) -> Exact:
        """sinh or cosh."""
        a = self.number(value).plain()
        up, down = self.exp(a).plain(), self.exp(self.negative(a)).plain()
        return self.multiply(self.subtract(up, down) if name == "sinh" else self.add(up, down), 0.5)
