"""How to draw each argument of a graph: values of the same kind as the captured ones, as one line of Python.

    x1       floats                torch.randn(2, 17, 48)          scale and mean as captured; positive stays positive
    x2       indices               torch.randint(0, 32000, (2, 17))    bounded by what they index
    x2       places to write to    torch.randperm(128)[:4]         all different, if the captured ones are
    x3       a mask                torch.rand(2, 17) < 0.8
    x4       under a root          torch.rand(48) + 0.5            a variance whose root the graph takes
    buf1     running variance      torch.rand(64) * 0.5 + 0.75
    const1   a small table         torch.tensor([0, 2, 1])

Values are drawn by evaluating the very text that a task prints, so that what is checked is what is judged.

Does not guarantee finite results: `task.py` tries the draws, and sorted integers if they fail. Does not reproduce structure
beyond these few kinds (a symmetric matrix).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import torch

from kernelwright.graph import operators, sizes
from kernelwright.graph.types import Argument, Dim, Graph, Node, Ref, TensorType, refs_in
from kernelwright.precision import FLOATS

INLINE = 32
"""Most elements of a table that is written out."""
_LOWEST = -1e4
"""Floats up to this count as a mask's minus infinity."""
_CARRIES = frozenset({"view", "move"})
_ROOTS = frozenset({"sqrt", "rsqrt", "log", "log2", "log10"})
_INTEGERS = (torch.int64, torch.int32)
_INDEXED = ("gather", "index_select", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy")
_JOINS = frozenset({"cat", "stack", "where"})
_PICKS = frozenset({"gather", "index", "_unsafe_index", "index_select"})
"""Operators whose values are some of their first argument's."""


@dataclasses.dataclass(frozen=True)
class Draw:
    """One line that draws a tensor; `{shape}` stands for its sizes, `{dtype}` for `, dtype=torch.bfloat16` or nothing."""

    text: str
    bound: Dim = 0
    """`{bound}` in the text: the number of positions that an index may name."""

    def written(self, type: TensorType, size: Any = str) -> str:
        """The line for a tensor of that type; `size` formats one size."""
        shape = ", ".join(size(one) for one in type.shape)
        dtype = "" if type.dtype == "float32" else f", dtype=torch.{type.dtype}"
        listed = f"({shape},)" if len(type.shape) == 1 else f"({shape})"
        name, bound = f"torch.{type.dtype}", size(self.bound)
        return self.text.format(shape=shape or "()", listed=listed, dtype=dtype, name=name, bound=bound)

    def draw(
        self, type: TensorType, device: torch.device | str = "cpu", symbols: Mapping[str, int] | None = None
    ) -> torch.Tensor:
        """Draw a tensor of a type without symbols from torch's generator; `symbols` are those of the bound."""
        text = self.written(type, lambda size: str(sizes.evaluate(size, symbols or {})))
        with torch.device(device):
            made: torch.Tensor = eval(text, {"torch": torch})  # our own text, of numbers and torch calls
        return made


def describe(graph: Graph, values: Mapping[str, Any] | None = None) -> dict[str, Draw]:
    """How to draw each tensor argument of the graph, given the values that it was captured with, if any."""
    bounds, shifted = _indices(graph)
    positive, places = under_roots(graph), written_at(graph)
    rising = in_order({name: values[name] for name in offsets(graph, values)}) if values else {}
    found = {}
    for one in graph.arguments:
        if isinstance(one.type, TensorType):
            value = (values or {}).get(one.name)
            bound = bounds.get(one.name)
            apart = _different(value, places[one.name], bound) if one.name in places else None
            found[one.name] = rising.get(one.name) or apart or _draw(one, one.type, value, bound)
            if one.name in shifted and bound is None and values:
                by, rows = shifted[one.name]
                found[one.name] = _below(one.type, values.get(by), rows) or found[one.name]
            if value is None and one.name in positive and one.type.dtype in FLOATS:
                found[one.name] = POSITIVE
    return found


def _below(type: TensorType, by: Any, rows: Dim) -> Draw | None:
    """Integers of a type that index a table of some rows once the few offsets `by`, one per column, are added; None for other offsets."""
    fits = isinstance(by, torch.Tensor) and by.dtype in _INTEGERS and by.numel() <= INLINE and by.ndim < 2
    if not fits or (by.ndim and type.shape[-1:] not in ((by.numel(),), (1,))):
        return None
    return Draw(f"(torch.rand({{shape}}) * ({{bound}} - torch.tensor({_list(by)}))).to({{name}})", rows)


def written_at(graph: Graph) -> dict[str, int]:
    """Arguments whose elements name places that are written to, by themselves, and the dimension along which they do: two writes to
    one place are in no defined order."""
    found: dict[str, int] = {}
    made_of = {one.name: one.name for one in graph.arguments}
    for node in graph.nodes:
        name, args = operators.packet(node.op), node.args
        if name in ("index_put", "_unsafe_index_put") and True not in args:
            found |= {made_of[one]: 0 for one in refs_in(args[1]) if one in made_of}
        elif name == "scatter" and isinstance(args[1], int) and isinstance(args[3], Ref):
            found |= {made_of[one]: args[1] for one in refs_in(args[2]) if one in made_of}
        read = set(node.refs())
        if len(read) == 1 and (first := made_of.get(read.pop())):
            made_of |= {value.name: first for value in node.outputs if value is not None}
    return found


def _different(value: Any, dim: int, bound: Dim | None) -> Draw | None:
    """For places that are all different along a dimension: others that are; None if they are not."""
    if (
        not isinstance(value, torch.Tensor)
        or value.dtype not in _INTEGERS
        or value.numel() < 2
        or value.min() < 0
    ):
        return None
    if bool((value.sort(dim)[0].diff(dim=dim) == 0).any()):
        return None
    text = (
        "torch.randperm(max({bound}, {shape}))[:{shape}]"
        if value.ndim == 1
        else f"torch.rand({{shape}}).argsort({dim})"
    )
    return Draw(f"({text} % {{bound}}).to({{name}})", int(value.max()) + 1 if bound is None else bound)


def under_roots(graph: Graph) -> frozenset[str]:
    """Arguments whose root or logarithm is taken, directly or after adding a positive number: variances or counts."""
    wanted: set[str] = set()
    for node in reversed(graph.nodes):
        name, reads = operators.packet(node.op), list(node.refs())
        numbers = [one for one in node.args if isinstance(one, int | float) and not isinstance(one, bool)]
        made = any(value is not None and value.name in wanted for value in node.outputs)
        keeps = name in ("add", "mul", "_to_copy", "clamp_min") or operators.kind(node.op) in _CARRIES
        fractional = name == "pow" and bool(numbers) and (numbers[0] < 0 or numbers[0] != int(numbers[0]))
        if name in _ROOTS or fractional or (made and keeps and all(one >= 0 for one in numbers)):
            wanted.update(reads if len(reads) == 1 else ())
    return frozenset(wanted & {one.name for one in graph.arguments})


def like(value: torch.Tensor) -> Draw:
    """Floats between the least and the largest of `value`, for when the usual draw gives no finite results."""
    finite = value.detach().double()
    finite = finite[finite.isfinite()]
    if not value.is_floating_point() or not finite.numel():
        return _plain(value)
    return _between(float(finite.min()), float(finite.max()))


def in_order(values: Mapping[str, Any]) -> dict[str, Draw]:
    """For arguments whose values are non-decreasing integers (offsets, segment ends, boundaries): sorted integers with the same ends.
    For when operators reject arbitrary integers."""
    found = {}
    for name, value in values.items():
        if not isinstance(value, torch.Tensor) or value.ndim != 1 or value.dtype not in _INTEGERS:
            continue
        if value.numel() > 1 and value[0] < value[-1] and bool((value[1:] >= value[:-1]).all()):
            low, high = int(value[0]), int(value[-1])
            inner = f"torch.randint({low}, {high + 1}, ({{shape}} - 2,)).sort()[0]"
            found[name] = Draw(
                f"torch.cat([torch.tensor([{low}]), {inner}, torch.tensor([{high}])]).to({{name}})"
            )
    return found


def offsets(graph: Graph, values: Mapping[str, Any]) -> dict[str, int]:
    """Argument -> the size of another argument at which its integers, rising from 0, end: offsets that cut that one's rows."""
    known = {
        size for one in graph.arguments if isinstance(one.type, TensorType) for size in one.type.shape
    } - {1}
    rising = {name: values[name] for name in in_order(values)}
    return {
        name: int(value[-1])
        for name, value in rising.items()
        if value.numel() > 2 and int(value[0]) == 0 and int(value[-1]) in known
    }


def index_bounds(graph: Graph) -> dict[str, Dim]:
    """Integer argument that is used as an index -> number of positions."""
    return _indices(graph)[0]


def _indices(graph: Graph) -> tuple[dict[str, Dim], dict[str, tuple[str, Dim]]]:
    """(`index_bounds`, argument that is an index once a buffer is added -> that buffer and the number of positions)."""
    types, roles = graph.types(), {one.name: one.role for one in graph.arguments}
    moved: dict[str, str] = {}
    """Value -> the buffer that was added to its elements."""
    shifted: dict[str, tuple[str, Dim]] = {}
    beyond: dict[str, int] = {}
    """Value -> the number that was added to its elements."""
    source = {one.name: [one.name] for one in graph.arguments}
    """Value -> the arguments that its elements come from."""
    bounds: dict[str, Dim] = {}

    def bound(value: Any, size: Dim) -> None:
        if more := beyond.get(value.ref, 0) if isinstance(value, Ref) else 0:
            size = max(size - more, 1) if isinstance(size, int) else f"{size} - {more}"
        for argument in (one for name in refs_in(value) for one in source.get(name, [])):
            kind = types[argument]
            if isinstance(value, Ref) and value.ref in moved:
                shifted[argument] = moved[value.ref], size
            elif isinstance(kind, TensorType) and kind.dtype in ("int64", "int32"):
                bounds[argument] = _least(bounds.get(argument, size), size)

    def shape(value: Any) -> tuple[Dim, ...]:
        kind = types[value.ref] if isinstance(value, Ref) else None
        return kind.shape if isinstance(kind, TensorType) else ()

    for node in graph.nodes:
        name, args = operators.packet(node.op), node.args
        if name in ("embedding", "_embedding_bag", "_embedding_bag_forward_only"):
            bound(args[1], shape(args[0])[0])
        elif name in ("index", "_unsafe_index", "index_put", "_unsafe_index_put") and isinstance(
            args[1], tuple
        ):
            for size, one in zip(shape(args[0]), args[1], strict=False):
                bound(one, size)
        elif name in _INDEXED:
            if isinstance(args[1], int) and shape(args[0]):
                bound(args[2], shape(args[0])[args[1]])
        elif name in ("cross_entropy_loss", "nll_loss_forward", "nll_loss2d_forward"):
            bound(args[1], shape(args[0])[min(1, len(shape(args[0])) - 1)])
        elif name == "embedding_dense_backward" and isinstance(args[2], int):
            bound(args[1], args[2])
        read, more = dict.fromkeys(node.refs()), _added(node)
        carried = _carried(node)
        for value in node.outputs:
            if carried is not None and value is not None:
                source[value.name] = [argument for one in carried for argument in source.get(one, [])]
                moved.update((value.name, moved[one]) for one in carried if one in moved)
                if after := more + max((beyond.get(one, 0) for one in carried), default=0):
                    beyond[value.name] = after
            ends = [argument for one in read for argument in source.get(one, [])]
            once = name == "add" and len(read) == len(ends) == 2 and not moved.keys() & read.keys()
            if once and value is not None:
                first, second = ends
                if roles.get(first) == "input" and roles.get(second) in ("buffer", "constant"):
                    source[value.name], moved[value.name] = [first], second
    return bounds, shifted


def _carried(node: Node) -> tuple[str, ...] | None:
    """The values whose elements an operator's result consists of, but for a number added to all; None if it makes others."""
    name, first = operators.packet(node.op), node.args[0] if node.args else None
    if name in (*_PICKS, "masked_fill") and isinstance(first, Ref):
        return (first.ref,)
    read = tuple(dict.fromkeys(refs_in(node.args[1:]) if name == "where" else node.refs()))
    kept = operators.kind(node.op) in _CARRIES or name in ("_to_copy", "clamp", "clamp_min", "where")
    return read if (kept or _added(node)) and (len(read) == 1 or name in _JOINS) else None


def _added(node: Node) -> int:
    """The positive integer that an operator adds to each element; 0 if it does otherwise."""
    if operators.packet(node.op) != "add" or node.kwargs or type(node.args[1]) is not int:
        return 0
    return max(node.args[1], 0)


def _least(one: Dim, other: Dim) -> Dim:
    """The smaller of two sizes."""
    if isinstance(one, int) and isinstance(other, int):
        return min(one, other)
    return (
        one if one == other or str(other) in _parts(one) else f"min({', '.join([*_parts(one), str(other)])})"
    )


def _parts(size: Dim) -> list[str]:
    """The sizes that `_least` took the minimum of."""
    text = str(size)
    if text.startswith("min(") and text.endswith(")") and text.count("(") == 1:
        return text[4:-1].split(", ")
    return [text]


def _draw(argument: Argument, type: TensorType, value: Any, bound: Dim | None) -> Draw:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
    fixed = (
        isinstance(value, torch.Tensor)
        and value.numel() <= INLINE
        and all(isinstance(n, int) for n in type.shape)
    )
    kept = value.numel() == 1 or type.dtype not in FLOATS if fixed else False
    statistic = argument.mutated and type.dtype in FLOATS
    if kept and argument.role in ("buffer", "constant") and not statistic:
        return _table(value)
    if bound is not None:
        missing = isinstance(value, torch.Tensor) and value.numel() > 0 and int(value.min()) == -1
        return Draw(f"torch.randint({-int(missing)}, {{bound}}, {{listed}}{{dtype}})", bound)
    if not isinstance(value, torch.Tensor):
        return _default(argument, type)
    if type.dtype == "bool":
        return _mask(value)
    if type.dtype not in FLOATS:
        return _integers(value, type)
    return _floats(value, argument)


def _default(argument: Argument, type: TensorType) -> Draw:
    if type.dtype == "bool":
        return Draw("torch.rand({shape}) < 0.8")
    if type.dtype not in FLOATS:
        return Draw("torch.randint(0, 4, {listed}{dtype})")
    last = type.shape[-1] if type.shape else 1
    if argument.role == "weight":
        return _normal(0.0, 1.0 / math.sqrt(last) if isinstance(last, int) and len(type.shape) > 1 else 0.1)
    return _normal(0.0, 1.0)


def _plain(value: torch.Tensor) -> Draw:
    """The values themselves if they are few."""
    if value.numel() <= INLINE:
        return _table(value)
    return (
        _integers(value, TensorType(dtype="int64", shape=())) if value.dtype != torch.bool else _mask(value)
    )


def _table(value: torch.Tensor) -> Draw:
    return Draw(f"torch.tensor({_list(value)}, dtype={{name}})")


def _list(value: torch.Tensor) -> str:
    return str(value.tolist()).replace("inf", "float('inf')").replace("nan", "float('nan')")


def _mask(value: torch.Tensor) -> Draw:
    if half := _triangle(value):
        return Draw(f"torch.ones({{shape}}, dtype=torch.bool).{half}")
    share = float(value.double().mean()) if value.numel() else 1.0
    return Draw(f"torch.rand({{shape}}) < {min(max(round(share, 2), 0.5), 0.9)}")


def _integers(value: torch.Tensor, type: TensorType) -> Draw:
    low, high = (int(value.min()), int(value.max())) if value.numel() else (0, 1)
    if low == -100 and bool(((value >= 0) | (value == low)).all()):  # labels, where torch ignores -100
        low, high = 0, max(high, 1)
    if low == high:
        return Draw(f"torch.full({{listed}}, {low}{{dtype}})")
    return Draw(f"torch.randint({low}, {high + 1}, {{listed}}{{dtype}})")


def _floats(value: torch.Tensor, argument: Argument) -> Draw:
    wide = value.double()
    finite = wide if bool(wide.isfinite().all()) else wide[wide.isfinite()]
    if not finite.numel():
        return _normal(0.0, 1.0)
    if float(wide.min()) <= _LOWEST:
        kept = wide[wide > _LOWEST]
        if kept.numel() and float(kept.abs().max()) == 0.0:
            return _additive_mask(wide)
    low, high = float(finite.min()), float(finite.max())
    if wide.ndim and wide.shape[-1] > 1 and wide.numel() > 2:
        if low >= 0 and float((wide.sum(-1) - 1).abs().max()) < 1e-2:
            return Draw("torch.randn({shape}{dtype}).softmax(-1)")
        if high <= 0 and float((wide.exp().sum(-1) - 1).abs().max()) < 1e-2:
            return Draw("torch.randn({shape}{dtype}).log_softmax(-1)")
    if low == high:
        return _constant(low, argument)
    if (low, high) == (0.0, 1.0) and bool(((finite == 0.0) | (finite == 1.0)).all()):
        if half := _triangle(wide):
            return Draw(f"torch.ones({{shape}}{{dtype}}).{half}")
        return Draw(f"(torch.rand({{shape}}) < {round(float(finite.mean()), 2)}).to({{name}})")
    if low >= 0 and finite.numel() > 4:
        return _between(low, high)
    return _normal(float(finite.mean()), float(finite.std()) if finite.numel() > 1 else abs(low))


def _constant(value: float, argument: Argument) -> Draw:
    """For an argument whose values are all equal: zeros of inputs become any numbers, a variance of ones stays positive."""
    if argument.role == "buffer":
        return _between(0.5 * value, 1.5 * value) if value else _normal(0.0, 0.1)
    if argument.role == "input":
        return _normal(0.0, 1.0) if value == 0 else _between(*sorted((0.5 * value, 1.5 * value)))
    return _normal(value, 0.1 * (abs(value) or 1.0))


def _additive_mask(value: torch.Tensor) -> Draw:
    low = float(value.min())
    never = f"float('{low}')" if math.isinf(low) else _number(low)
    if _triangle(value == 0) == "tril()":
        return Draw(f"torch.full({{listed}}, {never}{{dtype}}).triu(1)")
    share = min(max(round(float((value == 0).double().mean()), 2), 0.5), 0.9)
    return Draw(f"torch.where(torch.rand({{shape}}) < {share}, 0.0, {never}).to({{name}})")


def _triangle(value: torch.Tensor) -> str:
    """Which half of ones makes the value; "" if none does. Random numbers in its place would leave rows without any."""
    if value.ndim < 2 or value.shape[-1] < 2 or value.shape[-2] < 2:
        return ""
    ones = torch.ones_like(value)
    return (
        "tril()"
        if bool((value == ones.tril()).all())
        else "triu(1)"
        if bool((value == ones.triu(1)).all())
        else ""
    )


def _normal(mean: float, scale: float) -> Draw:
    """Normal, with scale rounded to 1 and mean to 0 if they are near."""
    if 0.5 < scale < 2.0:
        scale = 1.0
    mean = mean if abs(mean) > 0.5 * scale else 0.0
    times = "" if scale == 1.0 else f"{_number(scale)} * "
    plus = "" if mean == 0 else f" + {_number(mean)}"
    return Draw(f"{times}torch.randn({{shape}}{{dtype}}){plus}")


def _between(low: float, high: float) -> Draw:
    if high - low < 1e-30:
        low, high = (0.0, 0.1) if low == 0 else tuple(sorted((0.9 * low, 1.1 * low)))
    if low >= 0 and 0.9 < high <= 1 and high - low > 0.9:  # shares and probabilities, which never exceed 1
        return Draw("0.998 * torch.rand({shape}{dtype}) + 0.001")
    width = "" if math.isclose(high - low, 1.0, rel_tol=0.05) else f"{_number(high - low)} * "
    plus = "" if abs(low) < 1e-3 * (high - low) else f" + {_number(low)}"
    if not plus:
        plus = f" + {_number(1e-3 * (high - low))}"
    return Draw(f"{width}torch.rand({{shape}}{{dtype}}){plus}")


def _number(value: float) -> str:
    return repr(float(f"{value:.3g}"))


POSITIVE = _between(0.5, 1.5)
"""For arguments that must be positive, as far as their use shows: variances, counts, step sizes."""
