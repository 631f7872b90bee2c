"""Sizes as sums of products of unknowns, and equations between them: the arithmetic behind `shrink.py`.

Every dimension of a captured graph begins as an unknown with its captured value. Operators say which dimensions are
equal (`unify`), which is a product of others (`split`), which is a fixed number (`pin`). An unknown is never removed but
substituted by an expression of others, so that every size stays exact at the captured values.

Solves only linear equations and common factors. Other unknowns are pinned to their captured values, which is always right,
only less general.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

Term = tuple[int, tuple[str, ...]]
"""(coefficient, unknowns), the unknowns in memory order if a dimension was merged from several."""


class NotUnderstood(Exception):
    """A rule does not fit the operator: its dimensions must be pinned."""


@dataclasses.dataclass(frozen=True)
class Expr:
    """A sum of terms."""

    terms: tuple[Term, ...]

    @property
    def constant(self) -> int | None:
        """The number, if there are no unknowns; else None."""
        if not self.terms:
            return 0
        return self.terms[0][0] if len(self.terms) == 1 and not self.terms[0][1] else None

    @property
    def offset(self) -> int:
        """The constant term."""
        return sum(coefficient for coefficient, unknowns in self.terms if not unknowns)

    @property
    def unknowns(self) -> set[str]:
        return {one for _, names in self.terms for one in names}

    def __add__(self, other: Expr | int) -> Expr:
        return collect_terms((*self.terms, *as_expr(other).terms))

    def __sub__(self, other: Expr | int) -> Expr:
        return self + as_expr(other) * -1

    def __mul__(self, other: Expr | int) -> Expr:
        return collect_terms((a * b, (*x, *y)) for a, x in self.terms for b, y in as_expr(other).terms)

    def same(self, other: Expr) -> bool:
        """Whether both are equal for all values."""
        return not (self - other).terms


def collect_terms(terms: Iterable[Term]) -> Expr:
    """Add like terms; the first one's order of unknowns is kept."""
    found: dict[tuple[str, ...], Term] = {}
    for coefficient, unknowns in terms:
        key = tuple(sorted(unknowns))
        before = found.get(key, (0, unknowns))
        found[key] = (before[0] + coefficient, before[1])
    return Expr(tuple(one for one in found.values() if one[0]))


def as_expr(value: Expr | int) -> Expr:
    if isinstance(value, Expr):
        return value
    return Expr(((value, ()),) if value else ())


class Unknowns:
    """Unknowns with their captured values, and the expressions found for them."""

    def __init__(self) -> None:
        self.hints: dict[str, int] = {}
        self._is: dict[str, Expr] = {}

    def fresh(self, hint: int) -> Expr:
        """A new unknown; sizes 0 and 1 stay numbers."""
        if hint <= 1:
            return as_expr(hint)
        name = f"a{len(self.hints)}"
        self.hints[name] = hint
        return Expr(((1, (name,)),))

    def now(self, expr: Expr) -> Expr:
        """The expression with all solved unknowns substituted."""
        while any(name in self._is for name in expr.unknowns):
            total: list[Term] = []
            for coefficient, names in expr.terms:
                product = as_expr(coefficient) if coefficient else Expr(())
                for name in names:
                    product = product * self._is.get(name, Expr(((1, (name,)),)))
                total += product.terms
            expr = collect_terms(total)
        return expr

    def hint(self, expr: Expr) -> int:
        """The captured value."""
        return value_of(self.now(expr), self.hints)

    def pin(self, *exprs: Expr) -> None:
        """Fix all unknowns in them to their captured values."""
        for expr in exprs:
            for name in self.now(expr).unknowns:
                self._is[name] = as_expr(self.hints[name])

    def unify(self, one: Expr, other: Expr) -> None:
        """Make both equal from now on; pin them if the equation cannot be solved."""
        left, right = self.now(one), self.now(other)
        if self.hint(left) != self.hint(right):
            raise NotUnderstood(f"{left} and {right} differ at the captured values")
        if left.same(right):
            return
        if left.constant is not None or right.constant is not None:
            self.pin(left, right)
            return
        left, right = _without_common(left, right)
        for target, value in (*_solutions(right - left), *_solutions(left - right)):
            self._is[target] = value
            return
        if not self._pair_up(left, right) and not self._match(left, right):
            self.pin(left, right)

    def _pair_up(self, one: Expr, other: Expr) -> bool:
        """For sums of the same form, `a*b - a` and `c*d - c`: equate their unknowns one by one, if that makes the sums equal."""
        left = [name for _, names in one.terms for name in names if name not in other.unknowns]
        right = [name for _, names in other.terms for name in names if name not in one.unknowns]
        left, right = list(dict.fromkeys(left)), list(dict.fromkeys(right))
        if len(left) != len(right) or any(
            self.hints[a] != self.hints[b] for a, b in zip(left, right, strict=True)
        ):
            return False
        names = dict(zip(left, right, strict=True))
        renamed = collect_terms((c, tuple(names.get(name, name) for name in term)) for c, term in one.terms)
        if not left or not renamed.same(other):
            return False
        self._is.update({old: Expr(((1, (new,)),)) for old, new in names.items()})
        return True

    def _match(self, one: Expr, other: Expr) -> bool:
        """For two products of unknowns: split the factors of one to match those of the other, in order."""
        if len(one.terms) != 1 or len(other.terms) != 1:
            return False
        parts = [value_of(Expr(((1, (name,)),)), self.hints) for name in other.terms[0][1]]
        if other.terms[0][0] != 1:
            parts.insert(0, other.terms[0][0])
        made = self.split([one], parts)
        if made is None:
            return False
        names = [Expr(((1, (name,)),)) for name in other.terms[0][1]]
        if other.terms[0][0] != 1:
            names.insert(0, as_expr(other.terms[0][0]))
        for old, new in zip(names, made, strict=True):
            left, right = self.now(old), self.now(new)
            if left.same(right):
                continue
            solved = next(iter((*_solutions(right - left), *_solutions(left - right))), None)
            if solved is None or left.constant is not None or right.constant is not None:
                self.pin(left, right)
            else:
                self._is[solved[0]] = solved[1]
        return True

    def split(self, exprs: Sequence[Expr], sizes: Sequence[int]) -> list[Expr] | None:
        """The sizes as expressions, when the memory of dimensions `exprs`, in order, is viewed as `sizes`; None (all pinned) if they interleave."""
        factors = [factor for expr in exprs for factor in self._factors(expr)]
        found: list[Expr] = []
        for size in sizes:
            part, left = as_expr(1), size
            while left > 1:
                if not factors:
                    self.pin(*exprs)
                    return None
                factor = factors.pop(0)
                hint = self.hint(factor)
                if hint == 1:
                    continue
                if left % hint == 0:
                    part, left = part * factor, left // hint
                    continue
                common = math.gcd(left, hint)
                pieces = self._pieces(factor, common) if common > 1 else None
                if pieces is None:
                    self.pin(*exprs)
                    return None
                part, left = part * pieces[0], left // common
                factors.insert(0, pieces[1])
            found.append(part)
        return [self.now(one) for one in found]

    def divide(self, expr: Expr, by: int) -> Expr | None:
        """`expr / by`, substituting unknowns by multiples if necessary; None (pinned) if `by` does not divide the captured value."""
        expr = self.now(expr)
        if self.hint(expr) % by:
            self.pin(expr)
            return None
        for coefficient, names in expr.terms:
            need = by // math.gcd(by, coefficient)
            if need > 1 and names:
                multiple = next((name for name in reversed(names) if self.hints[name] % need == 0), None)
                if multiple is None:
                    self.pin(expr)
                    return as_expr(self.hint(expr) // by)
                self._is[multiple] = self.fresh(self.hints[multiple] // need) * need
        expr = self.now(expr)
        if any(coefficient % by for coefficient, _ in expr.terms):
            self.pin(expr)
            return as_expr(self.hint(expr) // by)
        return Expr(tuple((coefficient // by, names) for coefficient, names in expr.terms))

    def floor(self, expr: Expr, by: int) -> Expr:
        """`expr // by`, substituting unknowns by multiples plus a remainder if necessary."""
        expr = self.now(expr)
        if by == 1:
            return expr
        for coefficient, names in expr.terms:
            need = by // math.gcd(by, coefficient)
            if names and need > 1:
                whole, rest = divmod(self.hints[names[0]], need)
                if len(names) > 1 or whole == 0:
                    self.pin(expr)
                    break
                self._is[names[0]] = self.fresh(whole) * need + rest
        expr = self.now(expr)
        if any(coefficient % by for coefficient, names in expr.terms if names):
            self.pin(expr)
            expr = self.now(expr)
        terms = [(coefficient // by, names) for coefficient, names in expr.terms if names]
        return collect_terms((*terms, (expr.offset // by, ())))

    def _factors(self, expr: Expr) -> list[Expr]:
        """The factors of a product in memory order, the number first; a sum is one factor."""
        expr = self.now(expr)
        if len(expr.terms) != 1:
            return [expr]
        coefficient, names = expr.terms[0]
        numbers = [as_expr(coefficient)] if coefficient != 1 or not names else []
        return [*numbers, *(Expr(((1, (name,)),)) for name in names)]

    def _pieces(self, factor: Expr, first: int) -> tuple[Expr, Expr] | None:
        """The factor as a product of two, the first with the captured value `first`; None if it cannot be split."""
        hint = self.hint(factor)
        if factor.constant is not None:
            return as_expr(first), as_expr(hint // first)
        if len(factor.terms) != 1 or len(factor.terms[0][1]) != 1 or factor.terms[0][0] != 1:
            return None
        one, other = self.fresh(first), self.fresh(hint // first)
        self._is[factor.terms[0][1][0]] = one * other
        return one, other


def value_of(expr: Expr, values: Mapping[str, int]) -> int:
    """The expression's value."""
    return sum(coefficient * math.prod(values[name] for name in names) for coefficient, names in expr.terms)


def _without_common(one: Expr, other: Expr) -> tuple[Expr, Expr]:
    """Both divided by the unknowns and the number common to all of their terms."""
    terms = (*one.terms, *other.terms)
    number = math.gcd(*(coefficient for coefficient, _ in terms))
    common = list(terms[0][1])
    for _, names in terms[1:]:
        rest = list(names)
        kept = []
        for name in common:
            if name in rest:
                rest.remove(name)
                kept.append(name)
        common = kept

    def divided(expr: Expr) -> Expr:
        made = []
        for coefficient, names in expr.terms:
            rest = list(names)
            for name in common:
                rest.remove(name)
            made.append((coefficient // number, tuple(rest)))
        return Expr(tuple(made))

    return divided(one), divided(other)


def _solutions(difference: Expr) -> list[tuple[str, Expr]]:
    """Unknowns that occur alone in `difference = 0` with coefficient -1, each as a sum of positive terms of the others."""
    found = []
    for coefficient, names in difference.terms:
        if coefficient != -1 or len(names) != 1:
            continue
        rest = Expr(tuple(term for term in difference.terms if term[1] != names))
        grows = rest.unknowns and all(c > 0 for c, others in rest.terms if others)
        if grows and names[0] not in rest.unknowns:
            found.append((names[0], rest))
    return found
