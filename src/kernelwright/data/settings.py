"""The settings of a corpus: one typed, frozen record. Laptop and full-size corpora differ only in numbers."""

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
    """Which graphs to draw, how many schedules of each, which faults to plant, and what to keep. Every field changes the corpus."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    graphs: int = Field(20_000, ge=0)
    """Graphs drawn for pairs."""
    practice: int = Field(4_000, ge=0)
    """Further graphs, written as tasks without kernels, for reinforcement learning."""
    catalogue: float = Field(0.25, ge=0, le=1)
    """Share of graphs from the catalogue; the rest are random, or from `tasks`."""
    tasks: str = ""
    """JSONL of tasks in function form (`data harvest`), drawn as often as random graphs; empty: none."""
    forms: tuple[str, ...] = tuple(FORMS)
    """Forms of random graphs."""
    operators: tuple[str, ...] = ()
    """Operators of random graphs, by ATen name, such as `["add", "sum"]`; none: all."""
    ranks: tuple[Annotated[int, Field(ge=1, le=4)], ...] = ()
    """Dimensions of the arguments of random graphs; none: 1 to 4."""
    reduced: tuple[int, ...] = ()
    """Dimensions that reductions of random graphs drop, such as `[0]`; none: any one or several, sometimes kept."""
    names: tuple[NameStyle, ...] = ()
    """Naming styles of values (`data/naming.py`); none: all."""
    varied: float = Field(0.0, ge=0, le=1)
    """Share of graphs changed to resemble parts of modules, and of harvested graphs that get other operators
    (`data/variety.py`)."""
    most_operators: int = Field(12, ge=1)
    """Most nodes of a graph."""
    schedules: int = Field(5, ge=1)
    """Most schedules of a graph: the library's best, and random ones of those worth a search."""
    judged: float = Field(1.0, ge=0, le=1)
    """Share of graphs whose kernels are judged. The other graphs get the library's best schedules and draws by predicted time
    (`synth/ranking.py`), unjudged; they have no broken or improved kernels and no times. A judged kernel costs a second of a core,
    an unjudged one 15 ms; the card has the share of judged kernels that are right."""
    priced: bool = False
    """Run and price kernels that are not judged, at one small size, a third of a second each. Their schedules are then drawn as for
    judged ones, and they get *improve* pairs, too."""
    faults: float = Field(0.4, ge=0)
    """Mean number of broken kernels per graph, for *repair*."""
    min_gain: float = Field(1.1, gt=1)
    """Least time ratio, shown kernel over answer, in an *improve* pair."""
    precisions: tuple[tuple[PrecisionName, float], ...] = (
        ("bf16", 0.45),
        ("default", 0.25),
        ("ieee", 0.2),
        ("fp16", 0.1),
    )
    """Frequency of each precision. In `default`, products are IEEE and convolutions TF32."""
    target: str = "h200"
    """GPU that binaries and times are for."""
    heldout: float = Field(0.08, ge=0, lt=1)
    """Share of structures, by digest, held out of training. Single operators are never held out."""
    validation: float = Field(0.02, ge=0, lt=1)
    chunk: int = Field(16, gt=0)
    """Graphs per part file."""
    deadline: float = Field(30.0, gt=0)
    """Most seconds that the judge spends on a kernel."""
    most_alike: int = Field(4, ge=1)
    """Most pairs that differ only in sizes and numbers."""
    style: Style = "compact"
    """Prompt style for training the tokenizer and counting lengths; `chat` trains none."""
    vocab_size: int = Field(4096, ge=260)
    cut: Cut = "words"
    """How the tokenizer splits text: `tokenizer.PIECES`."""
    max_tokens: int = Field(2048, ge=0)
    """Most tokens of prompt plus answer; 0: no limit."""

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
        """The settings in a recipe's `[data]`."""
        given = data.model_dump(include=set(cls.model_fields))
        if precisions := given.pop("precisions"):
            given["precisions"] = tuple(precisions.items())
        return cls.parse({**given, "forms": data.forms or tuple(FORMS), "seed": seed})

    @classmethod
    def parse(cls, fields: dict[str, object]) -> Self:
        """Settings from plain fields. Raises UserError with the valid keys."""
        for key in fields:
            if key not in cls.model_fields:
                raise UserError(
                    f"data: no setting {key!r}{did_you_mean(key, cls.model_fields)}; valid: {', '.join(cls.model_fields)}"
                )
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise UserError(f"data: {complaint(error, cls)}") from None
