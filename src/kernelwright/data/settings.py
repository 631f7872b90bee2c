"""What a corpus is made of: one typed, frozen record. Laptop and full size are the same pipeline with other numbers."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from kernelwright.config import Cut, DataConfig, Style, complaint
from kernelwright.data.naming import NameStyle
from kernelwright.errors import UserError, did_you_mean
from kernelwright.hardware import target as target_sheet
from kernelwright.records import PrecisionName
from kernelwright.synth.random_graphs import FORMS


class CorpusSettings(BaseModel):
    """Which graphs to draw, how many schedules of each, what to plant, and what to keep. Every field changes the corpus."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    graphs: int = Field(20_000, ge=0)
    """Graphs drawn for pairs."""
    practice: int = Field(4_000, ge=0)
    """Further graphs that are written as tasks only, for reinforcement learning: nobody shows how."""
    catalogue: float = Field(0.25, ge=0, le=1)
    """Share of the graphs that are rows of the catalogue; the rest is random, or from `tasks`."""
    tasks: str = ""
    """JSONL of tasks in function form (`data harvest`), drawn as often as random graphs; empty: none."""
    forms: tuple[str, ...] = tuple(FORMS)
    """Of random graphs."""
    operators: tuple[str, ...] = ()
    """Of random graphs, by their names in ATen, such as `["add", "sum"]`; none: all."""
    ranks: tuple[Annotated[int, Field(ge=1, le=4)], ...] = ()
    """Dimensions of the arguments of random graphs; none: 1 to 4."""
    reduced: tuple[int, ...] = ()
    """Dimensions that reductions of random graphs go over and drop, such as `[0]`; none: any, one or several, kept at times."""
    names: tuple[NameStyle, ...] = ()
    """Styles in which values are named (`data/naming.py`); none: all."""
    varied: float = Field(0.0, ge=0, le=1)
    """Share of the graphs that are made more like parts of modules, and of harvested ones that get other operators
    (`data/variety.py`)."""
    most_operators: int = Field(12, ge=1)
    """Nodes of a graph at most."""
    schedules: int = Field(5, ge=1)
    """Of a graph at most: the library's best, others that are worth a search, drawn."""
    judged: float = Field(1.0, ge=0, le=1)
    """Share of the graphs whose kernels go before the judge. Of the others the printer's word is taken: their schedules are the
    library's best and draws by predicted time (`synth/ranking.py`), nothing is broken or improved, and nothing has a time. A
    judged kernel costs a second of a core, a printed one 15 ms; the card has the share of judged ones that is right."""
    priced: bool = False
    """Kernels that are not judged are run at one small size and priced all the same, a third of a second each: their schedules are drawn as
    those of the others are, and they are improved, too."""
    faults: float = Field(0.4, ge=0)
    """Broken kernels of a graph, on average, for *repair*."""
    min_gain: float = Field(1.1, gt=1)
    """Least ratio of times, shown kernel over answer, in an *improve* pair."""
    precisions: tuple[tuple[PrecisionName, float], ...] = (
        ("bf16", 0.45),
        ("default", 0.25),
        ("ieee", 0.2),
        ("fp16", 0.1),
    )
    """How often each is drawn. In `default` products are IEEE and convolutions TF32."""
    target: str = "h200"
    """GPU that binaries and times are for."""
    heldout: float = Field(0.08, ge=0, lt=1)
    """Share of the structures, by digest, that training never sees. Single operators are always for training."""
    validation: float = Field(0.02, ge=0, lt=1)
    chunk: int = Field(16, gt=0)
    """Graphs of one part file."""
    deadline: float = Field(30.0, gt=0)
    """Seconds that the judge gives a kernel."""
    most_alike: int = Field(4, ge=1)
    """Pairs at most that differ in sizes and numbers alone."""
    style: Style = "compact"
    """How prompts are rendered where the tokenizer is learned and lengths are counted; `chat` learns none."""
    vocab_size: int = Field(4096, ge=260)
    cut: Cut = "words"
    """Where the tokenizer cuts: `tokenizer.PIECES`."""
    max_tokens: int = Field(2048, ge=0)
    """Tokens of prompt and answer at most; 0: no limit."""

    @field_validator("forms")
    @classmethod
    def _known_forms(cls, forms: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [one for one in forms if one not in FORMS]
        if unknown:
            raise ValueError(f"no form {unknown[0]!r}: choose from {', '.join(FORMS)}")
        return forms

    @field_validator("target")
    @classmethod
    def _known_target(cls, name: str) -> str:
        target_sheet(name)
        return name

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.heldout + self.validation >= 1:
            raise ValueError("heldout and validation leave nothing to train on")
        return self

    @classmethod
    def of(cls, data: DataConfig, seed: int) -> Self:
        """As a recipe's `[data]` says."""
        given = data.model_dump(include=set(cls.model_fields))
        if precisions := given.pop("precisions"):
            given["precisions"] = tuple(precisions.items())
        return cls.parse({**given, "forms": data.forms or tuple(FORMS), "seed": seed})

    @classmethod
    def parse(cls, fields: dict[str, object]) -> Self:
        """From plain fields. Raises UserError with the valid keys."""
        for key in fields:
            if key not in cls.model_fields:
                raise UserError(
                    f"data: no setting {key!r}{did_you_mean(key, cls.model_fields)}; valid: {', '.join(cls.model_fields)}"
                )
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise UserError(f"data: {complaint(error, cls)}") from None
