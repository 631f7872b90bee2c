"""A module's forward pass in exact arithmetic.

We trace it to functional ATen operators once, with a case's numbers, and run these on residues in place of its
floating-point inputs and weights. What depends on integers alone is computed as usual.

If a module branches on data in Python, the trace has only the branches of this case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.func import functional_call, functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from kernelwright.verify.exact import field
from kernelwright.verify.exact.operators import Unknown, call
from kernelwright.verify.exact.order import Calculator
from kernelwright.verify.exact.values import NotExact

_RAISES = frozenset([
    "exp", "exp2", "expm1", "sigmoid", "tanh", "silu", "_softmax", "_log_softmax", "softplus", "elu",
    "mish", "gelu", "sinh", "cosh", "pow", "logsumexp", "log_sigmoid_forward",
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
])  # fmt: skip
"""Operators whose result has one level less."""
_RESTORES = frozenset([
    "log", "log1p", "log2", "log10", "erf", "sin", "cos", "amax", "max", "amin", "min",
    "max_pool2d_with_indices",
])  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Traced:
    """A forward pass as operators. Its inputs are flat: the module's, then its state in the order of `names`."""

    graph: torch.fx.GraphModule
    names: tuple[str, ...]
    """Parameters and buffers, in the order of `state_dict`."""
    levels: int
    """Levels of the tower needed: the deepest nesting of exponentials plus one, as far as there are levels."""


def trace_exactly(module: torch.nn.Module, inputs: Sequence[object]) -> Traced:
    """Trace a module. Raises NotExact if it cannot be traced."""
    state = {name: value.detach() for name, value in module.state_dict(keep_vars=True).items()}
    names = tuple(state)
    leaves, spec = pytree.tree_flatten(tuple(inputs))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def forward(*tensors: torch.Tensor) -> object:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=False):
            filled[place] = tensor
        given = dict(zip(names, tensors[len(places) :], strict=True))
        args = pytree.tree_unflatten(filled, spec)
        return pytree.tree_leaves(functional_call(module, given, args, strict=False))

    from torch._decomp import core_aten_decompositions

    table = {op: rule for op, rule in core_aten_decompositions().items() if _name(op) not in _KEPT}
    tensors = [leaves[place].detach().clone() for place in places] + [
        value.clone() for value in state.values()
    ]
    try:
        with torch.no_grad():
            graph = make_fx(functionalize(forward), decomposition_table=table)(*tensors)
    except Exception as error:  # a module may raise anything while it is traced
        raise NotExact(f"the reference is not traced: {type(error).__name__}") from error
    return Traced(graph, names, min(field.LEVELS, 1 + _depth(graph)))


_KEPT = frozenset([
    "softplus", "mish", "silu", "hardtanh", "logsumexp", "std", "var_mean", "native_layer_norm",
    "log_sigmoid_forward", "_softmax", "_log_softmax", "rms_norm", "_fused_rms_norm",
    "adaptive_avg_pool1d",
])  # fmt: skip
"""Operators not to decompose, since `operators.py` has a better form of them."""


def _name(op: object) -> str:
    return str(op).split(".")[1] if "." in str(op) else str(op)


def _depth(graph: torch.fx.GraphModule) -> int:
    found: dict[object, int] = {}
    for node in graph.graph.nodes:
        below = max((found.get(one, 0) for one in node.all_input_nodes), default=0)
        if node.op == "call_function":
            name = _name(node.target)
            below = below + 1 if name in _RAISES else 0 if name in _RESTORES else below
        found[node] = below
    return max(found.values(), default=0)


def run(
    traced: Traced, calculator: Calculator, inputs: Sequence[object], state: Mapping[str, object]
) -> list[Any]:
    """The flat outputs, as `Exact` or tensors of known numbers. Raises NotExact."""
    values: dict[object, Any] = {}
    given = iter([*inputs, *(state[name] for name in traced.names)])

    def filled(tree: object) -> Any:
        if isinstance(tree, torch.fx.Node):
            return values[tree]
        if isinstance(tree, list | tuple):
            if type(tree) in (list, tuple):
                return type(tree)(filled(item) for item in tree)
            return [filled(x) for x in tree]
        return {key: filled(item) for key, item in tree.items()} if isinstance(tree, dict) else tree

    last = {one: node for node in traced.graph.graph.nodes for one in node.all_input_nodes}
    for node in traced.graph.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "get_attr":
            values[node] = getattr(traced.graph, node.target)
        elif node.op == "output":
            found = filled(node.args[0])
            outputs = list(found) if isinstance(found, list | tuple) else [found]
            if any(isinstance(one, Unknown) for one in outputs):
                raise NotExact("places of maxima")
            return outputs
        elif "getitem" in str(node.target):
            several = filled(node.args[0])
            values[node] = several if isinstance(several, Unknown) else several[node.args[1]]
        elif _name(node.target) == "copy_":
            values[node] = filled(node.args[1])
        else:
            values[node] = call(calculator, node.target, filled(node.args), dict(filled(node.kwargs)))
        for one in node.all_input_nodes:
            if last[one] is node and one.op != "placeholder":
                values.pop(one, None)
    return []
