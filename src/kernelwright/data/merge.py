"""Builds a corpus: makes its parts, and merges them into what training reads. Duplicates, benchmarks' functions and long pairs are
dropped and counted.

    DIR/examples.jsonl        `Pair` records, graphs in random order   DIR/tokenizer/   trained on the training pairs
    DIR/tasks.jsonl           practice tasks, none with a held-out structure
    DIR/contamination.jsonl   what was removed, and for which file    DIR/card.json, DIR/README.md

Parts from several folders (such as machines with different seeds) merge into one corpus.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright import prompts
from kernelwright.children import on_all_cores
from kernelwright.data import card as cards
from kernelwright.data.chunks import make_parts, parts_of, summary
from kernelwright.data.contamination import Benchmarks, tasks_of
from kernelwright.data.settings import CorpusSettings
from kernelwright.data.streams import Progress, silent
from kernelwright.data.tokenizer import train_tokenizer
from kernelwright.errors import UserError
from kernelwright.graph.structure import structure
from kernelwright.graph.types import Graph
from kernelwright.hardware import cores
from kernelwright.records import Pair, Task, read_jsonl
from kernelwright.runs import RunFolder, new_folder, write_records, write_text

if TYPE_CHECKING:
    from kernelwright.rollouts import Verifier

LEARNED = 6000
"""Most texts that the tokenizer is trained on."""


def merge(
    settings: CorpusSettings,
    folder: Path,
    sources: Sequence[Path] = (),
    benchmarks: Sequence[Path] = (),
    progress: Progress = silent,
) -> dict[str, Any]:
    """Write the corpus of `folder` from its own parts and those of `sources`. Returns the card.

    Raises UserError if no training pair is left, or a benchmark's folder is empty.
    """
    run, folders = RunFolder(folder), [folder, *sources]
    forbidden, dropped = Benchmarks.of(benchmarks), Counter[str]()
    kept = list(_keep_new(settings, folders, forbidden, dropped, progress))
    kept = _mix(kept, settings.seed)
    if settings.graphs and not any(pair.split == "train" for pair in kept):
        raise UserError(
            f"data: no pair for training was accepted; {folder / 'parts'}/*.rejected.jsonl say why"
        )
    lengths: dict[str, Any] = {}
    if settings.style != "chat" and kept:
        kept, lengths = _tokenize(settings, folder, kept, dropped)
    heldout = {pair.structure for pair in kept if pair.split != "train"}
    tasks = list(_practice(folders, heldout))
    write_records(folder / "tasks.jsonl", tasks)
    write_text(folder / "contamination.jsonl", "".join(json.dumps(one) + "\n" for one in forbidden.removed))
    # Last, since its presence means that the corpus is complete.
    write_records(folder / "examples.jsonl", kept)
    counts, seconds = summary(folders)
    card = {
        **cards.describe(kept),
        "practice": len(tasks),
        "tokens": lengths,
        "dropped": dict(dropped.most_common()),
        "judged": dict(counts.most_common()),
        "core_seconds": round(seconds),
        "benchmarks": {"places": [str(one.name) for one in benchmarks], **forbidden.describe()},
        "settings": settings.model_dump(mode="json"),
    }
    run.write_json("card.json", card)
    write_text(folder / "README.md", cards.text(card))
    run.finish("corpus")
    return card


def build(
    settings: CorpusSettings,
    folder: Path,
    verifier: Verifier | None = None,
    progress: Progress = silent,
    *,
    pricing: Verifier | None = None,
    workers: int = 0,
    benchmarks: Sequence[Path] = (),
) -> dict[str, Any]:
    """Make (or resume) the corpus in `folder`. Returns its card.

    With a verifier, its workers judge, and those of `pricing` price kernels if `settings.priced`; otherwise `workers` processes
    judge (0: one per core). Raises UserError for a folder with a corpus of other settings, or if no training pair is left.
    """
    for place in benchmarks:
        next(tasks_of(place), None)  # an empty place should fail now, not after hours
    run = RunFolder(folder)
    run.start(settings, resume=True)
    make_parts(settings, folder, workers or cores(), verifier, progress, pricing)
    return merge(settings, folder, benchmarks=benchmarks, progress=progress)


def _keep_new(
    settings: CorpusSettings,
    folders: Sequence[Path],
    forbidden: Benchmarks,
    dropped: Counter[str],
    progress: Progress,
) -> Iterator[Pair]:
    """Pairs that are new, not a benchmark's, and not too many that differ only in numbers."""
    seen: set[str] = set()
    alike: Counter[str] = Counter()
    paths = [path for folder in folders for path in parts_of(folder, "pairs")]
    for number, path in enumerate(paths, 1):
        for pair in read_jsonl(path, Pair):
            shown = pair.shown.code if pair.shown else ""
            same = "\0".join((pair.kind, pair.digest, pair.code, shown))
            form = "\0".join((pair.kind, pair.structure, pair.code, shown))
            alike[form] += 1
            if same in seen:
                dropped["twice"] += 1
            elif forbidden.leak(pair):
                dropped["a benchmark's"] += 1
            elif alike[form] > settings.most_alike:
                dropped["alike but for sizes"] += 1
            else:
                yield pair
            seen.add(same)
        progress("merge", number, len(paths))


def _mix(pairs: Sequence[Pair], seed: int) -> list[Pair]:
    """Shuffle, but keep pairs of one graph together, so that readers print each graph once."""
    graphs: dict[str, list[Pair]] = {}
    for pair in pairs:
        graphs.setdefault(pair.digest, []).append(pair)
    order = sorted(graphs)
    random.Random(seed).shuffle(order)
    return [pair for digest in order for pair in graphs[digest]]


def _tokenize(
    settings: CorpusSettings, folder: Path, kept: list[Pair], dropped: Counter[str]
) -> tuple[list[Pair], dict[str, Any]]:
    """Train the tokenizer on training pairs. Returns the pairs that are not too long, and a table of their lengths."""
    texts = list(on_all_cores(lambda pair: text_of(pair, settings), kept))
    training = [text for text, pair in zip(texts, kept, strict=True) if pair.split == "train"]
    chosen = random.Random(settings.seed).sample(training, min(len(training), LEARNED))
    learned = ["".join(text) for text in chosen]
    with new_folder(folder / "tokenizer") as staging:
        tokenizer = train_tokenizer(
            learned, settings.vocab_size, staging, style=settings.style, cut=settings.cut
        )
    tokens = lru_cache(512)(lambda text: len(tokenizer(text)["input_ids"]))  # neighbours share a prompt
    counts = list(on_all_cores(lambda text: (tokens(text[0]), tokens(text[1])), texts))
    fits = [not settings.max_tokens or sum(count) <= settings.max_tokens for count in counts]
    dropped["too long"] += len(kept) - sum(fits)
    rows = [(pair, count) for pair, count, fit in zip(kept, counts, fits, strict=True) if fit]
    return [pair for pair, _ in rows], {"vocabulary": len(tokenizer), **cards.lengths(rows)}


def text_of(pair: Pair, settings: CorpusSettings) -> tuple[str, str]:
    """A pair's (prompt, answer) as training sees them."""
    prompt, answer = prompts.example_pair(pair, settings.style)
    return "\n".join(message.content for message in prompt.messages), answer


def _practice(folders: Sequence[Path], heldout: set[str]) -> Iterator[Task]:
    for path in (one for folder in folders for one in parts_of(folder, "practice")):
        for task in read_jsonl(path, Task):
            if structure(Graph.model_validate_json(task.graph)) not in heldout:
                yield task
