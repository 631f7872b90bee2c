"""What a large corpus is made of: one typed, frozen record. The defaults are those of the default model's corpus."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kernelwright.config import Style, one_line
from kernelwright.data.config import CorpusConfig
from kernelwright.data.families.spec import FREED
from kernelwright.data.families.table import chosen
from kernelwright.errors import UserError
from kernelwright.hardware import target as target_sheet

Teacher = Literal["families", "graphs", "inductor", "tasks", "examples", "practice"]
TEACHERS: tuple[Teacher, ...] = ("families", "graphs", "inductor", "tasks", "examples", "practice")
WEIGHTS = {
    "fusion": 44,
    "convolution": 20,
    "matmul": 9,
    "activation": 8,
    "norm": 6,
    "reduction": 5,
    "loss": 5,
    "pooling": 4,
    "scan": 4,
    "layout": 4,
    "attention": 3,
    "training": 3,
}
"""Shares of the categories of families; one that is not named weighs 3."""
FUNCTIONS = {
    "activation": 6,
    "linear_chain": 8,
    "formula": 6,
    **dict.fromkeys(("conv2d_chain", "conv3d_chain", "conv_transpose2d_chain", "conv_transpose3d_chain"), 4),
    **dict.fromkeys(("elementwise", "linear_fusion", "conv2d_fusion"), 2),
    **dict.fromkeys((f"conv_transpose{rank}d" for rank in (1, 2, 3)), 2),
    **dict.fromkeys((f"conv_transpose{rank}d_asymmetric" for rank in (2, 3)), 2),
    **dict.fromkeys(("conv2d_large", "conv2d_asymmetric", "conv2d_depthwise"), 2),
    **dict.fromkeys(("cumsum_masked", "cumsum_reverse", "cumsum_exclusive"), 2),
    **dict.fromkeys(("batchnorm", "layernorm", "groupnorm", "hinge_loss", "attention_full"), 2),
}
"""Families that stand for many functions or forms, and how often they are drawn for one of the others in their category;
1 where none is named."""


class BulkConfig(BaseModel):
    """Which problems to draw, what to hear of each, and what to keep."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    families: int = Field(13000, ge=0)
    """Problems drawn from `names`, each with a kernel of our own library."""
    names: tuple[str, ...] = ("all",)
    """Families by name or category, or `all`."""
    graphs: int = Field(1600, ge=0)
    """Problems on sampled operator graphs of one to five maps and row operators."""
    inductor: int = Field(600, ge=0)
    """Problems of families and graphs that torch Inductor answers too."""
    tasks: str = ""
    """JSONL of tasks, such as a harvest, that Inductor answers; empty: none."""
    examples: str = ""
    """JSONL of examples to hear, such as what `data inductor` and `data distill` write; empty: none."""
    lengths: tuple[int, ...] = Field((1, 1, 2, 3, 4, 5, 6), min_length=1)
    """Operators of a problem are drawn from these."""
    wordings: int = Field(4, ge=1, le=4)
    """References of a family's problem: other names, layout, modules or functions; held to be equal bit for bit."""
    freed: float = Field(FREED, ge=0, le=1)
    """Share of the families' problems whose weights are arguments of `forward`, where they have any."""
    slower: float = Field(0.53, ge=0, le=1)
    """Share of the problems that get an honest kernel which should be slower, for *improve*."""
    faults: float = Field(0.5, ge=0, le=4)
    """Mutants of a problem's kernel, on average, for *repair*."""
    min_gain: float = Field(1.1, gt=1)
    """Least ratio of modelled times, shown kernel over answer, in an *improve* example."""
    heldout_share: float = Field(0.08, gt=0, lt=1)
    """Share of all operator graphs, by digest, that is held out."""
    validation_share: float = Field(0.01, gt=0, lt=1)
    practice: int = Field(4000, ge=0)
    """Tasks without a kernel, for reinforcement learning, on graphs that no example shows."""
    practice_lengths: tuple[int, ...] = Field((4, 5, 6, 7, 8), min_length=1)
    """Their operators: what examples have made easy teaches reinforcement nothing (of two operators 97 % of the shipped
    model's samples are right, of three 88 %, of seven 48 %)."""
    single: float = Field(0.1, ge=0, le=1)
    """Share of them that are one operator instead: there is no graph of those that examples lack, but other sizes."""
    chunk: int = Field(20, ge=1)
    """Problems that are made, or made again after a kill, at once."""
    target: str = "h200"
    """The GPU to compile and price for."""
    deadline: float = Field(20.0, gt=0)
    """Seconds a hearing may take."""
    alike: int = Field(4, ge=1)
    """Examples that differ in nothing but numbers; the others are near-duplicates."""
    style: Style = "lowered"
    vocab_size: int = Field(4096, ge=260)
    max_tokens: int = Field(2048, ge=0)
    """Drop examples whose prompt and answer together are longer; 0: none."""

    @field_validator("names", mode="before")
    @classmethod
    def _listed(cls, given: object) -> object:
        """`names=matmul,scan` on the command line is a list."""
        return tuple(given.split(",")) if isinstance(given, str) else given

    @classmethod
    def parse(cls, fields: dict[str, object]) -> Self:
        """A config from plain values. Raises UserError, one line, for an unknown key, type, value or family."""
        try:
            config = cls.model_validate(fields)
        except ValidationError as error:
            raise UserError(f"data: {one_line(error, cls)}") from None
        chosen(config.names)
        target_sheet(config.target)
        if config.heldout_share + config.validation_share >= 1:
            raise UserError("data: heldout_share and validation_share leave nothing to train on; lower one")
        for name in ("lengths", "practice_lengths"):
            if min(getattr(config, name)) < 1:
                raise UserError(
                    f"data: {name} = {list(getattr(config, name))}: a problem has at least 1 operator"
                )
        return config

    def counts(self, tasks: int, examples: int) -> dict[Teacher, int]:
        """Problems by teacher; `tasks` and `examples` are the numbers of lines in the files that they name."""
        return {
            "families": self.families,
            "graphs": self.graphs,
            "inductor": self.inductor,
            "tasks": tasks,
            "examples": examples,
            "practice": self.practice,
        }

    @property
    def corpus(self) -> CorpusConfig:
        """The same wishes for the sampler of operator graphs."""
        return CorpusConfig(
            seed=self.seed,
            heldout_share=self.heldout_share,
            validation_share=self.validation_share,
            operators=(),
            operands=("input", "vector", "parameter", "first"),
            ranks=(2, 3),
            lengths=self.lengths,
            wide=True,
            golds=0,
        )
