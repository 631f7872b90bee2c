"""Sizes as polynomials over names, so that one kernel works for a family of shapes.

A symbol is a dimension of an argument, read from its shape at run time. Two dimensions that an operator requires to be equal are
merged. Sizes that are never compared may be distinguished
differently than a user would.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping

Monomial = tuple[str, ...]


class Size:
    """A polynomial with integer coefficients: `Size.of("M") * Size.of("K") + 3`. Immutable."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = tuple(sorted((names, factor) for names, factor in terms.items() if factor))

    @staticmethod
    def of(value: int | str | Size) -> Size:
        """A constant, or a symbol by name."""
        if isinstance(value, Size):
            return value
        return Size({(): value}) if isinstance(value, int) else Size({(value,): 1})

    def __add__(self, other: Size | int) -> Size:
        terms = dict(self.terms)
        for names, factor in Size.of(other).terms:
            terms[names] = terms.get(names, 0) + factor
        return Size(terms)

    def __sub__(self, other: Size | int) -> Size:
        return self + Size.of(other) * -1

    def __mul__(self, other: Size | int) -> Size:
        terms: dict[Monomial, int] = {}
        for left, by in self.terms:
            for right, factor in Size.of(other).terms:
                names = tuple(sorted(left + right))
                terms[names] = terms.get(names, 0) + by * factor
        return Size(terms)

    __rmul__ = __mul__
    __radd__ = __add__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Size, int)) and self.terms == Size.of(other).terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __repr__(self) -> str:
        return f"Size({self.text()})"

    @property
    def constant(self) -> int | None:
        """Its value if it is constant, else None."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def negative(self) -> bool:
        """Whether all its terms are negative."""
        return bool(self.terms) and all(factor < 0 for _, factor in self.terms)

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(name for names, _ in self.terms for name in names)

    def over(self, other: Size) -> Size | None:
        """The exact quotient if the divisor has one term or equals the polynomial; else None."""
        if self == other:
            return Size.of(1)
        if len(other.terms) != 1:
            return None
        ((divisor, by),) = other.terms
        terms: dict[Monomial, int] = {}
        for names, factor in self.terms:
            left = list(names)
            for name in divisor:
                if name not in left:
                    return None
                left.remove(name)
            if factor % by:
                return None
            terms[tuple(left)] = factor // by
        return Size(terms)

    def replace(self, by: Mapping[str, Size]) -> Size:
        """Replace symbols; returns itself if it has none of them."""
        if not any(name in by for names, _ in self.terms for name in names):
            return self
        total = Size.of(0)
        for names, factor in self.terms:
            product = Size.of(factor)
            for name in names:
                product = product * by.get(name, Size.of(name))
            total = total + product
        return total

    def value(self, of: Mapping[str, int]) -> int:
        """The number, given values of its symbols."""
        return sum(factor * math.prod(of[name] for name in names) for names, factor in self.terms)

    def text(self, tight: bool = False) -> str:
        """As Python text; `tight` adds parentheses where a surrounding product needs them."""
        if not self.terms:
            return "0"
        parts: list[str] = []
        for names, factor in sorted(self.terms, key=lambda term: -len(term[0])):
            numbers = [str(abs(factor))] if abs(factor) != 1 or not names else []
            text = " * ".join([*names, *numbers])
            sign = "-" if factor < 0 else "+"
            parts.append(f" {sign} {text}" if parts else f"-{text}" if factor < 0 else text)
        compound = len(parts) > 1 or " * " in parts[0] or parts[0].startswith("-")
        return f"({''.join(parts)})" if tight and compound else "".join(parts)


class Varying(int):
    """A varying size, as its number at capture: `Varying.of(16, Size.of("s0"))`. Sums, differences and products with other numbers
    vary with it. All other operations act on the number, so a rule must handle varying sizes explicitly."""

    size: Size

    @staticmethod
    def of(number: int, size: Size) -> int:
        """The plain number if the size is constant."""
        if size.constant is not None:
            return number
        made = Varying(number)
        made.size = size
        return made

    def __add__(self, other: int) -> int:
        size = self.size + size_of(other)
        return Varying.of(int(self) + int(other), size)

    def __mul__(self, other: int) -> int:
        size = self.size * size_of(other)
        return Varying.of(int(self) * int(other), size)

    def __sub__(self, other: int) -> int:
        return self + other * -1

    def __rsub__(self, other: int) -> int:
        return self * -1 + other

    def __neg__(self) -> int:
        return self * -1

    __radd__, __rmul__ = __add__, __mul__


def size_of(number: int) -> Size:
    """A number as a size. Raises ValueError for a non-integer."""
    if not isinstance(number, int):
        raise ValueError("a size of a float")
    return number.size if isinstance(number, Varying) else Size.of(number)


ONE = Size.of(1)
ZERO = Size.of(0)


def next_power_of_two(number: int) -> int:
    """The least power of two that is at least `number`; 1 for 0."""
    return 1 << max(number - 1, 0).bit_length()


def product(sizes: Iterable[Size]) -> Size:
    """Product of all sizes; 1 if there are none."""
    total = ONE
    for size in sizes:
        total = total * size
    return total


def contiguous_strides(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """Strides in elements, the last dimension fastest."""
    strides: list[Size] = []
    step = ONE
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def parse(text: str) -> Size | None:
    """A `Dim` as a polynomial; None if it contains a division."""

    def of(node: ast.expr) -> Size | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return Size.of(node.value)
        if isinstance(node, ast.Name):
            return Size.of(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            operand = of(node.operand)
            return None if operand is None else operand * -1
        if isinstance(node, ast.BinOp):
            left, right = of(node.left), of(node.right)
            if left is None or right is None:
                return None
            made = {ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right}
            return made.get(type(node.op))
        return None

    return of(ast.parse(text, mode="eval").body)
