"""Graph to graph with bitwise the same values: removes operators without effect and brings equivalent forms to one.

    clone, alias, detach, casts to the same dtype, whole slices, reshapes to the same shape    removed
    view, _unsafe_view, flatten; reshape of a reshape       one reshape with all sizes written out
    transpose, t                                            permute
    expand with -1, slice to the end, negative dimensions   written out
    matmul of two matrices, of two batches of equal sizes   mm, bmm
    x * 1.0, x / 1.0 of floats, i + 0 of integers           x, i
    lstm, gru, rnn with the batch first                     with steps first between two permutations, as torch runs them
    bincount whose result's size no value decides           scatter_add of ones, or of the weights
    unread values                                           removed

Does not guarantee that a result keeps its strides, nor that two graphs that compute the same become
equal. A clone stays if the graph returns it and its source is an argument: the caller may write to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelwright.graph import operators
from kernelwright.graph.types import (
    Dim,
    DtypeArg,
    Graph,
    Node,
    NumberType,
    Operand,
    Other,
    Ref,
    Size,
    TensorType,
    Value,
)  # fmt: skip

Types = dict[str, TensorType | NumberType]
_NOTHING = frozenset(["clone", "alias", "detach", "lift_fresh", "lift_fresh_copy", "contiguous"])
_RESHAPES = frozenset(
    ["view", "_unsafe_view", "reshape", "flatten", "unflatten", "view_as", "_reshape_alias"]
)
_ONE_MORE = frozenset(["unsqueeze", "stack"])
"""Operators whose dimension argument refers to the result, which has one dimension more."""


def simplify(graph: Graph) -> Graph:
    """An equivalent, simpler graph. Arguments keep their names; computed values are renumbered."""
    types = graph.types()
    simplifier = _Simplifier(types, {one.name for one in graph.arguments}, set(graph.results))
    if any(operators.packet(node.op) == "as_strided" for node in graph.nodes):
        return graph  # it depends on strides, so nothing may move
    for node in graph.nodes:
        simplifier.add(node)
    results = tuple(simplifier.now(name) for name in graph.results)
    live, read = live_nodes(simplifier.nodes, results)
    outputs = (tuple(one if one and one.name in read else None for one in node.outputs) for node in live)
    nodes = tuple(node.model_copy(update={"outputs": each}) for node, each in zip(live, outputs, strict=True))
    return renumber(graph.model_copy(update={"nodes": nodes, "results": results}))


class _Simplifier:
    def __init__(self, types: Types, arguments: set[str], results: set[str]) -> None:
        self.types, self.arguments, self.results = types, arguments, results
        self.nodes: list[Node] = []
        self._same: dict[str, str] = {}
        self._made: dict[str, Node] = {}

    def now(self, name: str) -> str:
        return self._same.get(name, name)

    def add(self, node: Node) -> None:
        node = rename_reads(node, self.now)
        if operators.packet(node.op) in operators.RECURRENT:
            self.nodes += self._recurrent(node)
            return
        if node.op == "aten.bincount.default":
            self.nodes += self._counted(node)
            return
        node = self._written_out(node)
        source = self._source(node)
        out = node.outputs[0] if len(node.outputs) == 1 else None
        if source is not None and out is not None:
            copies = operators.packet(node.op) in ("clone", "contiguous") and source in self.arguments
            if not (copies and out.name in self.results):
                self._same[out.name] = source
                return
        self.nodes.append(node)
        if out is not None:
            self._made[out.name] = node

    def _recurrent(self, node: Node) -> list[Node]:
        """A recurrent layer with steps first, so that its neighbours read and write the layout that it works in, and with equal
        initial states made once."""
        x, states, *rest, batch_first = node.args
        if isinstance(states, tuple):
            made = [self._made.get(one.ref) for one in states if isinstance(one, Ref)]
            how = [None if one is None or [*one.refs()] else (one.op, one.args, one.kwargs) for one in made]
            if how[0] is not None and all(one == how[0] for one in how):
                states = (states[0],) * len(states)
        out, *kept = node.outputs
        if batch_first is not True or not isinstance(x, Ref):
            return [node.model_copy(update={"args": (x, states, *rest, batch_first)})]
        given = f"{x.ref} by steps {len(self.nodes)}"
        inner = None if out is None else Value(name=f"{out.name} by steps", type=_turn(out.type))
        layer = node.model_copy(
            update={"args": (Ref(ref=given), states, *rest, False), "outputs": (inner, *kept)}
        )
        turned = self._turned(x.ref, given)
        if inner is None or out is None:
            return [turned, layer]
        self.types[inner.name] = inner.type
        return [turned, layer, self._turned(inner.name, out.name)]

    def _counted(self, node: Node) -> list[Node]:
        """`bincount` as a sum by index. What else the graph does holds for results of `minlength` elements only, so an index beyond
        them is an error in both."""
        named = dict(zip(("self", "weights", "minlength"), node.args, strict=False)) | dict(node.kwargs)
        x, weights, out = named["self"], named.get("weights"), node.outputs[0]
        assert isinstance(x, Ref)
        assert out is not None
        given, made = self.types[x.ref], out.type
        of = self.types[weights.ref] if isinstance(weights, Ref) else made
        if not (
            isinstance(given, TensorType) and isinstance(made, TensorType) and isinstance(of, TensorType)
        ):
            return [node]
        if (
            given.dtype != "int64"
            or of.dtype != made.dtype
            or size_argument(made.shape) != (named.get("minlength"),)
        ):
            return [node]

        def filled(name: str, shape: tuple[Dim, ...], number: int) -> Node:
            type_ = TensorType(dtype=made.dtype, shape=shape)
            self.types[name] = type_
            how = (("dtype", DtypeArg(dtype=made.dtype)), ("device", Other(other="device")))
            args, value = (size_argument(shape), number), Value(name=name, type=type_)
            return Node(op="aten.full.default", args=args, kwargs=how, outputs=(value,))

        zeros = filled(f"{out.name} zeros", made.shape, 0)
        ones = filled(f"{out.name} ones", given.shape, 1)
        source = weights if isinstance(weights, Ref) else Ref(ref=f"{out.name} ones")
        args = (Ref(ref=f"{out.name} zeros"), 0, x, source)
        added = Node(op="aten.scatter_add.default", args=args, outputs=(out,))
        return [zeros, ones, added]

    def _turned(self, source: str, name: str) -> Node:
        """The node that exchanges the first two of three dimensions."""
        value = Value(name=name, type=_turn(self.types[source]))
        return Node(op="aten.permute.default", args=(Ref(ref=source), (1, 0, 2)), outputs=(value,))

    def _source(self, node: Node) -> str | None:
        """The value that a node passes on unchanged; None if it does something."""
        name = operators.packet(node.op)
        out = node.outputs[0]
        if len(node.outputs) != 1 or out is None or not node.args or not isinstance(node.args[0], Ref):
            return None
        source = node.args[0].ref
        old, new = self.types[source], out.type
        if not (isinstance(old, TensorType) and isinstance(new, TensorType)):
            return None
        if (old.dtype, old.shape) != (new.dtype, new.shape):
            return None
        if name in _NOTHING or name in ("reshape", "expand", "_to_copy", "squeeze"):
            return source
        if name == "slice":
            return source if len(node.args) < 5 or node.args[4] == 1 else None
        if name == "permute" and isinstance(node.args[1], tuple):
            return source if list(node.args[1]) == list(range(len(node.args[1]))) else None
        if name in ("mul", "div") and new.dtype in ("float64", "float32", "float16", "bfloat16"):
            if node.args[1] == 1.0 and type(node.args[1]) in (int, float) and len(node.args) == 2:
                return source
            return None
        if name in ("add", "sub") and new.dtype.startswith(("int", "uint")):
            return source if node.args[1] == 0 and type(node.args[1]) is int else None
        return None

    def _written_out(self, node: Node) -> Node:
        name = operators.packet(node.op)
        if not node.op.startswith("aten.") or node.op == "aten.view.dtype" or not node.args:
            return node
        out = node.outputs[0]
        first = self.types[node.args[0].ref] if isinstance(node.args[0], Ref) else None
        if name in _RESHAPES and out is not None and isinstance(out.type, TensorType):
            return self._reshape(node, out.type)
        node = self._positive(node, first)
        if not isinstance(first, TensorType):
            return node
        rank = len(first.shape)
        if name == "expand" and out is not None and isinstance(out.type, TensorType):
            return node.model_copy(update={"args": (node.args[0], size_argument(out.type.shape))})
        if name in ("transpose", "t", "swapaxes", "numpy_T"):
            moved = list(range(rank))
            i, j = (node.args[1], node.args[2]) if len(node.args) == 3 else (0, rank - 1)
            if isinstance(i, int) and isinstance(j, int) and rank >= 2:
                moved[i], moved[j] = moved[j], moved[i]
                return node.model_copy(
                    update={"op": "aten.permute.default", "args": (node.args[0], tuple(moved))}
                )
        if name == "slice":
            return self._slice(node, first)
        if name == "matmul":
            return self._matmul(node, first)
        return node

    def _reshape(self, node: Node, new: TensorType) -> Node:
        source = node.args[0]
        assert isinstance(source, Ref)
        before = self._made.get(source.ref)
        if before is not None and before.op == "aten.reshape.default":
            source = before.args[0]
        args = (source, size_argument(new.shape))
        return node.model_copy(update={"op": "aten.reshape.default", "args": args, "kwargs": ()})

    def _slice(self, node: Node, old: TensorType) -> Node:
        given: list[Operand] = [*node.args[1:], *(0, None, None)[len(node.args) - 1 :]]
        dim, start, end, *step = given
        if not isinstance(dim, int) or not (start is None or isinstance(start, int)):
            return node
        size = old.shape[dim]
        start = start or 0
        if isinstance(size, int):
            start = max(start + size, 0) if start < 0 else min(start, size)
            if isinstance(end, int):
                end = max(end + size, 0) if end < 0 else min(end, size)
        if end is None or (isinstance(end, int) and end >= 2**62):
            end = size_argument((size,))[0]
        step = [one for one in step if one != 1]
        return node.model_copy(update={"args": (node.args[0], dim, start, end, *step)})

    def _matmul(self, node: Node, left: TensorType) -> Node:
        right = self.types[node.args[1].ref] if isinstance(node.args[1], Ref) else None
        if not isinstance(right, TensorType):
            return node
        ranks = (len(left.shape), len(right.shape))
        same = ranks == (3, 3) and left.shape[0] == right.shape[0]
        op = "aten.mm.default" if ranks == (2, 2) else "aten.bmm.default" if same else node.op
        return node.model_copy(update={"op": op})

    def _positive(self, node: Node, first: TensorType | NumberType | None) -> Node:
        """Rewrite negative dimensions as positive ones."""
        shape = _listed_shape(node.args[0], self.types) if first is None else first
        if not isinstance(shape, TensorType):
            return node
        rank = len(shape.shape) + (operators.packet(node.op) in _ONE_MORE)
        if rank == 0:
            return node
        schema = operators.resolve(node.op)._schema.arguments

        def counted(value: Operand) -> Operand:
            if type(value) is int and -rank <= value < 0:
                return value + rank
            return tuple(counted(one) for one in value) if isinstance(value, tuple) else value

        args = list(node.args)
        for place, one in enumerate(schema[: len(args)]):
            if one.name in ("dim", "dims", "dim0", "dim1"):
                args[place] = counted(args[place])
        return node.model_copy(update={"args": tuple(args)})


def _turn(type_: TensorType | NumberType) -> TensorType:
    assert isinstance(type_, TensorType)
    batch, steps, *width = type_.shape
    return TensorType(dtype=type_.dtype, shape=(steps, batch, *width))


def _listed_shape(value: Operand, types: Types) -> TensorType | NumberType | None:
    """The type of the first tensor in a list argument, as of `cat` and `stack`."""
    if isinstance(value, tuple) and value and isinstance(value[0], Ref):
        return types[value[0].ref]
    return None


def size_argument(shape: Sequence[Dim]) -> tuple[Operand, ...]:
    """Sizes as an operator's argument."""
    return tuple(Size(size=one) if isinstance(one, str) else one for one in shape)


def rename_reads(node: Node, name: Callable[[str], str]) -> Node:
    """The node with the values that it reads renamed."""

    def operand(value: Operand) -> Operand:
        if isinstance(value, Ref):
            return Ref(ref=name(value.ref))
        return tuple(operand(one) for one in value) if isinstance(value, tuple) else value

    kwargs = tuple((key, operand(value)) for key, value in node.kwargs)
    return node.model_copy(update={"args": tuple(map(operand, node.args)), "kwargs": kwargs})


def renumber(graph: Graph) -> Graph:
    """The graph with its computed values named h1, h2 ... in order (n1 ... for numbers)."""
    taken = {one.name for one in graph.arguments}
    new: dict[str, str] = {}
    counts = {"h": 0, "n": 0}

    def fresh(stem: str) -> str:
        while True:
            counts[stem] += 1
            if (found := f"{stem}{counts[stem]}") not in taken:
                return found

    def now(name: str) -> str:
        return new.get(name, name)

    nodes = []
    for node in graph.nodes:
        node = rename_reads(node, now)
        outputs = []
        for value in node.outputs:
            if value is not None:
                new[value.name] = fresh("h" if isinstance(value.type, TensorType) else "n")
                value = value.model_copy(update={"name": new[value.name]})
            outputs.append(value)
        nodes.append(node.model_copy(update={"outputs": tuple(outputs)}))
    return Graph(**{**dict(graph), "nodes": tuple(nodes), "results": tuple(map(now, graph.results))})


def live_nodes(nodes: Sequence[Node], results: Sequence[str]) -> tuple[list[Node], set[str]]:
    """The nodes that the results need, in order, and the names that these nodes read or the graph returns."""
    read, live = set(results), []
    for node in reversed(nodes):
        if any(one is not None and one.name in read for one in node.outputs):
            read.update(node.refs())
            live.append(node)
    return live[::-1], read
