"""Writes a design down: the `Model` of the task and the `ModelNew` that answers it, each in a style of its own.

What varies: names of sizes and inputs, order of constructor arguments, one assignment an operator or one expression,
modules or functions, docstrings, annotations, how the base class is called, kernels launched in `forward` or by a
function. Weights are made by the same lines in both, so that one seed gives both the same.
"""

from __future__ import annotations

import ast
import hashlib
import random
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kernelwright.data.families.spec import Design, Draw, Op, Size
from kernelwright.data.operators import HELPERS
from kernelwright.records import Task

SIZE_NAMES: Mapping[str, tuple[str, ...]] = {
    "B": ("B", "BATCH", "batch_size"),
    "M": ("M", "ROWS", "rows"),
    "N": ("N", "COLS", "dim"),
    "K": ("K", "INNER", "inner"),
    "C": ("C", "CHANNELS", "channels"),
    "CI": ("CI", "IN_CHANNELS", "in_channels"),
    "CO": ("CO", "OUT_CHANNELS", "out_channels"),
    "H": ("H", "HEIGHT", "height"),
    "W": ("W", "WIDTH", "width"),
    "D": ("D", "DEPTH", "depth"),
    "L": ("L", "LENGTH", "length"),
    "S": ("S", "SEQ", "seq_len"),
    "E": ("E", "HEAD_DIM", "head_dim"),
    "HEADS": ("HEADS", "num_heads", "n_heads"),
    "V": ("V", "VOCAB", "vocab_size"),
    "F": ("FEATURES", "features", "hidden"),
}
"""Other names of a size constant."""
INPUT_NAMES: Mapping[str, tuple[str, ...]] = {
    "x": ("x", "x", "inp", "input_tensor"),
    "a": ("a", "A", "lhs", "left"),
    "b": ("b", "B", "rhs", "right"),
    "other": ("other", "y", "residual"),
    "third": ("third", "z", "extra"),
    "pred": ("pred", "predictions", "prediction", "output"),
    "target": ("target", "targets", "labels"),
}
DOCSTRINGS = ("{ops}.", "Computes {ops}.", "Model that performs {ops}.", "A simple module: {ops}.", "{ops}")


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


def write(name: str, category: str, design: Design, draw: Draw, spellings: int = 1) -> Pair:
    """The pair of a design of the family `name`, its task written in `spellings` styles."""
    rng = draw.rng
    arguments = list(dict.fromkeys(pair for op in design.ops for pair in op.init))
    if rng.random() < 0.4:
        rng.shuffle(arguments)
    inputs = list(dict.fromkeys(pair for op in design.ops for pair in op.inputs))
    ops = [op for op in design.ops if op.name]
    graph = hashlib.sha256(";".join(op.name for op in ops).encode()).hexdigest()[:16]
    seeds = [rng.random() for _ in range(max(1, spellings) - 1)]
    task = _task(name, category, design, arguments, inputs, graph, rng)
    others = [_task(name, category, design, arguments, inputs, graph, random.Random(seed)) for seed in seeds]
    code = _answer(design, arguments, [given for given, _ in inputs], draw)
    return Pair(task, code, graph, len(ops), tuple(others))


def _task(
    name: str,
    category: str,
    design: Design,
    arguments: Sequence[tuple[str, str]],
    inputs: Sequence[tuple[str, str]],
    graph: str,
    rng: random.Random,
) -> Task:
    """The task in a style that `rng` draws."""
    sizes = _renaming(rng, design.sizes, SIZE_NAMES)
    names = _renaming(
        rng,
        [given for given, _ in inputs],
        INPUT_NAMES,
        {given for given, _ in arguments} | {*sizes.values()},
    )
    source = _model(design.ops, arguments, inputs, design.sizes, sizes, names, rng)
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


def _renaming(
    rng: random.Random,
    given: Sequence[str] | Mapping[str, object],
    table: Mapping[str, tuple[str, ...]],
    taken: Collection[str] = (),
) -> dict[str, str]:
    """A new name for each of `given`, of one style, without collisions."""
    style = rng.randrange(4)
    found: dict[str, str] = {}
    for name in given:
        options = table.get(name, (name,))
        chosen = options[min(style, len(options) - 1)] if style < 3 else options[0]
        while chosen in found.values() or chosen in taken:
            chosen = (
                name if chosen != name and name not in found.values() and name not in taken else f"{chosen}_"
            )
        found[name] = chosen
    return found


def _replace(text: str, names: Mapping[str, str]) -> str:
    """`text` with free names replaced; attributes and keywords stay."""
    if not names:
        return text
    pattern = (
        r"(?<![\w.{])(" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + r")\b(?!=[^=])"
    )
    return re.sub(pattern, lambda match: names[match[1]], text)


def _model(
    ops: Sequence[Op],
    arguments: Sequence[tuple[str, str]],
    inputs: Sequence[tuple[str, str]],
    values: Mapping[str, Size],
    sizes: Mapping[str, str],
    names: Mapping[str, str],
    rng: random.Random,
) -> str:
    typed, modules = rng.random() < 0.3, rng.random() < 0.5
    layout = rng.choice(("steps", "steps", "nested", "names"))
    state = [line for op in ops for line in op.state]
    body: list[str] = []
    value = next(iter(names.values()), "x")
    first = True
    taken = {line.split(" = ")[0].removeprefix("self.") for line in state}
    for position, op in enumerate(ops):
        body += [_replace(line, names) for line in op.lines]
        expression = _replace(op.expression, names)
        if op.module and modules:
            stem = re.sub(r"\W.*", "", op.module.removeprefix("nn.")).lower()
            attribute = next(n for n in (stem, *(f"{stem}{i}" for i in range(2, 9))) if n not in taken)
            taken.add(attribute)
            state.append(f"self.{attribute} = {op.module}")
            expression = f"self.{attribute}({{x}})"
        expression = _filled(expression, value)
        last = position == len(ops) - 1
        nests = layout == "nested" and len(expression) < 60 and not op.lines
        if (nests and (first or value.isidentifier() or expression.count(value) == 1)) or (
            last and layout != "names"
        ):
            value = expression
        else:
            value = f"h{position + 1}" if layout == "names" else names.get("x", "out")
            if any(
                re.search(rf"\b{re.escape(value)}\b", _replace(o.expression, names))
                for o in ops[position + 1 :]
            ):
                value = f"h{position + 1}"
            body.append(f"{value} = {expression}")
        first = False
    body.append(f"return {value}")
    hint = ": torch.Tensor" if typed else ""
    init = [_typed(given, value, typed) for given, value in arguments]
    lines = ["import torch", "import torch.nn as nn"]
    made = _inputs(inputs, names, sizes, rng.random() < 0.2)
    if any("F." in line for line in (*body, *made)):
        lines.append("import torch.nn.functional as F")
    lines += [
        "",
        *(f"{sizes[key]} = {size.full}" for key, size in values.items()),
        "",
        "",
        "class Model(nn.Module):",
    ]
    if rng.random() < 0.4:
        told = ", ".join(dict.fromkeys(op.name.split(":")[0].replace("_", " ") for op in ops if op.name))
        text = rng.choice(DOCSTRINGS).format(ops=told)
        lines += [f'    """{text[0].upper()}{text[1:]}"""', ""]
    parent = "super().__init__()" if rng.random() < 0.7 else "super(Model, self).__init__()"
    if init or state or rng.random() < 0.5:
        lines += [f"    def __init__({', '.join(['self', *init])}):", f"        {parent}"]
        lines += [*(f"        {line}" for line in state), ""]
    signature = ", ".join(["self", *(f"{names[given]}{hint}" for given, _ in inputs)])
    lines += [f"    def forward({signature}){' -> torch.Tensor' if typed else ''}:"]
    lines += [f"        {line}" for line in body]
    lines += ["", "", "def get_inputs():", *(f"    {line}" for line in made)]
    given = ", ".join(_replace(value, sizes) for _, value in arguments)
    lines += ["", "", "def get_init_inputs():", f"    return [{given}]", ""]
    return "\n".join(lines)


def _inputs(
    inputs: Sequence[tuple[str, str]], names: Mapping[str, str], sizes: Mapping[str, str], named: bool
) -> list[str]:
    """The body of `get_inputs`: one list, or a name for each tensor."""
    line = f"return [{', '.join(_replace(made, sizes) for _, made in inputs)}]"
    if not (named or len(line) > 90 or ";" in line):
        return [line]
    lines = []
    for given, made in inputs:
        name, (first, _, then) = names[given], _replace(made, sizes).partition("; ")
        lines.append(f"{name} = {first}")
        if then:
            lines.append(f"{name} = {then.replace('{m}', name)}")
    return [*lines, f"return [{', '.join(names[given] for given, _ in inputs)}]"]


def _typed(name: str, value: str, typed: bool) -> str:
    if not typed:
        return name
    return f"{name}: {'float' if '.' in value or 'e-' in value else 'int'}"


def _filled(expression: str, value: str) -> str:
    """`expression` with `{x}` filled in, in parentheses where the value is no atom and its place would bind."""
    if "{x}" not in expression:
        return expression
    atomic = isinstance(
        ast.parse(value, mode="eval").body, ast.Name | ast.Attribute | ast.Call | ast.Subscript
    )
    if not atomic and re.search(r"\{x\}( [-+*/@]|\.|\[)|[-+*/@] ?\{x\}", expression):
        value = f"({value})"
    return expression.replace("{x}", value)


def _answer(design: Design, arguments: Sequence[tuple[str, str]], inputs: Sequence[str], draw: Draw) -> str:
    """The module of the kernels."""
    tune = draw.tune
    helpers = dict.fromkeys(name for stage in design.stages for name in stage.helpers)
    parts = ["import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl"]
    if draw.constants:
        parts[0] += "\n\n" + "\n".join(f"{name} = {value}" for name, value in draw.constants.items())
    parts += [f"@triton.jit\n{HELPERS[name]}" for name in helpers]
    kernels: dict[str, None] = {}
    inline = len(design.stages) == 1 and tune.random() < 0.5
    calls: list[str] = []
    value = inputs[0]
    functions: list[str] = []
    for position, stage in enumerate(design.stages):
        kernels.update(dict.fromkeys(stage.kernels))
        passed = {given: expression.replace("{x}", value) for given, expression in stage.takes}
        if inline:
            calls += [_replace(line, {k: v for k, v in passed.items() if k != v}) for line in stage.body]
            break
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
            value = inputs[0] if inputs[0] not in later else "h"
            calls.append(f"{value} = {call}")
    state = [line for op in design.ops for line in op.state]
    model = ["class ModelNew(nn.Module):"]
    if arguments or state or tune.random() < 0.3:
        model += [f"    def __init__({', '.join(['self', *(name for name, _ in arguments)])}):"]
        model += ["        super().__init__()", *(f"        {line}" for line in state), ""]
    model += [f"    def forward({', '.join(['self', *inputs])}):", *(f"        {line}" for line in calls)]
    return "\n\n\n".join([*parts, *kernels, *functions, "\n".join(model)]) + "\n"
