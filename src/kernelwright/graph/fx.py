"""From `Graph` to torch.fx, for Inductor and other readers of fx graphs. The inverse is `normalise.from_fx`.

    module = to_fx(graph)                      sizes that vary are read from the arguments
    module = to_fx(graph, {"s0": 128})         sizes as numbers
    module(*values)                            in the order of `graph.arguments`; returns a tuple

Placeholders and computed values keep the graph's names, so that names in a compiler's messages can be looked up in the
graph. Does not fill in `meta["val"]`: pass the module through make_fx or AOTAutograd.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from kernelwright.errors import UserError
from kernelwright.graph import operators, sizes
from kernelwright.graph.execute import DTYPES, OTHERS
from kernelwright.graph.types import DtypeArg, Graph, Operand, Other, Ref, Scale, Size

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {**sizes.BINARY, ast.Div: operator.truediv}


def to_fx(
    graph: Graph, symbols: Mapping[str, int] | None = None, device: torch.device | str = "cpu"
) -> fx.GraphModule:
    """An fx module of the graph's ATen calls; tensors created in the graph are on `device`."""
    if symbols is not None:
        graph = sizes.static(graph, symbols)
    return _Writer(graph, torch.device(device)).run()


class _Writer:
    def __init__(self, graph: Graph, device: torch.device) -> None:
        self.graph, self.device = graph, device
        self.fx = fx.Graph()
        self.made: dict[str, fx.Node] = {}
        self.sizes: dict[str, Any] = {}

    def run(self) -> fx.GraphModule:
        for argument in self.graph.arguments:
            self.made[argument.name] = self.fx.placeholder(argument.name)
        self._symbols()
        for node in self.graph.nodes:
            args = tuple(self._operand(one) for one in node.args)
            kwargs = {name: self._operand(value) for name, value in node.kwargs}
            called = operators.resolve(node.op)
            if any(one.name == "device" and not one.has_default_value() for one in called._schema.arguments):
                kwargs.setdefault("device", self.device)
            call = self.fx.call_function(called, args, kwargs)
            if len(node.outputs) == 1 and node.outputs[0] is not None and not operators.lists(node.op):
                self.made[node.outputs[0].name] = self._named(call, node.outputs[0].name)
                continue
            for index, value in enumerate(node.outputs):
                if value is not None:
                    item = self.fx.call_function(operator.getitem, (call, index))
                    self.made[value.name] = self._named(item, value.name)
        self.fx.output(tuple(self.made[name] for name in self.graph.results))
        self.fx.lint()
        return fx.GraphModule({}, self.fx, self.graph.name if self.graph.name.isidentifier() else "graph")

    def _named(self, node: fx.Node, name: str) -> fx.Node:
        node.name = self.fx._graph_namespace.create_name(name, node)
        return node

    def _symbols(self) -> None:
        """Read each symbol from a number argument of its name, or from a dimension of a tensor."""
        self.sizes.update(
            (one.name, self.made[one.name]) for one in self.graph.symbols if one.name in self.made
        )
        for symbol, name, at, formula in sizes.readings(self.graph):
            size = self.fx.call_function(torch.ops.aten.sym_size.int, (self.made[name], at))
            self.sizes[symbol] = self._expression(sizes.parse(formula), {**self.sizes, "size_": size})

    def _operand(self, value: Operand) -> Any:
        if isinstance(value, Ref):
            return self.made[value.ref]
        if isinstance(value, Size):
            return self._size(value.size)
        if isinstance(value, Scale):
            return self._expression(ast.parse(value.scale, mode="eval").body)
        if isinstance(value, DtypeArg):
            return DTYPES[value.dtype]
        if isinstance(value, Other):
            return self.device if value.other == "device" else OTHERS[value.other]
        if isinstance(value, tuple):
            return [self._operand(one) for one in value]
        return value

    def _size(self, text: str) -> Any:
        if text not in self.sizes:
            self.sizes[text] = self._expression(sizes.parse(text))
        return self.sizes[text]

    def _expression(self, node: ast.expr, known: Mapping[str, Any] | None = None) -> Any:
        """`known` maps names to values, by default symbols. Raises UserError for a symbol that no argument determines."""
        known = self.sizes if known is None else known
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in known:
                raise UserError(f"{self.graph.name}: no argument tells the size {node.id}; give `symbols`")
            return known[node.id]
        if isinstance(node, ast.UnaryOp):
            return self.fx.call_function(operator.neg, (self._expression(node.operand, known),))
        if isinstance(node, ast.BinOp):
            both = (self._expression(node.left, known), self._expression(node.right, known))
            return self.fx.call_function(_BINARY[type(node.op)], both)
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        function = {"min": torch.sym_min, "max": torch.sym_max}[node.func.id]
        return self.fx.call_function(function, tuple(self._expression(one, known) for one in node.args))
