"""The whole engine in one call: synth -> validate -> split -> tokenizer -> examples and card, in one folder.

    DATA/drafts.jsonl      unverified          DATA/examples.jsonl   what training reads
    DATA/accepted.jsonl    verified            DATA/tokenizer/       where the style needs one
    DATA/rejected.jsonl    with verdicts       DATA/card.json        counts, lengths, what was dropped and why
    DATA/tasks.jsonl       without kernels, for reinforcement learning

A stopped run goes on where it was; a finished one is returned as it is.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright import prompts
from kernelwright.config import Style
from kernelwright.data.config import CorpusConfig
from kernelwright.data.corpus import Progress, practice, synth
from kernelwright.data.split import Guard, split
from kernelwright.data.tokenizer import train_tokenizer
from kernelwright.data.validate import validate
from kernelwright.errors import UserError
from kernelwright.policy.text import plain_text
from kernelwright.records import Example, read_jsonl
from kernelwright.runs import RunFolder, new_folder, write_text

if TYPE_CHECKING:
    from kernelwright.rollouts import Verifier


def build(
    config: CorpusConfig, folder: Path | str, verifier: Verifier, progress: Progress | None = None
) -> dict[str, Any]:
    """Make the corpus of `config` in `folder`, or go on with it. Returns the card.

    `verifier` should judge under the strict protocol. Raises UserError when the folder holds another corpus or
    nothing was accepted, InfrastructureError when the judge fails.
    """
    run = RunFolder(folder)
    run.start(config, resume=True)
    if run.done("corpus") and (card := run.read_json("card.json")) is not None:
        return card
    drafts, accepted = run.file("drafts.jsonl"), run.file("accepted.jsonl")
    drafted = synth(config, drafts, progress)
    ended = validate(config, drafts, accepted, verifier, progress)
    card = finish(config, [accepted], run.path, progress)
    card = {**card, "drafts": drafted, "validated": dict(ended)}
    run.write_json("card.json", card)
    run.finish("corpus")
    return card


def finish(
    config: CorpusConfig, accepted: Sequence[Path], folder: Path, progress: Progress | None = None
) -> dict[str, Any]:
    """Merge files of accepted examples: split, learn the tokenizer, drop what is too long, write. Returns the card."""
    kept, dropped = split(example for path in accepted for example in read_jsonl(path, Example))
    if not any(example.split == "train" for example in kept):
        raise UserError(
            f"data: no example for training was accepted; {accepted[0].with_name('rejected.jsonl')} says why"
        )
    guard = Guard(example for example in kept if example.split == "heldout")
    tasks = [t for t in practice(config, {e.graph for e in kept}) if not guard.leak(t, "")]
    lengths: dict[str, Any] = {}
    if config.style != "chat":
        texts = [text_of(example, config.style) for example in kept]
        learned = ["".join(text) for text, e in zip(texts, kept, strict=True) if e.split == "train"]
        with new_folder(folder / "tokenizer") as staging:
            tokenizer = train_tokenizer(learned, config.vocab_size, staging, style=config.style)
        counts = [tuple(len(tokenizer(part)["input_ids"]) for part in text) for text in texts]
        fits = [not config.max_tokens or sum(count) < config.max_tokens for count in counts]
        dropped["too long"] = len(kept) - sum(fits)
        kept = [example for example, fit in zip(kept, fits, strict=True) if fit]
        lengths = {
            "vocabulary": len(tokenizer),
            **_lengths(kept, [c for c, fit in zip(counts, fits, strict=True) if fit]),
        }
    # In random order, so that any head of the file is a fair sample.
    random.Random(config.seed).shuffle(kept)
    write_text(folder / "tasks.jsonl", "".join(task.model_dump_json() + "\n" for task in tasks))
    # Last: where it is, the corpus is taken to be whole.
    write_text(folder / "examples.jsonl", "".join(example.model_dump_json() + "\n" for example in kept))
    if progress is not None:
        progress("split", len(kept), len(kept))
    return {**describe(config, kept), "practice": len(tasks), "tokens": lengths, "dropped": dict(dropped)}


def text_of(example: Example, style: Style) -> tuple[str, str]:
    """What training shows and what it wants said."""
    prompt, said = prompts.example_pair(example, style)
    return plain_text(prompt), said


def describe(config: CorpusConfig, examples: Sequence[Example]) -> dict[str, Any]:
    """Counts for a data card, and what the verification covered."""
    covered = {
        "each": "every example was verified",
        "structures": "every kernel shown, every answer that claims a speedup, and one translate example of those "
        "that differ only in sizes, names, tile and warps were verified",
    }

    def count(values: list[Any]) -> dict[str, int]:
        return {str(key): number for key, number in sorted(Counter(values).items())}

    return {
        "examples": len(examples),
        "splits": count([e.split for e in examples]),
        "kinds": count([f"{e.split} {e.kind}" for e in examples]),
        "graphs": count([split for split, _ in {(e.split, e.graph) for e in examples}]),
        "kernels": len({e.code for e in examples}),
        "families": count([e.task.family for e in examples]),
        "operators": count([e.task.difficulty for e in examples]),
        "teachers": count([e.teacher for e in examples]),
        "verification": covered[config.check],
        "config": config.model_dump(mode="json"),
    }


def _lengths(examples: Sequence[Example], counts: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """Tokens of prompt, answer and both, by kind: median, 95th percentile and most."""
    table: dict[str, Any] = {}
    for kind in sorted({example.kind for example in examples}):
        rows = [count for example, count in zip(examples, counts, strict=True) if example.kind == kind]
        for name, values in (
            ("prompt", [row[0] for row in rows]),
            ("answer", [row[1] for row in rows]),
            ("both", [sum(row) for row in rows]),
        ):
            values.sort()
            table[f"{kind} {name}"] = {
                "median": values[len(values) // 2],
                "p95": values[int(0.95 * (len(values) - 1))],
                "max": values[-1],
            }
    return table
