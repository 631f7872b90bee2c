"""Operator graphs: a typed sampler and a canonical digest. Whether a graph is sound, `probe` says.

A graph is a chain over one main value; a step may take a second operand (another input, a vector along the last
dimension that is an input or a parameter, or the graph's first input again), so residuals, gates, biases and
affine norms are all chains. At most one step works along rows; after a reduction only constants may join.

Does not guarantee that every graph is uniform in meaning: two digests may compute the same function.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelwright.data.config import CorpusConfig, Operand
from kernelwright.data.operators import POINTWISE, ROWS
from kernelwright.data.probe import is_sound


@dataclass(frozen=True)
class Step:
    """One operator application. `operand` says where `{y}` comes from; empty for unary operators."""

    op: str
    operand: Operand = ""
    constants: tuple[float, ...] = ()

    @property
    def row(self) -> bool:
        return self.op in ROWS


@dataclass(frozen=True)
class Graph:
    """A chain of steps over the first input. Example: `Graph((Step("relu"), Step("softmax")))`."""

    steps: tuple[Step, ...]
    rank: int = 2
    """Dimensions of the main input."""

    @property
    def row_index(self) -> int | None:
        """Position of the step that works along rows, or None for a pointwise graph."""
        return next((i for i, step in enumerate(self.steps) if step.row), None)

    @property
    def reduces(self) -> bool:
        index = self.row_index
        return index is not None and ROWS[self.steps[index].op].reduces

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Kinds of the extra inputs and parameters, in order of use (`first` is no extra input)."""
        return tuple(step.operand for step in self.steps if step.operand not in ("", "first"))

    @property
    def family(self) -> str:
        """The family name that tasks, curricula and cards count by."""
        index = self.row_index
        if len(self.steps) > 1:
            return "fusion"
        if index is None:
            return "activation" if not self.steps[0].operand else "elementwise"
        return "reduction" if self.reduces else "norm"

    @property
    def digest(self) -> str:
        """Identity of the operator graph: 16 hex digits over operators and wiring; no constants, no sizes."""
        body = ";".join(f"{step.op}:{step.operand}" for step in self.steps)
        return hashlib.sha256(body.encode()).hexdigest()[:16]


def draw(
    rng: random.Random,
    length: int,
    *,
    operators: Sequence[str] = (),
    row_share: float = 0.4,
    operand_share: float = 0.3,
    ranks: Sequence[int] = (2,),
    operands: Sequence[Operand] = ("input", "vector", "parameter", "first"),
) -> Graph:
    """A random graph of `length` steps, sound or not.

    `operators` restricts the vocabulary (all, when empty); `row_share` is the chance of a row step,
    `operand_share` the chance that a pointwise step takes a second operand.
    """
    names = tuple(operators) or (*POINTWISE, *ROWS)
    rows = [name for name in names if name in ROWS]
    unary = [name for name in names if name in POINTWISE and not POINTWISE[name].binary]
    binary = [name for name in names if name in POINTWISE and POINTWISE[name].binary]
    row_at = rng.randrange(length) if rows and (not unary or rng.random() < row_share) else None
    steps = _steps(rng, length, row_at, rows, unary, binary, operand_share, operands)
    return Graph(steps, rng.choice(list(ranks)))


def draw_sound(
    config: CorpusConfig, rng: random.Random, attempts: int, wanted: Callable[[Graph], bool] = lambda _: True
) -> Graph | None:
    """The first of so many graphs, drawn as `config` says, that is wanted and sound; None where none is."""
    for _ in range(attempts):
        graph = draw(
            rng,
            rng.choice(config.lengths),
            operators=config.operators,
            row_share=config.row_share,
            operand_share=config.operand_share,
            ranks=config.ranks,
            operands=config.operands,
        )
        if wanted(graph) and is_sound(graph.steps):
            return graph
    return None


def _steps(
    rng: random.Random,
    length: int,
    row_at: int | None,
    rows: list[str],
    unary: list[str],
    binary: list[str],
    operand_share: float,
    operands: Sequence[Operand],
) -> tuple[Step, ...]:
    steps: list[Step] = []
    extras = 0
    reduced = False
    for position in range(length):
        if position == row_at:
            steps.append(Step(rng.choice(rows)))
            reduced = ROWS[steps[-1].op].reduces
            continue
        kinds = [kind for kind in operands if (position > 0 if kind == "first" else extras < 2)]
        if binary and kinds and not reduced and (not unary or rng.random() < operand_share):
            name, operand = rng.choice(binary), rng.choice(kinds)
            extras += operand != "first"
        else:
            name, operand = rng.choice(unary), ""
        steps.append(Step(name, operand, tuple(rng.choice(values) for values in POINTWISE[name].constants)))
    return tuple(steps)
