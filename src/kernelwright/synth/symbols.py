"""Gives a graph of plain integers symbols, so that the judge can run it at other sizes than the captured ones.

A dimension of an argument that operators leave free becomes a symbol, and so does everything that follows from it. For
graphs that were built by hand or drawn; a capture has symbols already. Sizes that are 1 stay.
"""

from __future__ import annotations

import re

from kernelwright.graph.types import Dim, Graph, Node, Operand, Ref, Symbol, TensorType, Value
from kernelwright.graph.types import Size as GraphSize
from kernelwright.synth.lowering import Lowered
from kernelwright.synth.shapes import Shapes
from kernelwright.synth.sizes import Size

_READ = re.compile(r"\w+\.shape\[\d+\]( // \d+)?")
"""How the host reads a size that may vary: a dimension of an argument, or one of its equal parts."""
_SHAPED = ("view", "reshape", "_unsafe_view", "expand", "broadcast_to")


def with_symbols(graph: Graph, least: int = 1, kept: frozenset[tuple[str, int]] = frozenset()) -> Graph:
    """The graph with symbols s0, s1 ... for the sizes that may vary. Raises Unsupported for operators without a rule.

    `kept` are dimensions of arguments that stay numbers: what is unbound, or shuffled by a factor.
    """
    if graph.symbols:
        return graph
    shapes = Shapes(Lowered(graph))
    used = {name for shape in shapes.of.values() for size in shape for name in size.symbols}
    fixed = _fixed(graph, shapes)
    fixed |= {symbol for name, dim in kept for symbol in shapes.of[name][dim].symbols}
    free = [name for name, one in shapes.symbols.items()
            if name in used - fixed and _READ.fullmatch(one.host)]  # fmt: skip
    names = {name: f"s{place}" for place, name in enumerate(free)}
    shapes.rename(names)
    known = set(names.values())

    def written(size: Size, old: Dim) -> Dim:
        size = size.replace({name: Size.of(shapes.symbols[name].hint) for name in fixed})
        if size.constant is not None:
            return size.constant
        text = re.sub(
            r"[A-Za-z_]\w*",
            lambda word: word[0] if word[0] in known else f"({_formula(shapes, word[0])})",
            size.text(),
        )
        return text if set(re.findall(r"[A-Za-z_]\w*", text)) <= known else old

    def typed(name: str, kind: TensorType) -> TensorType:
        sizes = shapes.of.get(name, ())
        if len(sizes) != len(kind.shape):
            return kind
        return kind.model_copy(update={"shape": tuple(map(written, sizes, kind.shape))})

    arguments = tuple(one.model_copy(update={"type": typed(one.name, one.type)}) if isinstance(one.type, TensorType) else one
                      for one in graph.arguments)  # fmt: skip
    nodes = tuple(_node(node, typed) for node in graph.nodes)
    symbols = tuple(
        Symbol(name=names[old], hint=shapes.symbols[names[old]].hint, least=least) for old in free
    )
    return graph.model_copy(update={"arguments": arguments, "nodes": nodes, "symbols": symbols})


def _formula(shapes: Shapes, name: str) -> str:
    """How the host gets a size that is no dimension of an argument, over symbols."""
    host = shapes.symbols[name].host
    while "{" in host:
        host = re.sub(r"\{(\w+)\}", lambda word: word[1] if shapes.symbols[word[1]].argument
                      else f"({shapes.symbols[word[1]].host})", host)  # fmt: skip
    return host


def _fixed(graph: Graph, shapes: Shapes) -> set[str]:
    """Symbols of channels that a number of groups must divide."""
    found: set[str] = set()
    for node in graph.nodes:
        name = node.op.split(".")[1]
        reads = [one.ref for one in node.args[:2] if isinstance(one, Ref)]
        last = node.args[-1] if node.args else 1
        if name == "group_norm" or (name.startswith("conv") and isinstance(last, int) and last > 1):
            found |= {symbol for one in reads for size in shapes.of[one][:2] for symbol in size.symbols}
            found -= shapes.of[reads[0]][0].symbols
    return found


def _node(node: Node, typed: object) -> Node:
    """With its results' sizes, and those that a view names."""
    assert callable(typed)
    outputs = tuple(
        None if one is None else Value(name=one.name, type=typed(one.name, one.type)) for one in node.outputs
    )
    args = node.args
    first = outputs[0]
    if node.op.split(".")[1] in _SHAPED and first is not None and isinstance(first.type, TensorType):
        shape: tuple[Operand, ...] = tuple(
            GraphSize(size=one) if isinstance(one, str) else one for one in first.type.shape
        )
        args = (args[0], shape, *args[2:])
    if (
        node.op.split(".")[1] in ("layer_norm", "rms_norm")
        and first is not None
        and isinstance(node.args[1], tuple)
    ):
        assert isinstance(first.type, TensorType)
        last = first.type.shape[len(first.type.shape) - len(node.args[1]) :]
        args = (
            args[0],
            tuple(GraphSize(size=one) if isinstance(one, str) else one for one in last),
            *args[2:],
        )
    if node.op.split(".")[1].startswith("upsample_nearest") and first is not None:
        assert isinstance(first.type, TensorType)
        last = first.type.shape[2:]
        args = (
            args[0],
            tuple(GraphSize(size=one) if isinstance(one, str) else one for one in last),
            *args[2:],
        )
    return node.model_copy(update={"outputs": outputs, "args": args})
