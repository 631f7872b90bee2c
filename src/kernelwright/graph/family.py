"""One graph from several captures of a program at different sizes: what differs becomes a formula over symbols.

    unify([at_64, at_48], [{"n": 64}, {"n": 48}])      a graph with the symbol n

Reshape constants, baked-in sizes and windows need no symbolic tracing: we compare each integer across all captures and
accept a formula that fits them all (sums, multiples, quotients and products of sizes seen before it). What convolutions and
pooling make of a size is told by their windows: after a few of them many quotients fit a few captures.
Captures that vary one size at a time leave fewer formulas that fit by chance; a judge that runs other sizes decides.
A size of a computed value that no formula fits keeps the first capture's: running the graph recomputes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kernelwright.graph.operators import packet
from kernelwright.graph.sizes import evaluate
from kernelwright.graph.types import Dim, Graph

_DIVISORS = tuple(range(2, 65))
_DEPTH = 3
"""Most factors and terms of a formula."""
_SCALES: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("{}**-0.5", lambda value: value**-2),
    ("{}**0.5", lambda value: value**2),
    ("1.0/{}", lambda value: 1 / value),
    ("1.0*{}", lambda value: value),
    ("{0}/({0} - 1)", lambda value: value / (value - 1)),  # of an unbiased variance
)
"""Forms of a float computed from a size, each with its inverse."""


class NoFamily(Exception):
    """The graphs are not of one program, or an integer follows no formula; `str()` says which, in one line."""


def unify(graphs: Sequence[Graph], sizes: Sequence[Mapping[str, int]]) -> Graph:
    """A graph whose symbols are the names in `sizes` that vary; each graph was captured at its own sizes, and the first's
    are the symbols' hints. Raises NoFamily."""
    first = sizes[0]
    names = [name for name in first if any(one[name] != first[name] for one in sizes)]
    formulas = Formulas({name: [one[name] for one in sizes] for name in names})
    dumps = [graph.model_dump(mode="python") for graph in graphs]
    try:
        whole = _Merge(formulas).of(dumps, "graph")
    except NoFamily:  # what is computed may tell a weight's size, such as a number of patches
        _Merge(formulas, learning=True).of(dumps, "graph")
        formulas.told.clear()
        whole = _Merge(formulas).of(dumps, "graph")
    least = {name: min(one[name] for one in sizes) for name in names}
    used = set(re.findall(r"[a-z_][a-z0-9_]*", repr([dims for dims in formulas.told])))
    whole["symbols"] = tuple(
        {"name": name, "hint": first[name], "least": max(1, least[name])} for name in names if name in used
    )
    return Graph.model_validate(whole)


class Formulas:
    """Expressions over the sizes that vary, indexed by their values at each capture."""

    def __init__(self, rows: Mapping[str, Sequence[int]]) -> None:
        self.rows = {name: tuple(row) for name, row in rows.items()}
        self.known: dict[tuple[int, ...], str] = {row: name for name, row in reversed(self.rows.items())}
        self.told: list[str] = []

    def of(self, values: Sequence[int]) -> int | str:
        """An expression with these values; a number if they are all equal. Raises NoFamily."""
        row = tuple(values)
        if len(set(row)) == 1:
            return row[0]
        # Short formulas first: few captures leave long ones that fit by chance.
        tried = (self._of(row, depth) for depth in range(1, _DEPTH + 1))
        found = next((one for one in tried if one is not None), None)
        if found is None:
            raise NoFamily(
                f"a size that is {', '.join(map(str, row))} follows no formula over {', '.join(self.rows)}"
            )
        self.known.setdefault(row, found)
        self.told.append(found)
        return found

    def expect(self, values: Sequence[int], text: str) -> None:
        """Take this formula for these values, unless another is known or it does not fit them."""
        row = tuple(values)
        if row not in self.known and len(set(row)) > 1:
            told = ({name: one[at] for name, one in self.rows.items()} for at in range(len(row)))
            if all(evaluate(text, one) == value for one, value in zip(told, row, strict=True)):
                self.known[row] = text

    def scale(self, values: Sequence[float]) -> str:
        """An expression in one of the forms of scale factors. Raises NoFamily."""
        for form, back in _SCALES:
            try:
                sizes = [round(back(value)) for value in values]
                made = [eval(form.format(size)) for size in sizes]
                if all(abs(a - b) <= 1e-12 * abs(b) for a, b in zip(made, values, strict=True)):
                    return form.format(f"({self.of(sizes)})")
            except (ArithmeticError, ValueError, TypeError, NoFamily):
                continue
        raise NoFamily(f"a number that is {', '.join(map(str, values))} follows no formula over sizes")

    def _of(self, row: tuple[int, ...], depth: int) -> str | None:
        if len(set(row)) == 1:
            return str(row[0])
        if row in self.known:
            return self.known[row]
        negated = tuple(-value for value in row)
        if negated in self.known:
            return f"-{_factor(self.known[negated])}"
        for text in self._simple(row):
            return text
        if depth <= 1:
            return None
        for other, name in list(self.known.items()):
            if all(size and not value % size for value, size in zip(row, other, strict=True)):
                rest = self._of(
                    tuple(value // size for value, size in zip(row, other, strict=True)), depth - 1
                )
                if rest is not None:
                    return f"{_factor(name)}*{_factor(rest)}" if rest != "1" else name
        for other, name in list(self.known.items()):
            if all(value and not size % value for value, size in zip(row, other, strict=True)):
                rest = self._of(
                    tuple(size // value for value, size in zip(row, other, strict=True)), depth - 1
                )
                if rest is not None:
                    return f"{_factor(name)}//{_factor(rest)}"
        for other, name in list(self.known.items()):
            rest = self._of(tuple(value - size for value, size in zip(row, other, strict=True)), 1)
            if rest is not None:
                return f"{name} + {rest}" if not rest.startswith("-") else f"{name} - {rest[1:]}"
        return None

    def _simple(self, row: tuple[int, ...]) -> Iterator[str]:
        """Multiples, shifts and rounded quotients of one size."""
        for name, base in self.rows.items():
            if len(set(base)) == 1:
                continue
            low = min(range(len(base)), key=base.__getitem__)
            high = max(range(len(base)), key=base.__getitem__)
            slope, rest = divmod(row[high] - row[low], base[high] - base[low])
            if not rest and slope:
                shift = row[low] - slope * base[low]
                if all(value == slope * size + shift for value, size in zip(row, base, strict=True)):
                    yield _linear(name, slope, shift)
        for shifted in (False, True):  # plain quotients first: programs usually have these
            for name, base in self.rows.items():
                yield from self._quotients(name, base, row, shifted)

    def _quotients(
        self, name: str, base: tuple[int, ...], row: tuple[int, ...], shifted: bool
    ) -> Iterator[str]:
        rise, run = max(row) - min(row), max(base) - min(base)
        # If several fit, prefer the divisor that most often leaves no remainder.
        likely = sorted(_DIVISORS, key=lambda divisor: -sum(not size % divisor for size in base))
        for divisor in likely if run else ():
            if abs(rise * divisor - run) >= divisor:
                continue
            shifts = sorted(range(-divisor, 2 * divisor), key=abs) if shifted else [0]
            for shift in shifts:
                ends = {value - (size + shift) // divisor for value, size in zip(row, base, strict=True)}
                if len(ends) == 1 and (shifted or ends == {0}):
                    yield _quotient(name, shift, divisor, ends.pop())


class _Merge:
    """Merges dumps of graphs, leaf by leaf."""

    def __init__(self, formulas: Formulas, learning: bool = False) -> None:
        """`learning`: only to find formulas; integers that follow none are passed over."""
        self.formulas, self.learning = formulas, learning
        self.shapes: dict[str, tuple[Dim, ...]] = {}
        """Shapes of the tensors merged so far."""

    def of(self, values: Sequence[Any], path: str) -> Any:
        first = values[0]
        leaf = not isinstance(first, dict | tuple | list)
        if leaf and all(type(one) is type(first) and one == first for one in values):
            return first
        if all(isinstance(one, dict) for one in values):
            if any(one.keys() != first.keys() for one in values):
                raise NoFamily(f"{path} has another form at other sizes")
            return self._fields(values, path)
        if all(isinstance(one, tuple | list) for one in values):
            if any(len(one) != len(first) for one in values):
                raise NoFamily(
                    f"{path} has {', '.join(sorted({str(len(one)) for one in values}))} parts at other sizes"
                )
            keys = [
                one["op"] if isinstance(one, dict) and "op" in one else str(at)
                for at, one in enumerate(first)
            ]
            return tuple(self.of([one[at] for one in values], f"{path}.{key}") for at, key in enumerate(keys))
        if all(type(one) is int for one in values):
            inside = re.search(r"\.(shape|strides)\.\d+$", path)
            try:
                found = self.formulas.of(values)
            except NoFamily:
                if self.learning or (inside and ".outputs." in path):
                    return first
                raise
            return found if inside or isinstance(found, int) else {"size": found}
        if all(type(one) is float for one in values) and not path.startswith("graph.arguments"):
            return {"scale": self.formulas.scale(values)}
        raise NoFamily(
            f"{path} is {first!r} at some sizes and {next(one for one in values if one != first)!r} at others"
        )

    def _fields(self, values: Sequence[Mapping[str, Any]], path: str) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for key in values[0]:
            if key == "outputs" and values[0][key][0]:
                made = _windowed(merged["op"], merged["args"], self.shapes)
                for at, text in enumerate(made, -len(made)):
                    self.formulas.expect([one["outputs"][0]["type"]["shape"][at] for one in values], text)
            merged[key] = self.of([one[key] for one in values], f"{path}.{key}")
        if isinstance(kind := merged.get("type"), dict) and "shape" in kind:
            self.shapes[merged["name"]] = kind["shape"]
        return merged


def _windowed(op: str, args: Sequence[Any], shapes: Mapping[str, tuple[Dim, ...]]) -> list[str]:
    """The last sizes of what a convolution or pooling makes, as formulas; none of any other operator."""
    name, up = packet(op), False
    if name == "convolution":
        x, weight, _, stride, padding, dilation, transposed, *_ = args
        kernel = shapes[weight["ref"]][2:]
        if transposed:
            return []
    elif re.fullmatch(r"(max|avg)_pool\dd(_with_indices)?", name):
        defaults: list[Any] = [(), 0]
        x, kernel, stride, padding, *more = [*args, *defaults[len(args) - 2 :]]
        stride = stride or kernel
        dilation = 1 if name.startswith("avg") or not more else more.pop(0)
        up = bool(more and more[0])
    else:
        return []
    every = [(one,) * len(kernel) if isinstance(one, int) else one for one in (stride, padding, dilation)]
    found = []
    for size, width, step, pad, apart in zip(shapes[x["ref"]][-len(kernel) :], kernel, *every, strict=False):
        if not all(isinstance(one, int) for one in (width, step, pad, apart)):
            return []
        rest = 2 * pad - apart * (width - 1) - 1 + up * (step - 1)
        found.append(
            _linear(str(size), 1, rest + 1) if step == 1 else _quotient(str(size), rest + step, step, 0)
        )
    return found


def _linear(name: str, slope: int, shift: int) -> str:
    text = name if slope == 1 else f"-{name}" if slope == -1 else f"{slope}*{name}"
    return text if not shift else f"{text} + {shift}" if shift > 0 else f"{text} - {-shift}"


def _quotient(name: str, shift: int, divisor: int, end: int) -> str:
    inner = _linear(name, 1, shift)
    text = f"{_factor(inner)}//{divisor}"
    return text if not end else f"{text} + {end}" if end > 0 else f"{text} - {-end}"


def _factor(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else f"({text})"
