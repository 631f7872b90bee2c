"""Writes a design down: the task in one or more wordings (`reference.py`), and the `ModelNew` that answers all of them.

Weights are made by the same lines in both, so that one seed gives both the same. What the wordings share, because a
`ModelNew` must share it: inputs and constructor arguments in their order, and the defaults of those.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.data import edits
from kernelwright.data.families.dress import dress
from kernelwright.data.families.reference import Argument, wrapped, write_reference
from kernelwright.data.families.spec import Design, Draw
from kernelwright.data.numbering import plain
from kernelwright.policy.compiler.helpers import HELPERS
from kernelwright.records import Task


@dataclass(frozen=True)
class Pair:
    """A task and a kernel for it."""

    task: Task
    code: str
    graph: str
    """Digest of the operator graph: operators and wiring, no sizes, no precision."""
    operators: int
    others: tuple[Task, ...] = ()
    """The same task, sizes and all, in other words: `code` answers each of them."""
    marked: str = ""
    """`code` with the reference's steps marked, for `numbering`."""


def write(name: str, category: str, design: Design, draw: Draw, spellings: int = 1) -> Pair:
    """The pair of a design of the family `name`, its task written in `spellings` styles."""
    rng = draw.rng
    design = dress(design, draw)
    given = list(dict.fromkeys(pair for op in design.ops for pair in op.init))
    if rng.random() < 0.15:
        rng.shuffle(given)
    arguments = [Argument(key, value) for key, value in given]
    if rng.random() < 0.5:
        arguments = with_defaults(arguments, design)
    inputs = list(dict.fromkeys(pair for op in design.ops for pair in op.inputs))
    ops = [op for op in design.ops if op.name]
    graph = hashlib.sha256(";".join(op.name for op in ops).encode()).hexdigest()[:16]
    seeds = [rng.random() for _ in range(max(1, spellings) - 1)]
    task = _task(name, category, design, arguments, inputs, graph, rng)
    others = [_task(name, category, design, arguments, inputs, graph, random.Random(seed)) for seed in seeds]
    code = _answer(design, arguments, [given for given, _ in inputs], draw)
    return Pair(task, plain(code), graph, len(ops), tuple(others), code)


def with_defaults(arguments: list[Argument], design: Design) -> list[Argument]:
    """The last arguments, as far as they are plain values, get those as defaults."""
    found = list(arguments)
    for place in range(len(found) - 1, 0, -1):
        if any(key in found[place].value for key in design.sizes):
            break
        found[place] = Argument(found[place].name, found[place].value, True)
    return found


def _task(
    name: str,
    category: str,
    design: Design,
    arguments: Sequence[Argument],
    inputs: Sequence[tuple[str, str]],
    graph: str,
    rng: random.Random,
) -> Task:
    """The task in a style that `rng` draws."""
    source, sizes = write_reference(design, arguments, inputs, rng)
    digest = hashlib.sha256(source.encode()).hexdigest()[:8]
    return Task(
        id=f"families/{name}-{graph[:8]}-{digest}",
        suite="families",
        source=source,
        dtype=design.dtype,
        shapes={
            "small": {sizes[key]: size.small for key, size in design.sizes.items()},
            "small_odd": {sizes[key]: size.odd for key, size in design.sizes.items()},
        },
        family=category,
        difficulty=sum(bool(op.name) for op in design.ops),
    )


def _answer(design: Design, arguments: Sequence[Argument], inputs: Sequence[str], draw: Draw) -> str:
    """The module of the kernels."""
    helpers = dict.fromkeys(name for stage in design.stages for name in stage.helpers)
    parts = ["import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl"]
    if draw.constants:
        parts[0] += "\n\n" + "\n".join(f"{name} = {value}" for name, value in draw.constants.items())
    parts += [f"@triton.jit\n{HELPERS[name]}" for name in helpers]
    kernels: dict[str, None] = {}
    calls: list[str] = []
    value = inputs[0]
    functions: list[str] = []
    for position, stage in enumerate(design.stages):
        kernels.update(dict.fromkeys(stage.kernels))
        passed = {given: expression.replace("{x}", value) for given, expression in stage.takes}
        name = stage.name
        head = f"def {name}({', '.join(passed)}):"
        text = "\n".join([head, *(f"    {line}" for line in stage.body)])
        if text not in functions:
            functions.append(text)
        call = f"{name}({', '.join(passed.values())})"
        if position == len(design.stages) - 1:
            calls.append(f"return {call}")
        else:
            later = [e for s in design.stages[position + 1 :] for _, e in s.takes]
            value = stage.result or (inputs[0] if inputs[0] not in later else "h")
            calls.append(f"{value} = {call}")
    state = [line for op in design.ops for line in op.state]
    model = ["class ModelNew(nn.Module):"]
    if arguments or state:
        signature = ", ".join(["self", *(given.signature for given in arguments)])
        model += wrapped(f"    def __init__({signature}):")
        model += ["        super().__init__()"]
        model += [part for line in state for part in wrapped(f"        {line}")]
        model.append("")
    model.append(f"    def forward({', '.join(['self', *inputs])}):")
    model += [part for line in calls for part in wrapped(f"        {line}")]
    return edits.once("\n\n\n".join([*parts, *kernels, *functions, "\n".join(model)]) + "\n")
