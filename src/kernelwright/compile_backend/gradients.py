"""A convolution's gradients one by one, so that each may have a kernel, and together again where none has.

cuDNN computes them one after the other in either form, so nothing is lost by asking for each alone.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

_BACKWARD = torch.ops.aten.convolution_backward.default
_WANTED = 10
"""Where the call says which of its three results are asked for."""


def apart(graph: fx.Graph) -> list[list[fx.Node]]:
    """Each call that asks for several gradients becomes one for each, in place; the calls that were one."""
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
    """Those calls of one that are all still there become one again."""
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
    """The same call before it, for some of the results."""
    wanted = [place in places for place in range(3)]
    with graph.inserting_before(node):
        made = graph.call_function(_BACKWARD, (*node.args[:_WANTED], wanted))
    values = node.meta["val"]
    made.meta = {
        **node.meta, "val": tuple(one if keep else None for one, keep in zip(values, wanted, strict=True)),
    }  # fmt: skip
    return made
