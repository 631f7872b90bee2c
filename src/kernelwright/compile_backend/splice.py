"""Replaces groups of nodes in Inductor's functional ATen graphs by operators.

The graph is cut into stretches of calls that a `Graph` can represent, between calls that it cannot (random numbers,
higher-order operators, writes). A stretch becomes a Graph and is cut into groups in several ways (`graph/neighbours.py`). Each
region uses the cut whose operators, given by `choose`, save most, and the stretch is rewritten with calls of them. Stretches
without an operator are not changed.

A stretch that cannot be translated is skipped: never an error for the user's model.
"""

from __future__ import annotations

import contextlib
import logging
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, statically_known_true, sym_eq

from kernelwright.compile_backend.grouping import Choose, best_of
from kernelwright.errors import UserError, one_line
from kernelwright.graph import Graph, sizes
from kernelwright.graph.fx import to_fx
from kernelwright.graph.neighbours import cuts, distinct_groups, regions, rivals
from kernelwright.graph.normalise import Converted, from_fx
from kernelwright.graph.partition import Group
from kernelwright.graph.task import densify
from kernelwright.graph.types import NumberType

logger = logging.getLogger(__name__)

_REFUSED = (UserError, ValueError, KeyError, NotImplementedError, GuardOnDataDependentSymNode)
"""Errors which mean that a stretch cannot be represented or rewritten; any other is our bug, and logged as a warning."""


@dataclass
class Spliced:
    """What was done to an fx graph."""

    groups: list[Group] = field(default_factory=list)
    """All groups found, in every cut of the graph."""
    replaced: list[tuple[Group, str]] = field(default_factory=list)
    """Groups that became operators, with the operator's name."""
    saves: float = 0.0
    """Sum of the milliseconds that each of these saves on its own."""
    rivals: dict[str, set[str]] = field(default_factory=dict)
    """Digest of a group -> digests of groups that share a node with it: only one of them can be replaced."""
    left: list[str] = field(default_factory=list)
    """Why stretches were skipped, one line each."""


def stretches(graph: fx.Graph) -> Iterator[list[fx.Node]]:
    """Runs of consecutive nodes that a Graph can represent. A getitem on the result of an outside call is not part of a run."""
    run: list[fx.Node] = []
    held: set[fx.Node] = set()
    for node in graph.nodes:
        if node.target is operator.getitem and node.args[0] not in held:
            continue
        if _can_be_held(node):
            run.append(node)
            held.add(node)
        elif node.op not in ("placeholder", "get_attr") and run:
            yield run
            run, held = [], set()
    if run:
        yield run


def groups_of(graph: fx.Graph) -> list[Group]:
    """All groups of an fx graph in every cut, coarsest first, for a search; stretches that cannot be represented have none."""
    found: list[Group] = []
    for run in stretches(graph):
        try:
            found.extend(distinct_groups(cuts(_extract(run)[0].graph)))
        except Exception as error:
            _leave(error)
    return found


def splice(graph: fx.Graph, choose: Choose) -> Spliced:
    """Replace groups of `graph` in place by the operators that `choose` gives. Returns what was done."""
    done = Spliced()
    for run in list(stretches(graph)):
        try:
            converted, inputs, outputs = _extract(run)
            found = cuts(converted.graph)
        except Exception as error:
            done.left.append(_leave(error))
            continue
        groups = distinct_groups(found)
        done.groups.extend(groups)
        for digest, others in rivals(found).items():
            done.rivals.setdefault(digest, set()).update(others)
        options = {group: option for group in groups if (option := choose(group)) is not None}
        if not options:
            continue
        try:
            chosen, new = best_of(converted.graph, regions(found), options)
            _write(graph, run, converted, inputs, outputs, new)
        except Exception as error:
            done.left.append(_leave(error))
            continue
        done.replaced.extend((group, option.operator.name()) for group, option in chosen.items())
        done.saves += sum(option.saves for option in chosen.values())
    if done.replaced:
        graph.eliminate_dead_code()
        graph.lint()
    return done


def _can_be_held(node: fx.Node) -> bool:
    """Whether a node is a call of a pure operator with known types."""
    if node.op != "call_function" or "val" not in node.meta:
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        plain = node.target.namespace in ("aten", "prims") and not node.target._schema.is_mutable
        return plain and torch.Tag.nondeterministic_seeded not in node.target.tags
    return getattr(node.target, "__module__", "") in (
        "_operator",
        "builtins",
        "math",
        "torch.utils._sympy.functions",
    )


def _extract(run: Sequence[fx.Node]) -> tuple[Converted, list[fx.Node], list[fx.Node]]:
    """A stretch as its own graph, with the nodes it reads and those of its nodes that others read."""
    members = set(run)
    inputs = list(dict.fromkeys(read for node in run for read in node.all_input_nodes if read not in members))
    outputs = [node for node in run if any(user not in members for user in node.users)]
    # Values that are not tensors stay inside a stretch.
    outputs = [node for node in outputs if isinstance(node.meta["val"], torch.Tensor)]
    alone = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    for number, node in enumerate(inputs):
        copied[node] = alone.placeholder(f"x{number}")
        copied[node].meta = dict(node.meta)
    for node in run:
        copied[node] = alone.node_copy(node, lambda old: copied[old])
        copied[node].meta = dict(node.meta)
    alone.output(tuple(copied[node] for node in outputs))
    converted = from_fx(fx.GraphModule(torch.nn.Module(), alone))
    given = any(isinstance(one.type, NumberType) for one in converted.graph.arguments)
    graph = converted.graph if given else sizes.independent(converted.graph)
    return replace(converted, graph=densify(graph)), inputs, outputs


def _write(
    graph: fx.Graph,
    run: Sequence[fx.Node],
    converted: Converted,
    inputs: Sequence[fx.Node],
    outputs: Sequence[fx.Node],
    new: Graph,
) -> None:
    """Insert `new` after the stretch and redirect the stretch's users to it. Raises before anything is changed."""
    device = next(node.meta["val"].device for node in outputs)
    written = to_fx(new, device=device)
    given = {
        converted.placeholders[f"x{number}"]: node
        for number, node in enumerate(inputs)
        if f"x{number}" in converted.placeholders
    }
    copied: dict[fx.Node, Any] = {}
    added: list[fx.Node] = []
    try:
        with graph.inserting_before(run[-1].next):
            for node in written.graph.nodes:
                if node.op == "placeholder":
                    copied[node] = given[node.name]
                elif node.op == "output":
                    results = [copied[one] for one in node.args[0]]
                else:
                    made = graph.node_copy(_as_inductor_has_it(node), lambda old: copied[old])
                    added.append(made)
                    made.meta = {"val": _compute(made)}
                    copied[node] = made
        now = dict(zip(new.results, results, strict=True))
        pairs = [
            (old, now[name])
            for old, name in zip(outputs, converted.outputs, strict=True)
            if isinstance(name, str)
        ]
        saved = _saved(graph)
        for old, one in pairs:
            made, was = one.meta["val"], old.meta["val"]
            if made.shape != was.shape or made.dtype != was.dtype:
                raise ValueError(f"{old.name} would become {made}")
            free = any(isinstance(by, torch.SymInt) for by in (*made.stride(), *was.stride()))
            if free and old in saved and not statically_known_true(sym_eq(made.stride(), was.stride())):
                raise ValueError(
                    f"{old.name} would be in another layout, whose strides AOTAutograd takes for fixed"
                )
    except Exception:
        for node in reversed(added):
            graph.erase_node(node)
        raise
    members = set(run)
    for old, one in pairs:
        old.replace_all_uses_with(one, delete_user_cb=lambda user: user not in members)


def _saved(graph: fx.Graph) -> set[fx.Node]:
    """What a forward graph keeps for its backward graph."""
    output = graph.output_node()
    shown = output.meta.get("user_visible_output_idxs", ())
    given = output.args[0] if isinstance(output.args[0], tuple | list) else output.args
    return {one for at, one in enumerate(given) if isinstance(one, fx.Node) and at not in shown}


def _as_inductor_has_it(node: fx.Node) -> fx.Node:
    """Replace a cast by the primitive that Inductor lowers: its own rule for `_to_copy` ran before this pass."""
    if node.target is torch.ops.aten._to_copy.default and set(node.kwargs) == {"dtype"}:
        node.target = torch.ops.prims.convert_element_type.default
        node.args, node.kwargs = (node.args[0], node.kwargs["dtype"]), {}
    return node


def _compute(node: fx.Node) -> Any:
    """A node's result on fake tensors. Constants that Inductor folded are real tensors, so they are made fake, too."""
    assert callable(node.target)
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
    mode = torch._guards.detect_fake_mode(torch.utils._pytree.tree_leaves((args, kwargs)))

    def faked(value: Any) -> Any:
        real = isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
        return mode.from_tensor(value) if real and mode is not None else value

    args, kwargs = torch.utils._pytree.tree_map(faked, (args, kwargs))
    with mode or contextlib.nullcontext():
        try:
            return node.target(*args, **kwargs)
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"{node.target}: {one_line(error)}") from None


def _leave(error: Exception) -> str:
    """Log why a stretch is skipped, unexpected errors as a warning, and return the reason."""
    expected = isinstance(error, _REFUSED)
    why = one_line(error) if expected else f"{type(error).__name__}: {one_line(error)}"
    logger.log(logging.INFO if expected else logging.WARNING, "kernelwright: left to Inductor: %s", why)
    return why
