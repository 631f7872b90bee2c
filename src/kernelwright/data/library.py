"""The library teacher: writes a stand-alone honest Triton module for a graph, in a chosen variant.

Only torch and triton, plain `@triton.jit`, an explicit launch, a `ModelNew` with the reference's signature and
state. A `Variant` is everything the writer is free to choose: how steps are grouped into kernels (fused, or one
kernel per operator, which moves more memory), whether a row is held at once or walked in tiles, tile, warps, names.
Slow variants are honest too: they make the other side of *improve* examples.

Inputs are taken to be contiguous, as `get_inputs` makes them, and below 2^31 elements.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Literal

from kernelwright.data.graphs import Graph
from kernelwright.data.numbering import marked
from kernelwright.data.operators import POINTWISE, ROWS
from kernelwright.data.source import Reference
from kernelwright.policy.compiler.helpers import HELPERS

BLOCKS = (64, 128, 256, 512, 1024)
ROW_BLOCKS = (256, 512, 1024, 2048)
WARPS = (1, 2, 4, 8)
REDUCE = {"sum": "tl.sum", "max": "tl.max", "min": "tl.min"}
EMPTY = {"sum": "0.0", "max": '-float("inf")', "min": 'float("inf")'}
LONG_NAMES = {
    "size": "n_elements",
    "n": "n_cols",
    "offs": "offsets",
    "cols": "col_offsets",
    "out": "output",
    "out_ptr": "output_ptr",
    "BLOCK": "BLOCK_SIZE",
}


@dataclass(frozen=True)
class Variant:
    """One way to write the kernel."""

    block: int = 1024
    """Elements a program handles at a time (pointwise kernels, and row kernels that walk)."""
    warps: int = 4
    fused: bool = True
    rows: Literal["whole", "walk"] = "whole"
    """Row kernels hold the whole row at once, or walk it in tiles, once per statistic and once to write.
    Pointwise kernels of a graph know no rows."""
    names: Literal["short", "long"] = "short"


def best_variant(graph: Graph, width: int) -> Variant:
    """The variant that should be fastest: fused, rows of `width` held whole, eight elements or so a thread."""
    if graph.row_index is None:
        return Variant()
    return Variant(warps=max(1, min(8, _power_of_2(width) // 256)))


def slower_variants(graph: Graph, width: int) -> list[Variant]:
    """Honest variants that should be slower than the best one: more launches, rows read again, idle threads."""
    best = best_variant(graph, width)
    plain = can_split(graph)
    if graph.row_index is None:
        thin = [replace(best, block=block, warps=8) for block in (128, 256)]
        thin.append(replace(best, block=128))
        return [*([replace(v, fused=False) for v in (best, *thin)] if plain else []), *thin]
    walks = [replace(best, rows="walk", block=block, warps=8) for block in (256, 512)]
    if width <= 1024:
        walks.append(replace(best, rows="walk", block=2048))
    return [*([replace(v, fused=False) for v in (best, *walks)] if plain else []), *walks]


def alike(rng: random.Random, graph: Graph, variant: Variant, width: int, wide: bool) -> Variant:
    """A variant of the same structure (launches, rows held or walked) with other tiles, warps and names."""
    names: Literal["short", "long"] = rng.choice(("short", "long")) if wide else "short"
    row = graph.row_index is not None
    # A long row in few warps would spill out of the registers, and take the compiler seconds.
    least = min(8, _power_of_2(width) // 1024) if row and variant.rows == "whole" else 1
    return replace(
        variant,
        block=rng.choice(ROW_BLOCKS if row else BLOCKS),
        warps=rng.choice([warps for warps in WARPS if warps >= least]),
        names=names,
    )


def can_split(graph: Graph) -> bool:
    """Whether the graph falls into more than one kernel when it is not fused."""
    return len(_groups(graph, fused=False)) > 1


def _power_of_2(number: int) -> int:
    return 1 << (number - 1).bit_length()


def write(graph: Graph, reference: Reference, variant: Variant, marks: bool = False) -> str:
    """The Triton module for `graph` whose reference was written as `reference`; with `marks` its steps are marked
    for `numbering`."""
    groups = _groups(graph, variant.fused)
    first, last = reference.inputs[0], len(groups) - 1
    like = f"{first}.new_empty({first}.shape[:-1])" if graph.reduces else f"torch.empty_like({first})"
    lines = [f"out = {like}"]
    middle = "out"
    if graph.reduces and last > 0:
        middle = "h"
        lines.insert(0, f"h = torch.empty_like({first})")
    kernels, launches = [], []
    source = first
    for position, group in enumerate(groups):
        target = "out" if position == last else middle
        name = "kernel" if last == 0 else f"kernel{position + 1}"
        kernel = _Kernel(graph, reference, group, variant, name, marks)
        kernels.append(kernel.text())
        launches.append(kernel.launch(source, target))
        source = target
    body = "\n".join(launches)
    lines += [f"n = {first}.shape[-1]"] * bool(re.search(r"\bn\b", body))
    lines += [f"size = {first}.numel()"] * bool(re.search(r"\bsize\b", body))
    head = ["import torch", "import torch.nn as nn", "import triton", "import triton.language as tl"]
    if "BLOCK," in body:
        head += ["", f"BLOCK = {variant.block}"]
    call = [f"    def forward({', '.join(['self', *reference.inputs])}):"]
    call += [f"        {line}" for line in (*lines, *launches, "return out")]
    names = dict.fromkeys(n for step in graph.steps if not step.row for n in POINTWISE[step.op].helpers)
    helpers = [f"@triton.jit\n{HELPERS[name]}" for name in names]
    init = []
    if reference.init_arguments:
        init = [
            f"    def __init__({', '.join(['self', *reference.init_arguments])}):",
            "        super().__init__()",
        ]
        init += [*(f"        {line}" for line in reference.init), ""]
    rename = _long if variant.names == "long" else str
    new = "\n".join(["class ModelNew(nn.Module):", *init, rename("\n".join(call))])
    return "\n\n\n".join([*(rename(part) for part in ("\n".join(head), *helpers, *kernels)), new]) + "\n"


def _groups(graph: Graph, fused: bool) -> list[range]:
    """Steps by kernel. Whatever follows a reduction stays with it: there is one number per row left."""
    count = len(graph.steps)
    if fused:
        return [range(count)]
    cut = count if graph.row_index is None or not graph.reduces else graph.row_index
    return [*(range(i, i + 1) for i in range(cut)), *([range(cut, count)] if cut < count else [])]


class _Kernel:
    """One kernel over the steps `group` of a graph."""

    def __init__(
        self, graph: Graph, reference: Reference, group: range, variant: Variant, name: str, marks: bool
    ):
        self.steps = [graph.steps[i] for i in group]
        self.constants = [reference.constants[i] for i in group]
        self.variant, self.name, self.main = variant, name, reference.inputs[0]
        self.row = next((i for i, step in enumerate(self.steps) if step.row), None)
        self.begins = group.start == 0
        self.arguments: list[str] = []
        """What the launch passes for each operand, in order of use."""
        self.vector: dict[str, bool] = {}
        self.values: list[str] = []
        """Per step, the name of the operand's value inside the kernel."""
        for step, index in zip(self.steps, group, strict=True):
            argument = reference.operands[index]
            value = argument.removeprefix("self.")
            if step.operand == "first" and not self.begins:
                value = "first"
            if argument and not (step.operand == "first" and self.begins) and value not in self.vector:
                self.arguments.append(argument)
                self.vector[value] = step.operand in ("vector", "parameter")
            self.values.append(value)
        held = [c for constants in self.constants for c in constants if c.startswith("self.")]
        self.scalars = [c.removeprefix("self.") for c in held]
        self.held = held
        uses_first = self.begins and any(step.operand == "first" for step in self.steps)
        self.target = "h" if uses_first else self.main
        self.names = [f"h{i + 1}" if reference.named and not marks else "" for i in group]
        """Per step, the name of its value where the reference gives it one. Marked ones get the lowered reference's."""
        row = len(graph.steps) if graph.row_index is None else graph.row_index
        self.tags = [f"{int(i > row)}.{i}" if marks else "" for i in group]
        """Per step, what it is marked with: those before and after the row operator are a chain each."""

    def launch(self, source: str, target: str) -> str:
        """The line that launches it from `source` into `target`."""
        row, whole = self.row is not None, self.variant.rows == "whole"
        sizes = ["n"] if row else (["size", "n"] if any(self.vector.values()) else ["size"])
        grid = f"{self.main}.numel() // n" if row else "triton.cdiv(size, BLOCK)"
        block = "triton.next_power_of_2(n)" if row and whole else "BLOCK"
        arguments = [
            source,
            *self.arguments,
            target,
            *sizes,
            *self.held,
            block,
            f"num_warps={self.variant.warps}",
        ]
        return f"{self.name}[({grid},)]({', '.join(arguments)})"

    def text(self) -> str:
        """The kernel's source."""
        pointers = [f"{self.main}_ptr", *(f"{value}_ptr" for value in self.vector), "out_ptr"]
        row = self.row is not None
        sizes = ["n"] if row else (["size", "n"] if any(self.vector.values()) else ["size"])
        parameters = ", ".join([*pointers, *sizes, *self.scalars, "BLOCK: tl.constexpr"])
        body = self._flat() if not row else self._whole() if self.variant.rows == "whole" else self._walk()
        return "\n".join(
            ["@triton.jit", f"def {self.name}({parameters}):", *(f"    {line}" for line in body)]
        )

    def _loads(self, steps: range, index: str, vector_index: str, other: str) -> list[str]:
        """Load the main value and the operands that `steps` need."""
        lines = [f"{self.main} = tl.load({self.main}_ptr + {index}, mask=mask{other})"]
        for value in dict.fromkeys(self.values[i] for i in steps if self.values[i] in self.vector):
            at = vector_index if self.vector[value] else index
            lines.append(f"{value} = tl.load({value}_ptr + {at}, mask=mask{other})")
        return lines

    def _apply(self, steps: range, value: str) -> tuple[list[str], str]:
        """The arithmetic of pointwise `steps`, from `value`; returns the lines and the name of the result."""
        lines = []
        for i in steps:
            target = self.names[i] or (value if value not in (self.main, self.target) else self.target)
            constants = dict(zip("cd", (c.removeprefix("self.") for c in self.constants[i]), strict=False))
            operator = POINTWISE[self.steps[i].op]
            line = f"{target} = {operator.triton.format(x=value, y=self.values[i], **constants)}"
            lines.append(marked(line, self.tags[i], operator.name) if self.tags[i] else line)
            value = target
        return lines, value

    def _flat(self) -> list[str]:
        steps = range(len(self.steps))
        lines = ["offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)", "mask = offs < size"]
        arithmetic, value = self._apply(steps, self.main)
        store = f"tl.store(out_ptr + offs, {value}, mask=mask)"
        return [*lines, *self._loads(steps, "offs", "offs % n", ""), *arithmetic, store]

    def _whole(self) -> list[str]:
        assert self.row is not None
        operator = ROWS[self.steps[self.row].op]
        lines = ["row = tl.program_id(0).to(tl.int64)", "cols = tl.arange(0, BLOCK)", "mask = cols < n"]
        lines += self._loads(range(len(self.steps)), "row * n + cols", "cols", ", other=0.0")
        before, value = self._apply(range(self.row), self.main)
        lines += before
        for stat in operator.statistics:
            masked = f"tl.where(mask, {stat.term.format(x=value)}, {EMPTY[stat.how]})"
            lines.append(f"{stat.name} = {stat.post.format(s=f'{REDUCE[stat.how]}({masked}, 0)')}")
        if operator.final is None:
            lines[-1] = self._marked(lines[-1])
        return lines + self._finish(value)

    def _marked(self, line: str) -> str:
        """The line whose value is the row operator's."""
        assert self.row is not None
        tag = self.tags[self.row]
        return marked(line, tag, self.steps[self.row].op) if tag else line

    def _finish(self, value: str) -> list[str]:
        """After the statistics: the final expression, the steps that follow, the store."""
        assert self.row is not None
        operator = ROWS[self.steps[self.row].op]
        after = range(self.row + 1, len(self.steps))
        if operator.final is None:
            lines, value = self._apply(after, operator.statistics[-1].name)
            return [*lines, f"tl.store(out_ptr + row, {value})"]
        target = self.names[self.row] or self.target
        final = f"{target} = {operator.final.format(x=value)}"
        lines, value = self._apply(after, target)
        return [self._marked(final), *lines, f"tl.store(out_ptr + row * n + cols, {value}, mask=mask)"]

    def _walk(self) -> list[str]:
        assert self.row is not None
        operator = ROWS[self.steps[self.row].op]
        before, value = self._apply(range(self.row), self.main)
        tile = [
            "for start in range(0, n, BLOCK):",
            "    cols = start + tl.arange(0, BLOCK)",
            "    mask = cols < n",
        ]

        def loads(steps: range) -> list[str]:
            return [f"    {line}" for line in self._loads(steps, "row * n + cols", "cols", ", other=0.0")]

        lines = ["row = tl.program_id(0).to(tl.int64)"]
        for stat in operator.statistics:
            lines.append(f"{stat.name} = tl.full([BLOCK], {EMPTY[stat.how]}, tl.float32)")
            lines += [*tile, *loads(range(self.row)), *(f"    {line}" for line in before)]
            term = f"tl.where(mask, {stat.term.format(x=value)}, {EMPTY[stat.how]})"
            joined = (
                f"{stat.name} + {term}" if stat.how == "sum" else f"tl.{stat.how}imum({stat.name}, {term})"
            )
            lines.append(f"    {stat.name} = {joined}")
            lines.append(f"{stat.name} = {stat.post.format(s=f'{REDUCE[stat.how]}({stat.name}, 0)')}")
        if operator.final is None:
            return [*lines[:-1], self._marked(lines[-1]), *self._finish(value)]
        lines += [*tile, *loads(range(len(self.steps))), *(f"    {line}" for line in before)]
        return lines + [f"    {line}" for line in self._finish(value)]


def _long(code: str) -> str:
    return re.sub(r"\b(" + "|".join(LONG_NAMES) + r")\b", lambda match: LONG_NAMES[match[1]], code)
