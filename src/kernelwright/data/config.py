"""What a corpus is made of: one typed, frozen record, with the small corpus of `recipes/laptop.toml` as default.

Every field changes the corpus, so a folder made with one config is never continued with another.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kernelwright.config import DataConfig, Style, one_line
from kernelwright.data.operators import POINTWISE, ROWS
from kernelwright.errors import UserError, did_you_mean

Operand = Literal["", "input", "vector", "parameter", "first"]

LAPTOP_OPERATORS = (
    *("relu", "sigmoid", "exp", "abs", "neg", "square", "sin", "scale", "offset", "add", "mul", "sub"),
    *("softmax", "rmsnorm", "sum", "mean", "max"),
)
"""Operators whose kernels are a line or two and well conditioned, so that a very small model can learn them."""


class CorpusConfig(BaseModel):
    """What to synthesise, how to verify it, and for which model to write it down."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    train_graphs: int = Field(300, ge=0)
    """Different operator graphs to train on. A very small model learns from their number what it cannot from
    variants of few: at the same compute, 150 graphs eight times gave 15 % right on held-out ones, 1,000 once 32 %."""
    validation_graphs: int = Field(4, ge=0)
    heldout_graphs: int = Field(32, ge=0)
    """Graphs, at sizes of their own, that training never sees."""
    practice_graphs: int = Field(200, ge=0)
    """Graphs for which only the task is written, for reinforcement learning: nobody shows how."""
    variants: int = Field(2, ge=1)
    """*translate* examples of each training graph and each gold: names, tiles, warps, spelling, sizes."""
    improve: int = Field(1, ge=0)
    """*improve* examples of a training graph that has any: slower kernels shown for one task."""
    improve_share: float = Field(0.2, ge=0, le=1)
    """Share of the training graphs that have any."""
    heldout_improve: int = Field(0, ge=0)
    """*improve* examples of each validation and held-out graph."""
    repair: int = Field(0, ge=0)
    """*repair* examples of each training graph."""
    golds: int = Field(12, ge=0)
    """Use at most so many of the built-in golds, shortest first."""
    lengths: tuple[int, ...] = Field((1, 2, 2, 3), min_length=1)
    """Operators of a graph are drawn from these."""
    operators: tuple[str, ...] = LAPTOP_OPERATORS
    """Operator names to use; empty: all."""
    row_share: float = Field(0.45, ge=0, le=1)
    """Share of graphs that work along rows."""
    operand_share: float = Field(0.3, ge=0, le=1)
    """Chance that a pointwise step takes a second operand."""
    operands: tuple[Operand, ...] = ("input", "parameter", "first")
    """Where second operands come from."""
    ranks: tuple[Literal[2, 3], ...] = Field((2,), min_length=1)
    plain_share: float = Field(0.1, ge=0, le=1)
    """Share of *translate* kernels in a slower structure: one launch per operator, rows walked in tiles. They are
    dear to a very small model: at the same compute 0.0 gave 63 % right on held-out graphs, 0.4 gave 39 %."""
    wide: bool = False
    """Every style of reference and kernel, instead of the few that a very small model can learn."""
    heldout_share: float = Field(0.2, gt=0, lt=1)
    """Share of all operator graphs reserved for the held-out split."""
    validation_share: float = Field(0.05, gt=0, lt=1)
    check: Literal["structures", "each"] = "structures"
    """`each` verifies every example. `structures` verifies one *translate* example of those that differ only in
    sizes, names, tile and warps; kernels shown in prompts and answers that claim a speedup are always verified."""
    min_gain: float = Field(1.1, gt=1)
    """Least ratio of times, shown kernel over answer, in an *improve* example."""
    style: Style = "compact"
    """How prompts are rendered when tokens are counted and the tokenizer is trained."""
    vocab_size: int = Field(2048, ge=260)
    max_tokens: int = Field(400, ge=0)
    """Drop examples whose prompt and answer together are longer, in tokens of the corpus' own tokenizer; 0: none."""

    families: tuple[str, ...] = ()
    """Families of operators to draw pairs of besides, by name or category, or `all`; empty: none."""
    family_train: int = Field(1000, ge=0)
    """Training tasks of families, each with a *translate* example; nothing without `families`."""
    family_validation: int = Field(10, ge=0)
    family_heldout: int = Field(50, ge=0)
    family_practice: int = Field(200, ge=0)
    """Tasks of families without a kernel, for reinforcement learning, on graphs that no example shows."""
    family_lengths: tuple[int, ...] = Field((1, 1, 2, 3, 4, 5), min_length=1)
    """Operators of a family's task are drawn from these, then a family uniformly among those that have the length."""
    family_improve: float = Field(0.3, ge=0, le=1)
    """Share of the training tasks that also give an *improve* example."""
    family_repair: float = Field(0.3, ge=0, le=1)
    """Share of the training tasks that also give a *repair* example."""

    @field_validator("families", mode="before")
    @classmethod
    def _listed(cls, given: object) -> object:
        """`families=matmul,scan` on the command line is a list."""
        return (
            tuple(part.strip() for part in given.split(",") if part.strip())
            if isinstance(given, str)
            else given
        )

    @classmethod
    def parse(cls, fields: dict[str, object]) -> Self:
        """A config from plain values. Raises UserError, one line, for an unknown key, type, value or operator."""
        try:
            config = cls.model_validate(fields)
        except ValidationError as error:
            raise UserError(f"data: {one_line(error, cls)}") from None
        known = (*POINTWISE, *ROWS)
        for name in config.operators:
            if name not in known:
                hint = did_you_mean(name, known)
                raise UserError(
                    f"data: unknown operator {name!r}{hint}; the operators are: {', '.join(known)}"
                )
        if config.operators and not any(
            name in POINTWISE and not POINTWISE[name].binary for name in config.operators
        ):
            raise UserError("data: operators holds none of a single input, such as relu; add one")
        if min(config.lengths) < 1:
            raise UserError(f"data: lengths = {list(config.lengths)}: a graph has at least 1 operator")
        if config.families:
            from kernelwright.data.families.table import chosen

            chosen(config.families)
        if config.heldout_share + config.validation_share >= 1:
            raise UserError("data: heldout_share and validation_share leave nothing to train on; lower one")
        return config

    @classmethod
    def of(cls, data: DataConfig, seed: int = 0) -> Self:
        """The corpus of a recipe's [data] table: the fields that both have, over this class's defaults."""
        shared = {key: value for key, value in data.model_dump().items() if key in cls.model_fields}
        return cls.parse({"seed": seed, **shared})
