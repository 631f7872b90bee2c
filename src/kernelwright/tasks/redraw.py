"""Replaces tensors written out in a test by random ones of the same size, type and kind. Text in, text out.

    torch.tensor([1.0, 4.0])                       torch.rand(2) * 3.0 + 1.0
    torch.zeros(3)                                 torch.rand(3)
    torch.tensor([[4.0, 1.0], [1.0, 3.0]])         the same, times s_i s_j for a positive s  (a matrix to factor)
    torch.tensor([True, False, True])              torch.rand(3) < 0.5

With an oracle for one input only, a table of answers would pass, so inputs must vary; and they must stay where the function is
meaningful. A float is drawn between the least and the largest element, so that a logarithm stays defined; if all elements are
equal, between half of it and itself (0 and 1 for zeros). Distinct integers stay distinct, so that maxima and argmax are unique,
unless they are compared; other integers stay in their range. Indices and class labels are drawn up to the largest, which is
known to be valid. If negative ones occur, which have another meaning, and for masks whose true elements determine the size of
a result, the elements are permuted. A symmetric or triangular matrix that is factored or solved for is scaled from both sides
by the same positive numbers: it stays symmetric, definite or triangular.

Values cannot differ if there is only one possible, such as the index 0.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from kernelwright.precision import FLOATS

_CREATES = frozenset({"tensor", "zeros", "ones", "eye", "full", "linspace", "arange"})
_DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32",
    "short": "int16",
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_MOST = 1 << 20
"""Most elements of a tensor that is parsed."""


@dataclasses.dataclass(frozen=True)
class Written:
    """A tensor whose elements are written in the text."""

    shape: tuple[int, ...]
    elements: tuple[Any, ...]
    """In row-major order; only the two ends if the elements are evenly spaced between them."""
    dtype: str

    @property
    def range(self) -> tuple[float, float]:
        """Least and greatest value to draw. Raises ValueError for a tensor without elements."""
        low, high = float(min(self.elements)), float(max(self.elements))
        if low == high:
            low, high = (0.0, 1.0) if low == 0 else sorted((low / 2, low))
        return low, high

    @property
    def count(self) -> int:
        return math.prod(self.shape)


def parse_literal_tensor(node: ast.AST) -> Written | None:
    """The tensor that `torch.tensor([...])`, `torch.zeros(...)` and the like make from literals; None for anything else."""
    if not (isinstance(node, ast.Call) and _of_torch(node.func) in _CREATES):
        return None
    try:
        return _parse_written(_of_torch(node.func), node)
    except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError):
        return None


@dataclasses.dataclass(frozen=True)
class Use:
    """How a function uses a tensor."""

    index: bool = False
    """Its values are indices, labels or a mask."""
    matrix: bool = False
    """It is factored or solved for."""
    compared: bool = False
    """Its values are compared for equality."""
    counted: bool = False
    """Its true elements determine the size of a result."""


def redrawn(found: Written, node: ast.expr, use: Use) -> tuple[str, str]:
    """(size of the random numbers `SCALE` to draw first, or empty; the expression that draws the tensor)."""
    size = ", ".join(map(str, found.shape)) or "()"
    shape = f"({size},)" if found.shape else size
    if found.dtype == "bool":
        return "", _shuffle(found, node) if use.counted else f"torch.rand({size}) < 0.5"
    if found.dtype not in FLOATS:
        low, high = int(min(found.elements)), int(max(found.elements))
        dtype = "" if found.dtype == "int64" else f", dtype=torch.{found.dtype}"
        if use.index:
            drawn = f"torch.randint(0, {high + 1}, {shape}{dtype})"
            return "", _shuffle(found, node) if low < 0 else drawn if high else ast.unparse(node)
        if len(set(found.elements)) == found.count > 1 and not use.compared:
            return "", _distinct(found, low)
        if low == high:
            low, high = (0, 1) if low == 0 else sorted((low // abs(low), 2 * low))
        return "", f"torch.randint({low}, {high + 1}, {shape}{dtype})"
    if use.matrix and _is_structured(found):
        text = f"{ast.unparse(node)} * SCALE.unsqueeze(-1) * SCALE.unsqueeze(-2)"
        return ", ".join(map(str, found.shape[:-1])), text
    least, most = found.range
    dtype = "" if found.dtype == "float32" else f", dtype=torch.{found.dtype}"
    text = f"torch.rand({size}{dtype})"
    text += f" * {_number(most - least)}" if most - least != 1.0 else ""
    return "", text + (f" {'-' if least < 0 else '+'} {_number(abs(least))}" if least else "")


def _shuffle(found: Written, node: ast.expr) -> str:
    """The elements in random order."""
    if len(found.shape) == 1:
        return f"{ast.unparse(node)}[torch.randperm({found.count})]"
    size = ", ".join(map(str, found.shape)) or "()"
    return f"{ast.unparse(node)}.reshape(-1)[torch.randperm({found.count})].reshape({size})"


def _distinct(found: Written, low: int) -> str:
    shape = "" if len(found.shape) == 1 else f".reshape({', '.join(map(str, found.shape))})"
    cast = "" if found.dtype == "int64" else f".to(torch.{found.dtype})"
    offset = f" {'-' if low < 0 else '+'} {abs(low)}" if low else ""
    return f"torch.randperm({4 * found.count})[:{found.count}]{shape}{cast}{offset}"


def _is_structured(found: Written) -> bool:
    """Whether all its matrices are symmetric or triangular, and nonzero."""
    if len(found.shape) < 2 or found.shape[-1] != found.shape[-2] or found.shape[-1] < 2:
        return False
    n = found.shape[-1]
    if len(found.elements) != found.count:
        return False
    return all(_has_shape(found.elements[at : at + n * n], n) for at in range(0, found.count, n * n))


def _has_shape(matrix: Sequence[Any], n: int) -> bool:
    pairs = [(matrix[i * n + j], matrix[j * n + i]) for i in range(n) for j in range(i)]
    below, above = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return any(matrix) and (below == above or not any(below) or not any(above))


def _parse_written(kind: str, node: ast.Call) -> Written:
    named = {one.arg: one.value for one in node.keywords if one.arg is not None}
    given = [number(one) for one in node.args]
    dtype = _dtype(named.get("dtype"))
    if kind == "tensor":
        shape, elements = _flat(given[0])
        return Written(shape, elements, dtype or _kind(elements))
    if kind == "linspace":
        steps = given[2] if len(given) > 2 else number(named["steps"])
        return _with_sizes((steps,), (given[0], given[1]), dtype or "float32")
    if kind == "arange":
        start, stop = (type(given[0])(0), given[0]) if len(given) == 1 else (given[0], given[1])
        step = given[2] if len(given) > 2 else 1
        elements = tuple(start + step * i for i in range(_few(math.ceil((stop - start) / step))))
        return Written((len(elements),), elements, dtype or _kind(elements))
    if kind == "eye":
        n = _few(given[0])
        return Written((n, n), tuple(float(i == j) for i in range(n) for j in range(n)), dtype or "float32")
    if kind == "full":
        return _with_sizes(tuple(given[0]), (given[1],), dtype or _kind((given[1],)))
    size = tuple(given[0]) if len(given) == 1 and isinstance(given[0], list) else tuple(given)
    return _with_sizes(size, (float(kind == "ones"),), dtype or "float32")


def _with_sizes(shape: tuple[Any, ...], elements: tuple[Any, ...], dtype: str) -> Written:
    if not all(type(extent) is int and extent >= 0 for extent in shape):
        raise ValueError("no sizes")
    return Written(shape, elements, dtype)


def number(node: ast.expr) -> Any:
    """The value of a literal: a number, or nested lists of numbers. Raises ValueError for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | complex):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [number(one) for one in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -number(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _ARITHMETIC[type(node.op)](number(node.left), number(node.right))
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in ("pi", "e"):
        return math.pi if node.attr == "pi" else math.e
    if isinstance(node, ast.ListComp) and len(node.generators) == 1:
        return _counting(node, node.generators[0])
    raise ValueError("no literal")


def _counting(node: ast.ListComp, over: ast.comprehension) -> list[int]:
    """`[i for i in range(...)]`."""
    if (
        over.ifs
        or ast.dump(node.elt) != ast.dump(over.target).replace("Store()", "Load()")
        or not isinstance(over.iter, ast.Call)
        or not isinstance(over.iter.func, ast.Name)
        or over.iter.func.id != "range"
    ):
        raise ValueError("no literal")
    found = range(*(number(one) for one in over.iter.args))
    return list(found[: _few(len(found))])


def _few(count: int) -> int:
    if not 0 <= count <= _MOST:
        raise ValueError("too many elements")
    return count


def _flat(value: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """(shape, elements) of nested lists. Raises ValueError for ragged ones."""
    if not isinstance(value, list):
        return (), (value,)
    parts = [_flat(one) for one in value]
    shapes = {shape for shape, _ in parts}
    if len(shapes) > 1:
        raise ValueError("ragged")
    inner = shapes.pop() if shapes else ()
    return (len(value), *inner), tuple(element for _, elements in parts for element in elements)


def _kind(elements: Sequence[Any]) -> str:
    """The dtype that torch infers for numbers."""
    kinds = {type(one) for one in elements}
    if complex in kinds:
        return "complex64"
    if float in kinds or not kinds:
        return "float32"
    return "bool" if kinds == {bool} else "int64"


def _dtype(node: ast.expr | None) -> str:
    name = _of_torch(node) if node is not None else ""
    return _DTYPES.get(name, name)


def _of_torch(node: ast.AST) -> str:
    """`zeros` for `torch.zeros`; empty for names not directly under torch."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
        return node.attr
    return ""


def _number(value: float) -> str:
    return repr(float(f"{value:.9g}"))
