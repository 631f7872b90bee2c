"""Runs a graph by ATen calls alone, in its own dtypes or in fp64, on any device.

    execute(graph, {"x1": x, "w1": w})              in the graph's dtypes
    execute(graph, values, fp64=True)               every float is float64

In fp64, casts to narrower floats do not round, casts to integers and booleans are exact, and floats computed from integers
(a quotient, a mean) are computed in float64. No user code runs: a graph is data, and its operators are torch's.

Does not guarantee that a result is a new tensor: it may be a view of an argument, or the argument itself.
Refuses operators that draw random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kernelwright.errors import UserError
from kernelwright.graph import narrow, operators, sizes
from kernelwright.graph.types import (
    DtypeArg,
    Graph,
    Node,
    NumberType,
    Operand,
    Other,
    Ref,
    Scale,
    Size,
    TensorType,
)
from kernelwright.precision import FLOATS

DTYPES: dict[str, torch.dtype] = {
    "float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
    "int64": torch.int64, "int32": torch.int32, "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8,
    "bool": torch.bool,
}  # fmt: skip
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}

OTHERS: dict[str, Any] = {
    "torch.strided": torch.strided, "torch.contiguous_format": torch.contiguous_format,
    "torch.preserve_format": torch.preserve_format, "torch.channels_last": torch.channels_last,
    "torch.channels_last_3d": torch.channels_last_3d, "inf": math.inf, "-inf": -math.inf, "nan": math.nan,
}  # fmt: skip

Values = Mapping[str, Any] | Sequence[Any]


def execute(graph: Graph, values: Values, *, fp64: bool = False) -> tuple[Any, ...]:
    """The graph's results: tensors, in the order of `graph.results`.

    `values` are the arguments' values by name, or all in order; new tensors are made on the first tensor's device.
    Raises UserError for values that do not fit, for random operators, and if torch has no kernel for an operator.
    """
    with narrow.computed(values):
        return Runner(graph, fp64=fp64)(values)


class Runner:
    """A graph prepared to run many times: operators are looked up once, values are freed after their last use."""

    def __init__(self, graph: Graph, *, fp64: bool = False) -> None:
        self.graph, self.fp64 = graph, fp64
        types = graph.types()
        self._steps = [_Step(node, types, fp64) for node in graph.nodes]
        self._dead = _last_uses(graph)

    def __call__(self, values: Values) -> tuple[Any, ...]:
        made = self._given(values)
        tensors = (one for one in made.values() if isinstance(one, torch.Tensor))
        place = next((one.device for one in tensors), torch.device("cpu"))
        symbols = self._symbols(made)
        for step, dead in zip(self._steps, self._dead, strict=True):
            step(made, symbols, place)
            for name in dead:
                del made[name]
        return tuple(made[name] for name in self.graph.results)

    def _given(self, values: Values) -> dict[str, Any]:
        arguments = self.graph.arguments
        if not isinstance(values, Mapping):
            if len(values) != len(arguments):
                raise UserError(f"{self.graph.name} takes {len(arguments)} arguments, not {len(values)}")
            values = {one.name: value for one, value in zip(arguments, values, strict=True)}
        made = {}
        for one in arguments:
            if one.name not in values:
                raise UserError(f"{self.graph.name} needs a value for {one.name}; give one for each argument")
            value = values[one.name]
            if isinstance(one.type, TensorType) and not isinstance(value, torch.Tensor):
                raise UserError(f"{one.name} is a tensor, not {type(value).__name__}")
            if self.fp64 and isinstance(value, torch.Tensor) and value.is_floating_point():
                value = value.to(torch.float64)
            made[one.name] = value
        return made

    def _symbols(self, made: Mapping[str, Any]) -> dict[str, int]:
        if not self.graph.symbols:
            return {}
        shapes = {name: tuple(v.shape) for name, v in made.items() if isinstance(v, torch.Tensor)}
        numbers = {name: int(v) for name, v in made.items() if isinstance(v, int)}
        try:
            return sizes.bind(self.graph, shapes, numbers)
        except ValueError as error:
            raise UserError(f"{self.graph.name}: {error}") from None


class _Step:
    """One node, ready to be called."""

    def __init__(self, node: Node, types: Mapping[str, TensorType | NumberType], fp64: bool) -> None:
        if operators.kind(node.op) == "random":
            raise UserError(f"{node.op} draws random numbers; call eval(), or set its probability to 0")
        try:
            self._function: Callable[..., Any] = operators.resolve(node.op)
        except AttributeError:
            raise UserError(
                f"torch {torch.__version__} has no operator {node.op}; capture the module again"
            ) from None
        self.node, self.fp64 = node, fp64
        if fp64 and node.op == "aten.view.dtype":
            raise UserError(
                "aten.view.dtype reads the bits of a number, which fp64 does not have; no fp64 run"
            )
        self._args = node.args
        if node.op in ("aten._softmax.default", "aten._log_softmax.default") and node.args[2] is True:
            self._args = (*node.args[:2], False)
            self._upcast = None if fp64 else torch.float32
        else:
            self._upcast = torch.float64 if fp64 and _integers_to_float(node, types) else None

    def __call__(self, made: dict[str, Any], symbols: Mapping[str, int], device: torch.device) -> None:
        args = tuple(self._operand(one, made, symbols, device) for one in self._args)
        kwargs = {name: self._operand(value, made, symbols, device) for name, value in self.node.kwargs}
        try:
            out = self._function(*args, **kwargs)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(f"{self.node.op} on {device.type}: {first[:200]}") from error
        outputs = self.node.outputs
        several = isinstance(out, tuple | list)
        for value, result in zip(outputs, out if several else (out,), strict=False):
            if value is not None:
                made[value.name] = result

    def _operand(
        self, value: Operand, made: Mapping[str, Any], symbols: Mapping[str, int], device: torch.device
    ) -> Any:
        if isinstance(value, Ref):
            tensor = made[value.ref]
            upcast = self._upcast is not None and isinstance(tensor, torch.Tensor)
            return tensor.to(self._upcast) if upcast else tensor
        if isinstance(value, Size):
            return sizes.evaluate(value.size, symbols)
        if isinstance(value, Scale):
            return sizes.scale(value.scale, symbols)
        if isinstance(value, DtypeArg):
            return torch.float64 if self.fp64 and value.dtype in FLOATS else DTYPES[value.dtype]
        if isinstance(value, Other):
            return device if value.other == "device" else OTHERS[value.other]
        if isinstance(value, tuple):
            return [self._operand(one, made, symbols, device) for one in value]
        return value


def _integers_to_float(node: Node, types: Mapping[str, TensorType | NumberType]) -> bool:
    """Whether an operator makes floats from integer tensors alone, which torch does in its default dtype."""
    given = [types[name] for name in node.refs()]
    dtypes = [one.dtype for one in given if isinstance(one, TensorType)]
    results = [one.type.dtype for one in node.outputs if one is not None and isinstance(one.type, TensorType)]
    makes = (
        bool(dtypes) and not any(one in FLOATS for one in dtypes) and any(one in FLOATS for one in results)
    )
    return (
        makes and operators.kind(node.op) in ("map", "reduction", "norm", "scan") and "where" not in node.op
    )


def _last_uses(graph: Graph) -> list[list[str]]:
    """Per node, the values that no later node reads."""
    kept, dead = set(graph.results), []
    for node in reversed(graph.nodes):
        names = {*node.refs(), *(value.name for value in node.outputs if value is not None)}
        dead.append(sorted(names - kept))
        kept |= names
    return dead[::-1]
