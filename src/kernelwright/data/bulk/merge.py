"""From the parts of a corpus to the corpus: what is there twice, held out, a benchmark's or too long goes, and is counted.

Splits go by operator graph. Training and validation share with the held-out examples neither the graph, by digest and
by what PyTorch runs, nor the combination of full sizes. Of examples that differ in nothing but numbers a few are kept.
Parts are read twice and never held at once, so a corpus may be larger than memory.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

import kernelwright.data.bulk.card as cards
from kernelwright.data.build import text_of
from kernelwright.data.bulk import shards
from kernelwright.data.bulk.benchmarks import Benchmarks
from kernelwright.data.bulk.config import BulkConfig
from kernelwright.data.bulk.hear import Entry, Practice
from kernelwright.data.bulk.work import parts_of, seconds, summary
from kernelwright.data.corpus import Progress
from kernelwright.data.split import full_sizes
from kernelwright.data.tokenizer import train_tokenizer
from kernelwright.errors import UserError
from kernelwright.records import Example
from kernelwright.runs import RunFolder, new_folder, write_text

LEARNED = 6000
"""Texts that the tokenizer is learned from."""
BATCH = 1000
"""Examples that are held in memory at once."""


class Place(NamedTuple):
    """Where a line stands."""

    path: Path
    start: int
    length: int

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.start)
            return file.read(self.length)


class Key(NamedTuple):
    """What is compared of an example."""

    split: str
    graph: str
    function: str
    sizes: tuple[int, ...]
    form: str
    skeleton: str
    single: bool
    """One operator: for training always."""


class Found(NamedTuple):
    """What the parts hold that is not a benchmark's."""

    examples: list[tuple[Place, Key]]
    practised: list[Practice]
    leaks: list[dict[str, str]]
    """Of what is a benchmark's: the task, how it is known, and the benchmark's file."""


def merge(
    config: BulkConfig, folder: Path, benchmarks: Sequence[Path] = (), progress: Progress | None = None
) -> dict[str, Any]:
    """Write the corpus of `folder` and its card, anew. Returns the card.

    A corpus may be practice tasks alone: for reinforcement from a model that is there. Raises UserError when neither
    examples for training nor practice tasks are left, or a benchmark's folder holds none.
    """
    run = RunFolder(folder)
    forbidden = Benchmarks(benchmarks)
    dropped: Counter[str] = Counter()
    found = _read(folder, forbidden, dropped, progress)
    kept, graphs = _choose(config, found.examples, dropped)
    random.Random(config.seed).shuffle(kept)
    if not any(key.split == "train" for _, key in kept) and not found.practised:
        raise UserError(
            f"data: no example for training was accepted; {folder / 'parts'}/*.rejected.jsonl say why"
        )
    tokenizer = _tokenizer(config, folder, kept) if config.style != "chat" and kept else None
    table = _write(config, folder, kept, tokenizer, dropped, progress)
    tasks = _practice(found.practised, graphs, {(key.graph, key.sizes) for _, key in kept}, dropped)
    write_text(folder / "tasks.jsonl", "".join(line + "\n" for line in tasks))
    write_text(folder / "contamination.jsonl", "".join(json.dumps(leak) + "\n" for leak in found.leaks))
    card = {
        **table.describe(),
        "practice": len(tasks),
        "vocabulary": len(tokenizer) if tokenizer is not None else 0,
        "dropped": dict(dropped.most_common()),
        "heard": dict(summary(folder).most_common()),
        "core_seconds": round(seconds(folder)),
        "benchmarks": {
            "folders": list(forbidden.files),
            "files": forbidden.files,
            "references": forbidden.references,
            "kernels": forbidden.kernels,
            "unreadable": forbidden.unreadable,
            "untraced": forbidden.untraced,
            "removed": dict(Counter(leak["how"] for leak in found.leaks)),
        },
        "config": config.model_dump(mode="json"),
    }
    run.write_json("card.json", card)
    cards.write(folder, card, table)
    run.finish("corpus")
    return card


def _read(folder: Path, forbidden: Benchmarks, dropped: Counter[str], progress: Progress | None) -> Found:
    """Every line of the parts, once; `dropped` counts those that are a benchmark's or unreadable."""
    found = Found([], [], [])
    paths = list(parts_of(folder))
    for number, path in enumerate(paths, 1):
        kind: type[Entry] | type[Practice] = Practice if path.name.startswith("practice-") else Entry
        for place, line in _lines(path):
            try:
                item = kind.model_validate_json(line)
            except ValidationError:
                dropped["not a record of this version"] += 1
                continue
            task = item.example.task if isinstance(item, Entry) else item.task
            how, where = forbidden.leak(item)
            if how:
                dropped[f"benchmark: same {how}"] += 1
                found.leaks.append({"task": task.id, "how": how, "where": where})
            elif isinstance(item, Practice):
                found.practised.append(item)
            else:
                split, graph = item.example.split, item.example.graph
                ours = item.example.teacher in ("families", "library")
                single = ours and task.difficulty == 1
                key = Key(split, graph, item.function, full_sizes(task), item.form, item.skeleton, single)
                found.examples.append((place, key))
        if progress is not None:
            progress("read", number, len(paths))
    return found


def _write(
    config: BulkConfig,
    folder: Path,
    kept: Sequence[tuple[Place, Key]],
    tokenizer: Any,
    dropped: Counter[str],
    progress: Progress | None,
) -> cards.Table:
    """The examples that are kept, read again, as files; `dropped` counts those that are too long."""
    table = cards.Table()
    with shards.Writer(folder) as out:
        for start in range(0, len(kept), BATCH):
            examples = [_example(place) for place, _ in kept[start : start + BATCH]]
            counts = _count(tokenizer, [text_of(example, config.style) for example in examples])
            for example, count in zip(examples, counts, strict=True):
                if config.max_tokens and tokenizer is not None and sum(count) > config.max_tokens:
                    dropped["too long"] += 1
                    continue
                out.write(example, count)
                table.add(example, count)
            if progress is not None:
                progress("write", min(start + BATCH, len(kept)), len(kept))
    return table


def _lines(path: Path) -> Iterator[tuple[Place, bytes]]:
    start = 0
    with path.open("rb") as lines:
        for line in lines:
            yield Place(path, start, len(line)), line
            start += len(line)


def _choose(
    config: BulkConfig, examples: list[tuple[Place, Key]], dropped: Counter[str]
) -> tuple[list[tuple[Place, Key]], set[str]]:
    """What stays, and the graphs that it shows; `dropped` counts why the others go."""
    keys = [key for _, key in examples]
    # Two operators may come to one, where the other changes nothing.
    operators = {key.function for key in keys if key.single} - {""}
    held = [key for key in keys if key.split == "heldout" and key.function not in operators]
    graphs, sizes = {key.graph for key in held}, {key.sizes for key in held}
    functions = {key.function for key in held} - {""}
    validation = {key.graph for key in keys if key.split == "validation"}
    seen: set[str] = set()
    alike: dict[str, int] = defaultdict(int)
    kept: list[tuple[Place, Key]] = []
    for place, key in examples:
        reason = ""
        if key.form in seen:
            reason = "duplicate"
        elif alike[key.skeleton] >= config.alike:
            reason = "near-duplicate: only numbers differ"
        elif key.split == "heldout":
            reason = "held out, but a single operator's function" if key.function in operators else ""
        else:
            if key.graph in graphs:
                reason = "held-out graph"
            elif key.sizes in sizes:
                reason = "held-out sizes"
            elif key.function in functions:
                reason = "held-out function"
            elif key.split == "train" and key.graph in validation:
                reason = "validation graph"
        seen.add(key.form)
        if reason:
            dropped[reason] += 1
            continue
        alike[key.skeleton] += 1
        kept.append((place, key))
    return kept, {key.graph for _, key in kept} | graphs


def _practice(
    practised: list[Practice], graphs: set[str], shown: Container[tuple[str, Any]], dropped: Counter[str]
) -> list[str]:
    """Tasks on graphs of their own, or of one operator at sizes of their own, as JSON. `shown` has the graphs and sizes of
    the examples."""
    found: dict[Any, str] = {}
    for item in practised:
        single = item.task.difficulty == 1
        place: Any = (item.graph, full_sizes(item.task)) if single else item.graph
        if place in (shown if single else graphs) or place in found:
            dropped[f"practice: {'sizes' if single else 'a graph'} that examples show"] += 1
        else:
            found[place] = item.task.model_dump_json()
    return list(found.values())


def _example(place: Place) -> Example:
    return Entry.model_validate_json(place.read()).example


def _tokenizer(config: BulkConfig, folder: Path, kept: Sequence[tuple[Place, Key]]) -> Any:
    train = [place for place, key in kept if key.split == "train"][:LEARNED]
    texts = ["".join(text_of(_example(place), config.style)) for place in train]
    with new_folder(folder / "tokenizer") as staging:
        return train_tokenizer(texts, config.vocab_size, staging, style=config.style)


def _count(tokenizer: Any, texts: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """Tokens of prompt and answer; characters where there is no tokenizer."""
    if tokenizer is None:
        return [(len(prompt), len(answer)) for prompt, answer in texts]
    prompts = tokenizer([prompt for prompt, _ in texts])["input_ids"]
    answers = tokenizer([answer for _, answer in texts])["input_ids"]
    return [(len(p), len(a)) for p, a in zip(prompts, answers, strict=True)]
