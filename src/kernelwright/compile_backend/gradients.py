"""Splits a convolution's gradients into separate calls, so that each may have a kernel, and merges those that got none.

cuDNN computes them one after the other in either form, so splitting costs nothing.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

_BACKWARD = torch.ops.aten.convolution_backward.default
_WANTED = 10
"""Index of the argument that says which of the three results are wanted."""


def apart(graph: fx.Graph) -> list[list[fx.Node]]:
    """Split each call for several gradients, in place, into one call per gradient. Returns these calls by original call."""
    found = []
    for node in list(graph.find_nodes(op="call_function", target=_BACKWARD)):
        reads = [user for user in node.users if user.target is operator.getitem]
        places = sorted({int(user.args[1]) for user in reads})
        if len(places) < 2 or len(reads) < len(node.users) or "val" not in node.meta:
            continue
        parts = {place: _asking(graph, node, (place,)) for place in places}
        for read in reads:
            read.replace_input_with(node, parts[int(read.args[1])])
        graph.erase_node(node)
        found.append(list(parts.values()))
    return found


def together(graph: fx.Graph, were: list[list[fx.Node]]) -> None:
    """Merge the calls of one original call again if all still exist."""
    for parts in were:
        if not all(part.users for part in parts):
            continue
        first = parts[0]
        places = tuple(place for part in parts for place in _places(part))
        whole = _asking(graph, first, places)
        values: list[torch.Tensor | None] = [None, None, None]
        for part in parts:
            for place in _places(part):
                values[place] = part.meta["val"][place]
            part.replace_all_uses_with(whole)
        whole.meta["val"] = tuple(values)
        for part in parts:
            graph.erase_node(part)


def _places(node: fx.Node) -> tuple[int, ...]:
    return tuple(place for place, wanted in enumerate(node.args[_WANTED]) if wanted)  # type: ignore[arg-type]


def _asking(graph: fx.Graph, node: fx.Node, places: tuple[int, ...]) -> fx.Node:
    """Insert the same call before it, for only some of the results."""
    wanted = [place in places for place in range(3)]
    with graph.inserting_before(node):
        made = graph.call_function(_BACKWARD, (*node.args[:_WANTED], wanted))
    values = node.meta["val"]
    made.meta = {
        **node.meta, "val": tuple(one if keep else None for one, keep in zip(values, wanted, strict=True)),
    }  # fmt: skip
    return made
