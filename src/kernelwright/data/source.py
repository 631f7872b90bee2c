"""Writes a graph as a `Model` in the KernelBench form, in one of many honest styles, with its shape sets.

The style is plain data, so that a corpus can be narrow (the laptop's) or wide. Sizes are module-level constants,
which is how shape sets reach them. Does not guarantee any formatting beyond valid Python.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelwright.data.graphs import Graph, Step
from kernelwright.data.operators import POINTWISE, ROWS

INPUT_NAMES = (("x", "y", "z"), ("a", "b", "c"), ("x", "other", "third"), ("inp", "rhs", "aux"))
SIZE_NAMES = {
    2: (("B", "N"), ("M", "N"), ("ROWS", "COLS"), ("batch_size", "dim")),
    3: (("B", "S", "N"), ("BATCH", "SEQ", "DIM"), ("batch_size", "seq_len", "dim")),
}
DOCSTRINGS = ("{ops} in sequence.", "Applies {ops}.", "Computes {ops} on the last dimension.", "{ops}")


@dataclass(frozen=True)
class Style:
    """How a reference is written."""

    spelling: int | Literal["call"] | None = 0
    """Index into each operator's spellings (the last when there are fewer); `call` takes the first that is a call
    of a torch function; None draws one per step."""
    layout: Literal["steps", "nested", "names", "modules"] = "steps"
    """One assignment per operator, one return expression, a name for every step's value (which the kernel then
    uses too), or `nn` modules where there are any."""
    inputs: tuple[str, ...] = INPUT_NAMES[0]
    sizes: tuple[str, ...] = SIZE_NAMES[2][0]
    docstring: str = ""
    typed: bool = False
    constants_in_init: bool = False
    """Constants of the graph arrive through `__init__` instead of standing in `forward`."""


@dataclass(frozen=True)
class Reference:
    """A written reference and the names that a kernel for it must share."""

    source: str
    inputs: tuple[str, ...]
    """Forward's arguments."""
    operands: tuple[str, ...]
    """For each step: the expression of its second operand in `forward` (empty without one)."""
    constants: tuple[tuple[str, ...], ...]
    """For each step: its constants as they stand in `forward`: literals or `self.alpha`."""
    init: tuple[str, ...]
    """Body lines of `__init__` after the super call that a `ModelNew` must repeat (state)."""
    init_arguments: tuple[str, ...]
    named: bool = False
    """The value after step i is called `h{i + 1}`."""


def draw_style(rng: random.Random, graph: Graph, wide: bool) -> Style:
    """A random style; `wide` uses every option, otherwise the few that a very small model can learn."""
    if not wide:
        return Style(spelling="call", layout="names", sizes=SIZE_NAMES[graph.rank][0])
    return Style(
        spelling=rng.choice((0, 1, 2, None)),
        layout=rng.choice(("steps", "nested", "names", "modules")),
        inputs=rng.choice(INPUT_NAMES),
        sizes=rng.choice(SIZE_NAMES[graph.rank]),
        docstring=rng.choice(("", "", *DOCSTRINGS)),
        typed=rng.random() < 0.3,
        constants_in_init=rng.random() < 0.25,
    )


def write(graph: Graph, style: Style, sizes: Mapping[str, int], rng: random.Random) -> Reference:
    """The `Model` source of `graph` with module-level constants `sizes` (keys as `style.sizes`)."""
    names = list(style.inputs)
    inputs, tensors = [names[0]], [f"torch.randn({', '.join(style.sizes)})"]
    init: list[str] = []
    arguments: list[str] = []
    values: list[str] = []
    operands: list[str] = []
    constants: list[tuple[str, ...]] = []
    width = style.sizes[-1]
    for step in graph.steps:
        operand = ""
        if step.operand == "first":
            operand = names[0]
        elif step.operand == "parameter":
            attribute = _fresh("bias" if step.op in ("add", "sub") else "weight", init)
            if width.lower() not in arguments:
                arguments.append(width.lower())
                values.append(width)
            init.append(f"self.{attribute} = nn.Parameter(torch.randn({width.lower()}))")
            operand = f"self.{attribute}"
        elif step.operand:
            operand = names[len(inputs)]
            inputs.append(operand)
            tensors.append(tensors[0] if step.operand == "input" else f"torch.randn({width})")
        operands.append(operand)
        literal = tuple(repr(value) for value in step.constants)
        if literal and style.constants_in_init:
            held = []
            for value in literal:
                attribute = _fresh("alpha", init)
                arguments.append(attribute)
                values.append(value)
                init.append(f"self.{attribute} = {attribute}")
                held.append(f"self.{attribute}")
            literal = tuple(held)
        constants.append(literal)
    state = tuple(init)
    body = _body(graph.steps, style, operands, constants, init, rng)
    hint = ": torch.Tensor" if style.typed else ""
    signature = ", ".join(["self", *(f"{name}{hint}" for name in inputs)])
    lines = ["import torch", "import torch.nn as nn"]
    if any("F." in line for line in body):
        lines.append("import torch.nn.functional as F")
    lines += ["", *(f"{name} = {sizes[name]}" for name in style.sizes), "", "", "class Model(nn.Module):"]
    if style.docstring:
        ops = ", ".join(step.op for step in graph.steps)
        lines += [f'    """{style.docstring.format(ops=ops)}"""', ""]
    lines += [f"    def __init__({', '.join(['self', *arguments])}):", "        super().__init__()"]
    lines += [f"        {line}" for line in init]
    lines += ["", f"    def forward({signature}){' -> torch.Tensor' if style.typed else ''}:"]
    lines += [f"        {line}" for line in body]
    lines += ["", "", "def get_inputs():", f"    return [{', '.join(tensors)}]"]
    lines += ["", "", "def get_init_inputs():", f"    return [{', '.join(values)}]", ""]
    return Reference(
        "\n".join(lines),
        tuple(inputs),
        tuple(operands),
        tuple(constants),
        state,
        tuple(arguments),
        style.layout == "names",
    )


def spell(step: Step, style: Style, value: str, operand: str, constants: Sequence[str], pick: float) -> str:
    """One step as a PyTorch expression over `value`."""
    spellings = ROWS[step.op].spellings if step.row else POINTWISE[step.op].spellings
    if style.spelling == "call":
        spelling = next((s for s in spellings if s.startswith(("torch.", "F."))), spellings[0])
    elif style.spelling is None:
        spelling = spellings[int(pick * len(spellings))]
    else:
        spelling = spellings[min(style.spelling, len(spellings) - 1)]
    if not _atomic(value) and re.search(r"\{x\}( [-+*/]|\.|\[)|[-+*/] ?\{x\}", spelling):
        value = f"({value})"
    return spelling.format(x=value, y=operand, **dict(zip("cd", constants, strict=False)))


def _body(
    steps: Sequence[Step],
    style: Style,
    operands: Sequence[str],
    constants: Sequence[tuple[str, ...]],
    init: list[str],
    rng: random.Random,
) -> list[str]:
    """The lines of `forward`; appends module definitions to `init` for the layout that uses them."""
    first = style.inputs[0]
    keeps_first = "first" in {step.operand for step in steps}
    value = first
    body: list[str] = []
    for position, (step, operand, constant) in enumerate(zip(steps, operands, constants, strict=True)):
        module = ROWS[step.op].module if step.row else POINTWISE[step.op].module
        if style.layout == "modules" and module and not style.constants_in_init:
            attribute = _fresh("softmax" if step.row else "act", init)
            init.append(f"self.{attribute} = {module.format(**dict(zip('cd', constant, strict=False)))}")
            expression = f"self.{attribute}({value})"
        else:
            expression = spell(step, style, value, operand, constant, rng.random())
        last = position == len(steps) - 1
        nests = style.layout == "nested" and (value.isidentifier() or expression.count(value) == 1)
        if nests or (last and len(steps) == 1 and style.layout != "names"):
            value = expression
        else:
            value = f"h{position + 1}" if style.layout == "names" else ("h" if keeps_first else first)
            body.append(f"{value} = {expression}")
    return [*body, f"return {value}"]


def _atomic(expression: str) -> bool:
    """Whether the expression is a name, or one call, so that an operator may touch it without parentheses."""
    return isinstance(ast.parse(expression, mode="eval").body, ast.Name | ast.Attribute | ast.Call)


def _fresh(stem: str, init: Sequence[str]) -> str:
    taken = {line.split(" = ")[0].removeprefix("self.") for line in init}
    return (
        stem if stem not in taken else next(f"{stem}{i}" for i in range(2, 99) if f"{stem}{i}" not in taken)
    )
