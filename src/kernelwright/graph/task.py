"""A graph as a `Task` in function form: source in the form of KernelBench, printed from the graph.

    S0 = 2                                     a size that varies; shape sets give it other values
    class Model(nn.Module):
        def forward(self, x1, w1, b1):         weights, buffers and constants are arguments, too
            h1 = torch.ops.aten.linear.default(x1, w1, b1)
            return h1
    def get_inputs():                          draws every argument, weights at their captured scale
        return [torch.randn(S0, 64), 0.1 * torch.randn(32, 64), 0.02 * torch.randn(32)]

`Task.graph` holds the graph's JSON, which the judge can run without any user code. Draws are tried at the smallest shape
set: if results are not finite, draws stay closer to the captured values.

Does not guarantee that a task is hard: a graph of views alone makes a task, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from kernelwright.drawing import DRAWING
from kernelwright.errors import UserError
from kernelwright.graph import draws, operators, sizes
from kernelwright.graph.draws import Draw
from kernelwright.graph.execute import execute
from kernelwright.graph.types import (
    Argument,
    Dim,
    DtypeArg,
    Graph,
    Node,
    NumberType,
    Operand,
    Other,
    Ref,
    Scale,
    Size,
    Symbol,
    TensorType,
)  # fmt: skip
from kernelwright.precision import FLOATS
from kernelwright.records import Task

_HEAD = "import torch\nimport torch.nn as nn\n"
_TRIES = 3
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23)
"""Further sizes at which strides are tried."""


def to_task(
    graph: Graph,
    id: str,
    *,
    suite: str = "graph",
    values: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Mapping[str, int]] | None = None,
    described: Mapping[str, Draw] | None = None,
    family: str = "",
    free: Collection[str] = (),
) -> Task:
    """The task of a graph. `values` are those of the capture, by argument; `shapes` are sets of its symbols' values.

    `free`: symbols whose whole range kernels must serve; the others only serve to try other sizes. Symbols are printed in
    capitals, also in `Task.shapes`. Raises UserError if no draw gives finite numbers, and for a graph without tensor
    arguments.
    """
    if not any(isinstance(one.type, TensorType) for one in graph.arguments):
        raise UserError(f"{graph.name} has no tensor among its arguments; a task needs one")
    shapes = dict(shapes or {})
    described = dict(described or draws.describe(graph, values))
    smallest = min(shapes.values(), key=lambda one: sum(one.values()), default={})
    described = finite_draws(graph, described, values or {}, smallest)
    upper = {name: {key.upper(): size for key, size in one.items()} for name, one in shapes.items()}
    return Task(
        id=id,
        suite=suite,
        source=source(graph, described, values or {}),
        dtype=main_dtype(graph),
        shapes=upper,
        ranges={one.name.upper(): (one.least, one.most) for one in graph.symbols if one.name in free},
        family=family,
        difficulty=max(1, len(graph.nodes)),
        graph=graph.model_dump_json(),
    )


def source(graph: Graph, described: Mapping[str, Draw], values: Mapping[str, Any] | None = None) -> str:
    """The source of the task."""
    constants = "".join(f"{one.name.upper()} = {one.hint}\n" for one in graph.symbols)
    names = ", ".join(one.name for one in graph.arguments)
    body = "".join(f"        {line}\n" for line in forward_lines(graph))
    drawn = "".join(
        f"        {_draw(one, described, values or {}, graph.symbols)},\n" for one in graph.arguments
    )
    return (
        f"{_HEAD}\n{constants}{chr(10) if constants else ''}\n"
        f"class Model(nn.Module):\n    def forward(self, {names}):\n{body}\n\n"
        f"def get_inputs():\n    return [\n{drawn}    ]\n\n\ndef get_init_inputs():\n    return []\n"
    )


def forward_lines(graph: Graph) -> list[str]:
    """The graph's calls of torch.ops, one per line, and its return; sizes are in capitals."""
    first = next((one.name for one in graph.arguments if isinstance(one.type, TensorType)), "")
    lines = [_call(node, first) for node in graph.nodes]
    results = ", ".join(graph.results)
    return [*lines, f"return {results}" if len(graph.results) != 1 else f"return {graph.results[0]}"]


def finite_draws(
    graph: Graph, described: Mapping[str, Draw], values: Mapping[str, Any], symbols: Mapping[str, int]
) -> dict[str, Draw]:
    """Draws for which the graph gives finite numbers at those sizes: as described, else with sorted integers where the captured ones
    are sorted, else closer to the captured values, and positive where there are none."""
    try:
        finite = _finite(graph, described, values, symbols)
    except UserError:  # an operator rejects arbitrary integers
        ordered = draws.in_order(values)
        if not ordered:
            raise
        described = {**described, **ordered}
        finite = _finite(graph, described, values, symbols)
    if finite:
        return dict(described)
    floats = [one for one in graph.arguments if isinstance(one.type, TensorType) and one.type.dtype in FLOATS]
    near = {
        one.name: draws.like(values[one.name])
        for one in floats
        if isinstance(values.get(one.name), torch.Tensor)
    }
    inputs = {name: draw for name, draw in near.items() if graph.argument(name).role == "input"}
    positive = {one.name: draws.POSITIVE for one in floats if values.get(one.name) is None}
    for attempt in (inputs, near, positive, near | positive):
        chosen = {**described, **attempt}
        if attempt and _finite(graph, chosen, values, symbols):
            return chosen
    raise UserError(
        f"{graph.name} gives NaN or infinity for random inputs; give an example with the values that it needs"
    )


def drawn_values(
    graph: Graph,
    described: Mapping[str, Draw],
    numbers: Mapping[str, Any],
    symbols: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """A value for each argument of a graph, from torch's generator; symbols that are not given take their hints."""
    symbols = {**{one.name: one.hint for one in graph.symbols}, **(symbols or {})}
    graph = sizes.static(graph, symbols)
    found: dict[str, Any] = {}
    for one in graph.arguments:
        if isinstance(one.type, TensorType):
            found[one.name] = _place(described[one.name].draw(one.type, symbols=symbols), one.type)
        else:
            found[one.name] = numbers.get(one.name, symbols.get(one.name, 1))
    return found


def main_dtype(graph: Graph) -> str:
    """The most frequent dtype of floating-point arguments; float32 if there are none."""
    counts: dict[str, int] = {}
    for one in graph.arguments:
        if isinstance(one.type, TensorType) and one.type.dtype in FLOATS:
            counts[one.type.dtype] = counts.get(one.type.dtype, 0) + 1
    return max(counts, key=lambda name: counts[name], default="float32")


def _finite(
    graph: Graph, described: Mapping[str, Draw], values: Mapping[str, Any], symbols: Mapping[str, int]
) -> bool:
    """Whether a few draws give only finite numbers or minus infinity."""
    static = sizes.static(graph, symbols)
    for seed in range(_TRIES):
        with DRAWING, torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            results = execute(static, drawn_values(graph, described, values, symbols))
        floats = [one for one in results if isinstance(one, torch.Tensor) and one.is_floating_point()]
        if not all(bool((one.isfinite() | one.isneginf()).all()) for one in floats):
            return False
    return True


def _place(value: torch.Tensor, type: TensorType) -> torch.Tensor:
    """The value with the type's strides."""
    if type.strides is None or any(isinstance(one, str) for one in type.strides):
        return value
    shape = tuple(int(one) for one in type.shape)
    strides = tuple(int(one) for one in type.strides)
    if 0 in strides:
        return value
    return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device).copy_(value)


def _draw(
    argument: Argument, described: Mapping[str, Draw], values: Mapping[str, Any], symbols: Sequence[Symbol]
) -> str:
    """The line of `get_inputs` for an argument; permuted dimensions are drawn in memory order and permuted back."""
    if isinstance(argument.type, NumberType):
        value = values.get(argument.name)
        return repr(value) if isinstance(value, bool | int | float) else argument.name.upper()
    order = order_of(argument.type, symbols)
    if order is None:
        return described[argument.name].written(argument.type, capital)
    stored = argument.type.model_copy(update={"shape": tuple(argument.type.shape[at] for at in order)})
    back = ", ".join(str(order.index(at)) for at in range(len(order)))
    return f"({described[argument.name].written(stored, capital)}).permute({back})"


def order_of(type: TensorType, symbols: Sequence[Symbol] = ()) -> list[int] | None:
    """Dimensions from the slowest to the fastest, if a permuted contiguous tensor has the type's strides at any sizes
    (channels last, a transposed matrix); None for all other strides and for contiguous ones."""
    if type.strides is None:
        return None
    hints = {one.name: one.hint for one in symbols}
    others = {one.name: prime for one, prime in zip(symbols, _PRIMES * len(symbols), strict=False)}
    order = sizes.slow_to_fast([sizes.evaluate(size, hints) for size in type.strides])
    for known in (hints, others):
        shape, strides = (
            [sizes.evaluate(size, known) for size in part] for part in (type.shape, type.strides)
        )
        if not sizes.is_packed(shape, strides, order, ones=True):
            return None
    return order if order != list(range(len(order))) else None


def densify(graph: Graph) -> Graph:
    """Make arguments contiguous that are slices or expanded tensors; kernels get copies of them, since no judge draws such
    strides."""

    def plain(one: Argument) -> Argument:
        kept = not isinstance(one.type, TensorType) or order_of(one.type, graph.symbols) is not None
        return one if kept else one.model_copy(update={"type": one.type.model_copy(update={"strides": None})})

    return graph.model_copy(update={"arguments": tuple(map(plain, graph.arguments))})


def lay_out(value: torch.Tensor, order: Sequence[int] | None) -> torch.Tensor:
    """The tensor itself if its memory is in `order` without gaps; else a copy laid out so."""
    if order is None:
        return value.contiguous()
    back = [order.index(at) for at in range(len(order))]
    return value.permute(*order).contiguous().permute(back)


def capital(size: Dim) -> str:
    """A size as Python in the task's source, where symbols are constants."""
    return str(size).upper().replace("MIN(", "min(").replace("MAX(", "max(")


def _call(node: Node, first: str) -> str:
    given = [_operand(one, first) for one in node.args]
    given += [f"{name}={_operand(value, first)}" for name, value in node.kwargs]
    call = f"torch.ops.{node.op}({', '.join(given)})"
    names = ["_" if one is None else one.name for one in node.outputs]
    if len(names) == 1 and not operators.lists(node.op):
        return f"{names[0]} = {call}"
    return f"{', '.join(names)}{',' if len(names) == 1 else ''} = {call}"


def _operand(value: Operand, first: str) -> str:
    if isinstance(value, Ref):
        return value.ref
    if isinstance(value, Size):
        return capital(value.size)
    if isinstance(value, Scale):
        return value.scale.upper()
    if isinstance(value, DtypeArg):
        return f"torch.{value.dtype}"
    if isinstance(value, Other):
        if value.other == "device":
            return f"{first}.device"
        return value.other if value.other.startswith("torch.") else f"float('{value.other}')"
    if isinstance(value, tuple):
        return "[" + ", ".join(_operand(one, first) for one in value) + "]"
    return repr(value)
