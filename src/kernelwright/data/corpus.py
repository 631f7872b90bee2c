"""The corpus, step by step, each streaming, resumable and atomic: synth -> validate -> split.

Every draft is made from its own random state, `(seed, index)`, so a run that was stopped continues where its file
ends and gives the same corpus. A step writes `NAME.part` and renames it when it is whole.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kernelwright.data import graphs, normal, pairs
from kernelwright.data.operators import POINTWISE, ROWS
from kernelwright.errors import UserError
from kernelwright.records import Example, read_jsonl

Kind = Literal["translate", "repair", "improve"]
Progress = Callable[[int, int], None]
"""Called with (done, total)."""


class CorpusConfig(BaseModel):
    """What to synthesise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    train: int = Field(2000, ge=0)
    """Examples for training."""
    validation: int = Field(50, ge=0)
    heldout: int = Field(100, ge=0)
    """Examples over graphs and shapes that training never sees."""
    improve: float = Field(0.25, ge=0, le=1)
    """Share of *improve* examples."""
    repair: float = Field(0.0, ge=0, le=1)
    """Share of *repair* examples."""
    lengths: tuple[int, ...] = (1, 2, 2, 3)
    """Operators per graph are drawn from these."""
    operators: tuple[str, ...] = ()
    """Operator names to use; empty: all."""
    row_share: float = Field(0.4, ge=0, le=1)
    operand_share: float = Field(0.3, ge=0, le=1)
    operands: tuple[graphs.Operand, ...] = ("input", "vector", "parameter", "first")
    """Where second operands come from."""
    ranks: tuple[Literal[2, 3], ...] = (2,)
    unfused_share: float = Field(0.2, ge=0, le=1)
    wide: bool = False
    """Every style of reference and kernel, instead of the few that a very small model can learn."""
    heldout_graphs: float = Field(0.15, gt=0, lt=1)
    """Share of all operator graphs reserved for the held-out split."""
    validation_graphs: float = Field(0.05, gt=0, lt=1)

    def checked(self) -> CorpusConfig:
        """This config, or a UserError that names an unknown operator or an impossible share."""
        known = (*POINTWISE, *ROWS)
        for name in self.operators:
            if name not in known:
                raise UserError(f"data: unknown operator {name!r}; the operators are: {', '.join(known)}")
        if self.improve + self.repair > 1:
            raise UserError("data: improve and repair are shares of one corpus; make their sum at most 1")
        return self


def drafts(config: CorpusConfig) -> Iterator[Example]:
    """Unverified examples: held-out ones first, then validation, then training, without duplicates."""
    config.checked()
    seen: set[str] = set()
    wanted: tuple[tuple[pairs.Split, int], ...] = (
        ("heldout", config.heldout),
        ("validation", config.validation),
        ("train", config.train),
    )
    for split, count in wanted:
        made, attempt = 0, 0
        while made < count:
            if attempt > 200 * count + 1000:
                raise UserError(
                    f"data: only {made} of {count} different {split} examples could be drawn; "
                    "ask for fewer, or allow more operators, lengths or styles"
                )
            rng = random.Random(f"{config.seed}:{split}:{attempt}")
            attempt += 1
            example = _draft(config, rng, split)
            if example is None:
                continue
            key = identity(example)
            if key not in seen:
                seen.add(key)
                made += 1
                yield example


def _draft(config: CorpusConfig, rng: random.Random, split: pairs.Split) -> Example | None:
    """One draft, or None when the drawn graph belongs to another split or no fault applies."""
    graph = graphs.sample(
        rng,
        rng.choice(config.lengths),
        operators=config.operators,
        row_share=config.row_share,
        operand_share=config.operand_share,
        ranks=config.ranks,
        operands=config.operands,
        accept=lambda g: pairs.split_of(g.digest, config.heldout_graphs, config.validation_graphs) == split,
    )
    place = rng.random()
    kind: Kind = "improve" if place < config.improve else "translate"
    if config.improve <= place < config.improve + config.repair:
        kind = "repair"
    try:
        return pairs.make(rng, graph, kind, split, wide=config.wide, unfused_share=config.unfused_share)
    except ValueError:
        return None


def identity(example: Example) -> str:
    """What makes two examples the same: kind, reference and kernels in normal form (sizes apart)."""
    return normal.digest(
        example.kind,
        normal.normal_form(example.task.source),
        normal.normal_form(example.kernel, keep_sizes=True),
        normal.normal_form(example.code, keep_sizes=True),
    )


def synth(config: CorpusConfig, out: Path, progress: Progress | None = None) -> int:
    """Write `out`, a JSONL of drafts. Continues `out.part` of a stopped run of the same config. Returns the count."""
    total = config.train + config.validation + config.heldout
    with Stream(out, config.model_dump(mode="json")) as stream:
        for index, example in enumerate(drafts(config)):
            if index >= stream.done:
                stream.write(example)
            if progress is not None:
                progress(index + 1, total)
    return total


def split(
    accepted: Sequence[Path], out: Path, progress: Progress | None = None, heldout_graphs: Iterable[str] = ()
) -> dict[str, Any]:
    """Merge accepted examples into `out`, deduplicated and leak-free, and write the data card beside it.

    `heldout_graphs` are digests to keep out of training on top of the ones that held-out examples name.
    Training and validation examples on a held-out graph, or on a held-out combination of sizes, are dropped and
    counted. Returns the card.
    """
    examples = [example for path in accepted for example in read_jsonl(path, Example)]
    guarded = {*heldout_graphs, *(e.graph for e in examples if e.split == "heldout")}
    validation = {e.graph for e in examples if e.split == "validation"}
    shapes = {shape_key(e) for e in examples if e.split == "heldout"}
    seen: set[str] = set()
    dropped: Counter[str] = Counter()
    kept: list[Example] = []
    for done, example in enumerate(examples, 1):
        key = identity(example)
        if key in seen:
            dropped["duplicate"] += 1
        elif example.split != "heldout" and example.graph in guarded:
            dropped["held-out graph"] += 1
        elif example.split != "heldout" and example.task.suite == "synth" and shape_key(example) in shapes:
            dropped["held-out shape"] += 1
        elif example.split == "train" and example.graph in validation:
            dropped["validation graph"] += 1
        else:
            kept.append(example)
        seen.add(key)
        if progress is not None:
            progress(done, len(examples))
    with Stream(out, {}) as stream:
        stream.restart()
        for example in kept:
            stream.write(example)
    summary = card(kept) | {"dropped": dict(dropped)}
    replace_text(out.with_suffix(".card.json"), json.dumps(summary, indent=2) + "\n")
    return summary


def shape_key(example: Example) -> tuple[int, ...]:
    """The full sizes of an example's task, in order of appearance."""
    from kernelwright.shapes import constants

    return tuple(constants(example.task.source).values())


def card(examples: Sequence[Example]) -> dict[str, Any]:
    """Counts for a data card: by split, kind, family, difficulty, teacher, and different graphs and operators."""
    return {
        "examples": len(examples),
        "graphs": len({e.graph for e in examples}),
        "split": dict(Counter(e.split for e in examples)),
        "kind": dict(Counter(e.kind for e in examples)),
        "family": dict(Counter(e.task.family for e in examples)),
        "difficulty": {str(k): v for k, v in sorted(Counter(e.task.difficulty for e in examples).items())},
        "teacher": dict(Counter(e.teacher for e in examples)),
        "code_characters_mean": round(sum(len(e.code) for e in examples) / max(1, len(examples))),
    }


class Stream:
    """A JSONL file that grows as `NAME.part` and gets its name when it is whole.

    `done` says how many whole records a stopped run left. The config a part was begun with lies beside it in
    `NAME.part.json`; a part begun with another config is begun anew.
    """

    def __init__(self, out: Path, config: dict[str, Any]) -> None:
        self.out, self.part = out, out.with_name(out.name + ".part")
        self.note = out.with_name(out.name + ".part.json")
        out.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(config, sort_keys=True)
        self.done = 0
        if self.part.exists() and self.note.exists() and self.note.read_text(encoding="utf-8") == text:
            whole = self.part.read_bytes()
            whole = whole[: whole.rfind(b"\n") + 1]
            self.part.write_bytes(whole)
            self.done = whole.count(b"\n")
        else:
            self.part.write_bytes(b"")
            self.note.write_text(text, encoding="utf-8")
        self.file = self.part.open("a", encoding="utf-8")

    def restart(self) -> None:
        """Drop what a stopped run left."""
        self.file.truncate(0)
        self.done = 0

    def write(self, example: Example) -> None:
        self.file.write(example.model_dump_json() + "\n")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.file.close()
        if kind is None:
            os.replace(self.part, self.out)
            self.note.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write a small file whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
