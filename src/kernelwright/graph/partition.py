"""Cuts a graph into groups, each small enough for one kernel or two; work without kernels stays with ATen.

The rules, of which the first that applies decides; nodes are taken in the order of the graph:

1. Views, values made from sizes alone and casts from half precision to float32 are free: each reader recomputes them from their
   source.
2. Unknown operators, random ones and data-dependent moves stay with ATen (a `Left`).
3. A contraction (product, convolution, attention) opens a group of its own.
4. A reduction joins the group that made its input if that group holds no contraction, runs over as many elements
   and reduces over the same axes; else it opens a group.
5. A map joins the groups that made its inputs: a contraction's if it runs over the contraction's own elements (an
   epilogue, never what the contraction itself reads); one of maps and reductions if it runs over at most as many elements, or if
   there is no reduction yet. Several such groups become one, if at most one of them holds a contraction and their reductions agree.
6. A gather (concatenation, indexing, interpolation) joins only groups of maps; else it opens a group.
7. A cast that only one contraction reads joins that contraction's group.
8. A map after a contraction that only a group of reductions or of gathers reads moves to that group, if its inputs are stored anyway.
9. Maps over at most a sixteenth of a group's elements that only this group reads (a batch norm's scales) join it; each program
   recomputes them.
10. No join may make two groups wait for each other.
11. A group that reads no tensor from outside stays with ATen.

Groups are graphs of their own with names by position, so that a repeated layer gives the same digest.

Does not guarantee that a group is the best cut, nor that a kernel for it can be written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kernelwright.graph import operators, sizes
from kernelwright.graph.operators import packet
from kernelwright.graph.simplify import rename_reads
from kernelwright.graph.types import (
    Argument,
    Graph,
    Node,
    NumberType,
    TensorType,
    Value,
    refs_in,
)

LONGEST = 96
"""Most nodes in a group: kernels beyond that are neither readable nor compiled in seconds."""
Part = Literal["free", "map", "gather", "reduction", "contraction", "other"]
_PARTS: dict[str, Part] = {
    "view": "free", "create": "free", "map": "map", "move": "gather", "gather": "gather", "reduction": "reduction",
    "norm": "reduction", "loss": "reduction", "scan": "reduction", "window": "reduction", "contraction": "contraction",
}  # fmt: skip
_MAPS = frozenset(
    ["clone", "contiguous", "copy", "_native_batch_norm_legit_no_training", "_batch_norm_no_update"]
)
"""Elementwise operators, whatever kind `operators.py` gives them."""
_CASTS = frozenset(["_to_copy"])


@dataclass(frozen=True)
class Group:
    """A part of a graph as a graph of its own."""

    graph: Graph
    """With names by position; its arguments and results are those below, in order."""
    inputs: tuple[str, ...]
    """Names in the whole graph of its inputs."""
    outputs: tuple[str, ...]
    """Names in the whole graph of its results."""
    nodes: tuple[Node, ...]
    """Its nodes in the whole graph, including views that it recomputes."""

    @property
    def operators(self) -> str:
        """Its operators, for tables: `linear+gelu`."""
        return describe(self.nodes)


@dataclass(frozen=True)
class Left:
    """Nodes that stay with ATen, one call each."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Partition:
    """Groups and calls in an executable order."""

    graph: Graph
    steps: tuple[Group | Left, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(step for step in self.steps if isinstance(step, Group))

    def distinct(self) -> dict[str, list[Group]]:
        """Groups by the digest of their graph, in the order in which they first occur."""
        found: dict[str, list[Group]] = {}
        for group in self.groups:
            found.setdefault(group.graph.digest, []).append(group)
        return found

    def merged(self) -> Graph:
        """The nodes of all steps, each once, as one graph in the original order."""
        place = {node: number for number, node in enumerate(self.graph.nodes)}
        kept = dict.fromkeys(node for step in self.steps for node in step.nodes)
        ordered = sorted(kept, key=lambda node: place[node])
        return self.graph.model_copy(update={"nodes": tuple(ordered)})


def partition(graph: Graph) -> Partition:
    """The groups of a graph by the rules above; nodes that nothing reads are left out."""
    return Partitioner(graph).run()


def alone(graph: Graph) -> Partition:
    """The whole graph as one group, with its own names."""
    inputs = tuple(one.name for one in graph.arguments)
    return Partition(graph, (Group(graph, inputs, graph.results, graph.nodes),))


def numbers_of(graph: Graph, tensors: int) -> tuple[str, ...]:
    """The whole graph's names of sizes that a part takes as numbers after its first `tensors` arguments, since the tensors' shapes do
    not determine them."""
    return tuple(one.origin for one in graph.arguments[tensors:])


def describe(nodes: Sequence[Node]) -> str:
    """Operators in order without views and repetitions: `linear+gelu`."""
    names = [packet(node.op).strip("_") for node in nodes if part_of(node) != "free"]
    return "+".join(dict.fromkeys(names)) or "+".join(dict.fromkeys(packet(node.op) for node in nodes))


def part_of(node: Node) -> Part:
    """The class of a node in the rules; `other` stays with ATen."""
    name = packet(node.op)
    if node.op.startswith("aten.") and name in _MAPS:
        return "map"
    return _PARTS.get(operators.kind(node.op), "other")


@dataclass(eq=False)
class Draft:
    """A group under construction; compared by identity."""

    number: int
    nodes: list[int] = field(default_factory=list)
    domain: int = 0
    axes: object = None
    """What its reductions run over; None without reductions."""
    contraction: bool = False
    gathers: bool = False
    closed: bool = False


class Partitioner:
    """Applies the rules; `neighbours.py` has variants."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.types = graph, graph.types()
        self._hints = {one.name: one.hint for one in graph.symbols}
        self._read: dict[int, list[str]] = {}
        self.maker = {
            value.name: number
            for number, node in enumerate(graph.nodes)
            for value in node.outputs
            if value is not None
        }
        self.parts = ["free" if self._widens(node) else part_of(node) for node in graph.nodes]
        self.live = self._live()
        self.home: dict[int, Draft] = {}
        self.drafts: dict[int, Draft] = {}

    def run(self) -> Partition:
        for number in range(len(self.graph.nodes)):
            if number in self.live and self.parts[number] != "free":
                self._place(number)
        self._hand_on_maps()
        self.regroup()
        self._absorb(self._casts)
        self._absorb(self._small_maps)
        self._leave_what_reads_nothing()
        return Partition(self.graph, tuple(self._steps()))

    def _widens(self, node: Node) -> bool:
        """Whether it is a cast from half precision to float32, whose result is twice as much to read."""
        if packet(node.op) not in _CASTS or node.outputs[0] is None:
            return False
        before, after = self.types[next(node.refs())], node.outputs[0].type
        both = isinstance(before, TensorType) and isinstance(after, TensorType)
        return both and after.dtype == "float32" and before.dtype in ("bfloat16", "float16")  # type: ignore[union-attr]

    def _live(self) -> set[int]:
        waiting = [self.maker[name] for name in self.graph.results if name in self.maker]
        found: set[int] = set()
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                waiting += [self.maker[n] for n in self.graph.nodes[number].refs() if n in self.maker]
        return found

    # -- inputs of nodes -------------------------------------------------------------------------------------

    def bases(self, number: int) -> list[str]:
        """Values that a node reads, traced through free nodes: arguments and results of nodes in groups."""
        if number not in self._read:
            self._read[number] = list(self._through(self.graph.nodes[number].refs()))
        return self._read[number]

    def _through(self, names: Iterator[str]) -> dict[str, None]:
        found: dict[str, None] = {}
        for name in names:
            maker = self.maker.get(name)
            if maker is not None and self.parts[maker] == "free":
                found.update(self._through(self.graph.nodes[maker].refs()))
            else:
                found[name] = None
        return found

    def _free(self, names: Iterator[str]) -> set[int]:
        """The free nodes between these values and their sources."""
        found: set[int] = set()
        for name in names:
            maker = self.maker.get(name)
            if maker is not None and self.parts[maker] == "free":
                found |= {maker} | self._free(self.graph.nodes[maker].refs())
        return found

    # -- drafts ----------------------------------------------------------------------------------------------

    def _place(self, number: int) -> None:
        kind, node = self.parts[number], self.graph.nodes[number]
        made = max((self.elements(v.type) for v in node.outputs if v is not None), default=1)
        read = max((self.elements(self.types[name]) for name in node.refs()), default=1)
        producers = self._producers(number)
        if kind == "contraction":
            self._open(number, domain=made, contraction=True)
        elif kind == "other":
            self._open(number, domain=made, closed=True)
        elif kind == "reduction":
            axes = _axes(node, self.types)
            fits = [
                draft
                for draft in producers
                if not draft.contraction
                and draft.domain == read
                and draft.axes in (None, axes)
                and axes != "window"
            ]
            self._join(number, fits, domain=made if axes == "window" else read, axes=axes)
        elif kind == "gather":
            fits = [draft for draft in producers if not draft.contraction and draft.axes is None]
            self._join(number, fits, domain=made, gathers=True)
        else:
            fits = [draft for draft in producers if self._takes(draft, made)]
            self._join(number, fits, domain=made)

    def elements(self, type_: TensorType | NumberType) -> int:
        """Number of a tensor's elements at the captured sizes."""
        shape = type_.shape if isinstance(type_, TensorType) else ()
        return math.prod(sizes.evaluate(size, self._hints) for size in shape)

    def _takes(self, draft: Draft, made: int) -> bool:
        """Whether a map over `made` elements may join."""
        if draft.contraction or draft.axes == "window":
            return made == draft.domain
        return made <= draft.domain or draft.axes is None

    def _producers(self, number: int) -> list[Draft]:
        makers = [self.maker[name] for name in self.bases(number) if name in self.maker]
        drafts = {self.home[maker].number: self.home[maker] for maker in makers}
        return [draft for draft in drafts.values() if not draft.closed]

    def _open(self, number: int, **facts: object) -> Draft:
        draft = Draft(number, [number], **facts)  # type: ignore[arg-type]
        self.drafts[number] = self.home[number] = draft
        return draft

    def _join(self, number: int, fits: list[Draft], **facts: object) -> None:
        """Merge a node into as many groups of `fits` as possible without making two groups wait for each other."""
        joined = self._open(number, **facts)
        for draft in sorted(fits, key=lambda one: (not one.contraction, -one.domain, -one.number)):
            before = joined.contraction and draft.number in self.feeding(joined)
            if _agree(joined, draft) and not before and not self.circular(joined, draft):
                self.merge(draft, joined)
                joined = draft

    def merge(self, into: Draft, other: Draft) -> None:
        into.nodes = sorted(into.nodes + other.nodes)
        if into.contraction or other.contraction:
            into.domain = into.domain if into.contraction else other.domain
        else:
            into.domain = max(into.domain, other.domain)
        into.axes = other.axes if into.axes is None else into.axes
        into.contraction |= other.contraction
        into.gathers |= other.gathers
        for node in other.nodes:
            self.home[node] = into
        del self.drafts[other.number]

    def feeding(self, draft: Draft) -> set[int]:
        """Numbers of the groups that it reads from."""
        found = set()
        for node in draft.nodes:
            for name in self.bases(node):
                maker = self.maker.get(name)
                if maker is not None and self.home[maker] is not draft:
                    found.add(self.home[maker].number)
        return found

    def circular(self, one: Draft, other: Draft) -> bool:
        """Whether one depends on the other through a third group."""
        return self.reaches(one, other) or self.reaches(other, one)

    def reaches(self, late: Draft, early: Draft) -> bool:
        """Whether `late` depends on `early` through a third group."""
        first = early.nodes[0]
        waiting = [number for number in self.feeding(late) if number != early.number]
        seen: set[int] = set()
        while waiting:
            number = waiting.pop()
            if number == early.number:
                return True
            draft = self.drafts[number]
            # A group that ends before `early` begins cannot read it.
            if number not in seen and draft.nodes[-1] > first:
                seen.add(number)
                waiting += self.feeding(draft)
        return False

    def readers(self) -> tuple[dict[int, set[int]], set[int]]:
        """(node -> nodes that read it, nodes whose values are returned)."""
        readers: dict[int, set[int]] = {}
        for number in self.home:
            for name in self.bases(number):
                if name in self.maker:
                    readers.setdefault(self.maker[name], set()).add(number)
        return readers, {self.maker[n] for n in self._through(iter(self.graph.results)) if n in self.maker}

    def _hand_on_maps(self) -> None:
        """Rule 8. This creates no cycle: whatever reads the map depended on its group before."""
        readers, returned = self.readers()
        for draft in [one for one in self.drafts.values() if one.contraction]:
            for number in reversed(draft.nodes):
                homes = {self.home[one].number for one in readers.get(number, ())}
                into = self.drafts[homes.pop()] if len(homes) == 1 else draft
                handed = into.gathers or into.axes not in (None, "window")
                if self.parts[number] != "map" or not handed or number in returned:
                    continue
                read = {self.maker[name] for name in self.bases(number) if name in self.maker} & set(
                    draft.nodes
                )
                shown = {
                    one
                    for one in read
                    if one in returned or any(self.home[r] is not draft for r in readers[one])
                }
                if read == shown:
                    self.hand_on(number, draft, into)

    def hand_on(self, number: int, draft: Draft, into: Draft) -> None:
        """Move a node from one group to another."""
        draft.nodes = [one for one in draft.nodes if one != number]
        into.nodes = sorted([*into.nodes, number])
        self.home[number] = into

    def regroup(self) -> None:
        """A hook for cuts that join groups or move nodes between them (`neighbours.py`)."""

    def _absorb(self, fits: Callable[[Draft, Draft], bool]) -> None:
        """Rules 7 and 9: merge a group into the only group that reads it, if `fits` permits."""
        by_node, returned = self.readers()
        readers = {number: {self.home[one].number for one in ones} for number, ones in by_node.items()}
        for draft in list(self.drafts.values()):
            outside = {one for node in draft.nodes for one in readers.get(node, set())} - {draft.number}
            if len(outside) != 1 or returned & set(draft.nodes):
                continue
            into = self.drafts.get(next(iter(outside)))
            if into is not None and fits(draft, into) and not self.circular(into, draft):
                self.merge(into, draft)

    def _casts(self, draft: Draft, into: Draft) -> bool:
        return into.contraction and {packet(self.graph.nodes[node].op) for node in draft.nodes} <= _CASTS

    def _small_maps(self, draft: Draft, into: Draft) -> bool:
        plain = all(self.parts[node] == "map" for node in draft.nodes)
        room = len(draft.nodes) + len(into.nodes) <= LONGEST
        return plain and room and not into.closed and not into.gathers and 16 * draft.domain <= into.domain

    def _leave_what_reads_nothing(self) -> None:
        for draft in self.drafts.values():
            made = set(draft.nodes)
            read = [name for node in draft.nodes for name in self.bases(node)]
            if not draft.closed and all(self.maker.get(name) in made for name in read):
                draft.closed = True

    # -- steps -----------------------------------------------------------------------------------------------

    def _steps(self) -> Iterator[Group | Left]:
        """Groups, calls left to ATen, and the views that these or the results need, in order."""
        order = self._ordered()
        outside = self._read_outside()
        shown: set[int] = set()
        for draft in order:
            if draft.closed:
                free = self._free(name for node in draft.nodes for name in self.graph.nodes[node].refs())
                nodes = sorted((free - shown) | set(draft.nodes))
                shown |= free
                yield Left(tuple(self.graph.nodes[node] for node in nodes))
            else:
                yield self._group(draft, outside)
        last = self._free(iter(self.graph.results)) - shown
        if last:
            yield Left(tuple(self.graph.nodes[node] for node in sorted(last)))

    def _ordered(self) -> list[Draft]:
        done: list[Draft] = []
        state: dict[int, int] = {}

        for start in sorted(self.drafts):
            stack = [(start, False)]
            while stack:
                number, fed = stack.pop()
                if fed:
                    done.append(self.drafts[number])
                elif number not in state:
                    state[number] = 1
                    stack.append((number, True))
                    stack += [(one, False) for one in sorted(self.feeding(self.drafts[number]), reverse=True)]
        return done

    def _read_outside(self) -> set[str]:
        """Values that are returned or read by another step than the one that makes them."""
        found = set(self._through(iter(self.graph.results)))
        for number, draft in self.home.items():
            for name in self.bases(number):
                maker = self.maker.get(name)
                if maker is not None and self.home[maker] is not draft:
                    found.add(name)
        return found

    def _group(self, draft: Draft, outside: set[str]) -> Group:
        free = self._free(name for node in draft.nodes for name in self.graph.nodes[node].refs())
        numbers = sorted(free | set(draft.nodes))
        nodes = tuple(self.graph.nodes[number] for number in numbers)
        made = [value.name for node in nodes for value in node.outputs if value is not None]
        inputs = tuple(dict.fromkeys(name for node in nodes for name in node.refs() if name not in set(made)))
        outputs = tuple(
            value.name
            for number in sorted(draft.nodes)
            for value in self.graph.nodes[number].outputs
            if value is not None and value.name in outside
        )
        graph = subgraph(self.graph, nodes, inputs, outputs)
        return Group(graph, (*inputs, *numbers_of(graph, len(inputs))), outputs, nodes)


def by_place(graph: Graph) -> Graph:
    """A whole graph with names as in groups: x0, w1, v0, v1."""
    names = [one.name for one in graph.arguments]
    return subgraph(graph, graph.nodes, names, graph.results, graph.name)


def subgraph(
    graph: Graph, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str], name: str = ""
) -> Graph:
    """Nodes of a graph as a graph of their own: names by position, unread results dropped, only symbols that occur. Symbols that the
    shapes of its arguments do not determine become number arguments at the end."""
    types = graph.types()
    weights = {one.name: one for one in graph.arguments}
    names: dict[str, str] = {}
    arguments = []
    for place, old in enumerate(inputs):
        known = weights.get(old)
        role = known.role if known is not None else "input"
        names[old] = f"{'x' if role == 'input' else 'w'}{place}"
        arguments.append(
            Argument(name=names[old], type=types[old], role=role, origin=known.origin if known else "")
        )
    read = {one for node in nodes for one in node.refs()} | set(outputs)
    made = []
    for node in nodes:
        for value in node.outputs:
            if value is not None and value.name in read:
                names[value.name] = f"v{len(names) - len(inputs)}"
        made.append(rename_node(node, names, read))
    body = Graph(
        name=name or describe(nodes).replace("+", "_")[:60].lower(),
        arguments=tuple(arguments),
        nodes=tuple(made),
        results=tuple(names[one] for one in outputs),
    )
    used = set(sizes.occurring(body))
    kept = tuple(one for one in graph.symbols if one.name in used)
    if not kept:
        return body
    body = sizes.independent(body.model_copy(update={"symbols": kept}))
    if not (untold := sizes.untold(body)):
        return body
    by_place, names = sizes.in_order(body)
    numbers = tuple(Argument(name=names[one], type=NumberType(of="int"), origin=one) for one in untold)
    return by_place.model_copy(update={"arguments": (*by_place.arguments, *numbers)})


def rename_node(node: Node, names: Mapping[str, str], read: Collection[str]) -> Node:
    """The node with its values renamed; outputs that are not in `read` are dropped."""
    outputs = tuple(
        Value(name=names[value.name], type=value.type) if value is not None and value.name in read else None
        for value in node.outputs
    )
    return rename_reads(node, names.__getitem__).model_copy(update={"outputs": outputs})


def _agree(one: Draft, other: Draft) -> bool:
    """Whether the contents of two groups permit one group."""
    if (one.contraction and other.contraction) or one.closed or other.closed:
        return False
    if len(one.nodes) + len(other.nodes) > LONGEST:
        return False
    if one.contraction or other.contraction:
        plain = other if one.contraction else one
        return plain.axes is None and not plain.gathers and one.domain == other.domain
    if one.axes is not None and other.axes is not None:
        return one.axes == other.axes and one.axes != "window"
    if one.gathers or other.gathers:
        return one.axes is None and other.axes is None
    return True


def _axes(node: Node, types: Mapping[str, TensorType | NumberType]) -> object:
    """What a reduction runs over, comparable within a group: axes from the end, or `window`."""
    name = packet(node.op)
    if operators.kind(node.op) == "window":
        return "window"
    if operators.kind(node.op) == "loss" or "group_norm" in name or "batch_norm" in name:
        return (name,)
    first = next(refs_in(node.args), "") if node.args else ""
    type_ = types.get(first)
    rank = len(type_.shape) if isinstance(type_, TensorType) else 0
    if name in ("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm"):
        shape = node.args[1]
        return tuple(range(-len(shape), 0)) if isinstance(shape, tuple) else (name,)
    asked = node.args[1] if len(node.args) > 1 else dict(node.kwargs).get("dim")
    if isinstance(asked, int) and not isinstance(asked, bool):
        asked = (asked,)
    if isinstance(asked, tuple) and asked and all(isinstance(one, int) for one in asked):
        return tuple(sorted(one - rank if one >= 0 else one for one in asked if isinstance(one, int)))
    if operators.kind(node.op) == "norm":
        return (name,)
    return tuple(range(-rank, 0))
