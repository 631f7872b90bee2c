"""Wraps a verified kernel as an operator of torch.library, which Dynamo, AOTAutograd and Inductor can handle.

On a GPU the operator launches the kernel; elsewhere it runs the graph with ATen. If the host function can be traced, Inductor
writes the launches into its own wrapper (`inline.py`); otherwise it calls the operator.

Code is executed in this process and not judged here: pass only code that a judge accepted.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kernelwright import extensions
from kernelwright.compile_backend.inline import NotTraceable, lower_inline
from kernelwright.graph import Graph, sizes
from kernelwright.graph.execute import DTYPES, Runner
from kernelwright.graph.types import NumberType, TensorType
from kernelwright.records import Verdict

logger = logging.getLogger(__name__)
NAMESPACE = "kernelwright"
ENTRY = "kernel"
"""The function that a candidate in function form defines."""

_KNOWN: dict[str, torch._ops.OpOverload] = {}
_LOCK = threading.Lock()
_NUMBERS = {"int": "SymInt", "float": "float", "bool": "bool"}


def operator_for(graph: Graph, code: str, verdict: Verdict | None = None) -> torch._ops.OpOverload:
    """The operator of a group and its kernel; cached by both. At sizes outside its `verdict`, ATen runs instead. Raises what
    executing `code` raises."""
    name = "g_" + hashlib.sha256(f"{graph.digest}\0{code}".encode()).hexdigest()[:16]
    with _LOCK:
        if name not in _KNOWN:
            _KNOWN[name] = _register(name, graph, load(code, name), verdict)
        return _KNOWN[name]


def load(code: str, name: str) -> Callable[..., Any]:
    """The `kernel` of a candidate in function form. Raises KeyError if there is none."""
    function: Callable[..., Any] = vars(extensions.module_of(code, f"{NAMESPACE}.{name}"))[ENTRY]
    return function


def schema_of(graph: Graph) -> str:
    """`(Tensor x, SymInt n) -> (Tensor, Tensor)`."""
    arguments = ", ".join(
        f"{'Tensor' if isinstance(one.type, TensorType) else _NUMBERS[one.type.of]} {one.name}"
        for one in graph.arguments
    )
    results = ", ".join("Tensor" for _ in graph.results)
    return f"({arguments}) -> {results if len(graph.results) == 1 else f'({results})'}"


def _register(
    name: str, graph: Graph, kernel: Callable[..., Any], verdict: Verdict | None
) -> torch._ops.OpOverload:
    types = graph.types()
    outputs = [types[result] for result in graph.results]
    if any(isinstance(one, NumberType) for one in outputs):
        raise ValueError("a group that returns numbers cannot be an operator")
    run = Runner(graph)
    ranged = bool(graph.symbols)

    def holds(values: Sequence[Any]) -> bool:
        return not ranged or verdict is None or _inside(verdict, graph, _symbols(graph, values))

    def launch(*values: Any) -> Any:
        return by_aten(*values) if not holds(values) else _flat(kernel(*_laid_out(graph, values)))

    def by_aten(*values: Any) -> Any:
        return _flat([_own_memory(made, values) for made in run(values)])

    def fake(*values: Any) -> Any:
        device = next(value.device for value in values if isinstance(value, torch.Tensor))
        return _flat([_empty(one, graph, values, device) for one in outputs])  # type: ignore[arg-type]

    torch.library.define(f"{NAMESPACE}::{name}", schema_of(graph), tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl(f"{NAMESPACE}::{name}", "CUDA", launch)
    torch.library.impl(f"{NAMESPACE}::{name}", "CPU", by_aten)
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake)
    overload: torch._ops.OpOverload = getattr(torch.ops.kernelwright, name).default
    try:
        lower_inline(overload, graph, kernel, holds)
    except NotTraceable as why:
        logger.info("kernelwright: %s is called through Python: %s", name, why)
    return overload


def _flat(made: Any) -> Any:
    if isinstance(made, torch.Tensor):
        return made
    return made[0] if len(made) == 1 else tuple(made)


def _laid_out(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """The arguments in the layout the kernel was verified with: contiguous, unless the graph gives strides."""
    made = []
    for argument, value in zip(graph.arguments, values, strict=True):
        plain = isinstance(argument.type, TensorType) and argument.type.strides is None
        made.append(value.contiguous() if plain else value)
    return made


def _own_memory(made: torch.Tensor, values: Sequence[Any]) -> torch.Tensor:
    """A contiguous result in its own memory, copied if it is an argument or a view of one: operators must not alias inputs."""
    shared = any(
        isinstance(value, torch.Tensor)
        and value.untyped_storage().data_ptr() == made.untyped_storage().data_ptr()
        for value in values
    )
    return made.clone(memory_format=torch.contiguous_format) if shared else made.contiguous()


def _empty(type_: TensorType, graph: Graph, values: Sequence[Any], device: torch.device) -> torch.Tensor:
    """An empty tensor for a result, at sizes computed from the arguments', which may be symbolic."""
    known = _symbols(graph, values)
    shape = [sizes.evaluate(size, known) for size in type_.shape]
    return torch.empty(shape, dtype=DTYPES[type_.dtype], device=device)


def _inside(verdict: Verdict, graph: Graph, known: Mapping[str, Any]) -> bool:
    """Whether every free size is in the range the kernel was judged for; a size that no tensor shows is not."""
    return all(verdict.holds_for(one.name, known.get(one.name, 0), one.hint) for one in graph.symbols)


def _symbols(graph: Graph, values: Sequence[Any]) -> dict[str, Any]:
    """Each symbol's value, from a number argument or solved from a tensor's size; may be symbolic."""
    given = {one.name: value for one, value in zip(graph.arguments, values, strict=True)}
    known = {one.name: given[one.name] for one in graph.symbols if one.name in given}
    for symbol, name, at, formula in sizes.readings(graph):
        known[symbol] = sizes.evaluate(formula, {**known, "size_": given[name].shape[at]})
    return known
