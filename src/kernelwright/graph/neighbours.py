"""Other cuts of a graph, which consider what surrounds a group. `parts` is the cut of `partition.py`; the others are

joined: products with the same left operand form one group with the epilogue that combines them: gate and up of an MLP. No group
    may end up waiting for itself through a third; at most four products of plain matrices.
rows: maps after a contraction that a group of reductions reads belong to that group, even if others read them: the
    contraction stays bare, for a library, and a residual's sum and its norm are one group with two results.

Every cut is a complete partition; timing decides which is faster, region by region (`regions`). Does not guarantee that cuts
differ: for most graphs they do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from kernelwright.graph.operators import packet
from kernelwright.graph.partition import LONGEST, Draft, Group, Partition, Partitioner, part_of
from kernelwright.graph.types import Graph, Operand, Ref, TensorType

Cut = Literal["joined", "rows", "parts"]
CUTS: tuple[Cut, ...] = ("joined", "rows", "parts")
"""The coarsest first."""
MOST_PRODUCTS = 4
_LEFT = {"mm": 0, "linear": 0, "matmul": 0, "addmm": 1}
"""Position of a product's left operand."""


def cuts(graph: Graph) -> dict[Cut, Partition]:
    """Every cut of a graph that differs from those before it."""
    kinds: Mapping[Cut, type[Partitioner]] = {"joined": _Joined, "rows": _Rows, "parts": Partitioner}
    found: dict[Cut, Partition] = {}
    for name in CUTS:
        made = kinds[name](graph).run()
        if all(made.steps != other.steps for other in found.values()):
            found[name] = made
    return found


def rows(graph: Graph) -> Partition:
    """The cut `rows`, for products that stay with a library."""
    return _Rows(graph).run()


def distinct_groups(found: Mapping[Cut, Partition]) -> list[Group]:
    """The groups of all cuts without duplicates, those of the coarsest cut first."""
    return list(dict.fromkeys(group for one in found.values() for group in one.groups))


def regions(found: Mapping[Cut, Partition]) -> list[dict[Cut, tuple[Group, ...]]]:
    """The parts of the graph in which cuts differ, or single groups: for each the groups that every cut has there. Groups of
    different regions share no nodes except views."""
    region_of: dict[object, set[Group]] = {}
    for group in distinct_groups(found):
        nodes = [node for node in group.nodes if part_of(node) != "free"]
        together = {group}.union(*(region_of.get(node, set()) for node in nodes))
        for one in together:
            for node in one.nodes:
                if part_of(node) != "free":
                    region_of[node] = together
    distinct = {id(one): one for one in region_of.values()}.values()
    return [
        {name: tuple(group for group in whole.groups if group in region) for name, whole in found.items()}
        for region in distinct
    ]


def rivals(found: Mapping[Cut, Partition]) -> dict[str, set[str]]:
    """Digest of a group -> digests of other groups that share a node with it."""
    holders: dict[object, list[Group]] = {}
    for group in distinct_groups(found):
        for node in group.nodes:
            if part_of(node) != "free":
                holders.setdefault(node, []).append(group)
    made: dict[str, set[str]] = {}
    for together in {tuple(one) for one in holders.values() if len(one) > 1}:
        digests = [group.graph.digest for group in together]
        for digest in digests:
            made.setdefault(digest, set()).update(one for one in digests if one != digest)
    return made


class _Joined(Partitioner):
    """Joins products of one left operand and of equal shapes with what combines them."""

    def regroup(self) -> None:
        known: dict[object, list[Draft]] = {}
        for draft in sorted(self.drafts.values(), key=lambda one: one.number):
            left = self._left(draft)
            if left is None:
                continue
            others = known.setdefault(left, [])
            into = next((one for one in others if self._joins(one, draft)), None)
            if into is None:
                others.append(draft)
            else:
                self.merge(into, draft)

    def _products(self, draft: Draft) -> list[int]:
        return [node for node in draft.nodes if self.parts[node] == "contraction"]

    def _joins(self, into: Draft, draft: Draft) -> bool:
        """Whether one group reads the other's result, the sizes permit, and neither product depends on the other, directly or through
        a third group."""
        combined = into.number in self.feeding(draft) or draft.number in self.feeding(into)
        if not combined or into.domain != draft.domain:
            return False
        products = self._products(into) + self._products(draft)
        nodes = {*into.nodes, *draft.nodes}
        multiplied = {self.maker.get(name) for product in products for name in self.bases(product)}
        room = len(products) <= MOST_PRODUCTS and len(nodes) <= LONGEST
        return room and not multiplied & nodes and not self.circular(into, draft)

    def _left(self, draft: Draft) -> object:
        """The left operand of a group's product with a plain matrix; None if the group has no such product."""
        products = self._products(draft)
        node = self.graph.nodes[products[0]] if products else None
        place = _LEFT.get(packet(node.op)) if node is not None else None
        if node is None or place is None:
            return None
        left, right = node.args[place], node.args[place + 1]
        if not isinstance(right, Ref) or len(self._shape(right)) != 2 or not isinstance(left, Ref):
            return None
        return self._written(left) if len(self._shape(left)) > 1 else None

    def _shape(self, value: Ref) -> tuple[object, ...]:
        kind = self.types[value.ref]
        return kind.shape if isinstance(kind, TensorType) else ()

    def _written(self, operand: Operand) -> object:
        """An operand traced through views: equal for equal views of one value, whatever their names."""
        if isinstance(operand, tuple):
            return tuple(map(self._written, operand))
        if not isinstance(operand, Ref):
            return (type(operand).__name__, operand)
        maker = self.maker.get(operand.ref)
        if maker is None or self.parts[maker] != "free":
            return operand.ref
        node = self.graph.nodes[maker]
        place = next(i for i, one in enumerate(node.outputs) if one is not None and one.name == operand.ref)
        return (node.op, place, self._written(node.args), self._written(tuple(one for _, one in node.kwargs)))


class _Rows(Partitioner):
    """Moves maps between a contraction and reductions to the reductions."""

    def regroup(self) -> None:
        readers, _ = self.readers()
        for draft in [one for one in self.drafts.values() if one.contraction]:
            for number in reversed(draft.nodes):
                if self.parts[number] != "map" or any(one in draft.nodes for one in readers.get(number, ())):
                    continue
                into = self._norm_of(sorted(readers.get(number, ())), self._made(number))
                if into is not None and self._fits(number, into):
                    self.hand_on(number, draft, into)

    def _made(self, number: int) -> int:
        return max(self.elements(one.type) for one in self.graph.nodes[number].outputs if one is not None)

    def _norm_of(self, readers: Sequence[int], made: int) -> Draft | None:
        """The group of reductions over as many elements that reads a map first."""
        for reader in readers:
            home = self.home[reader]
            if home.axes not in (None, "window") and not home.contraction and home.domain == made:
                return home
        return None

    def _fits(self, number: int, into: Draft) -> bool:
        """Whether nothing that a map reads depends on the group that the map would move to."""
        read = {self.home[self.maker[one]] for one in self.bases(number) if one in self.maker}
        return len(into.nodes) < LONGEST and not any(
            one is not into and (into.number in self.feeding(one) or self.reaches(one, into)) for one in read
        )
