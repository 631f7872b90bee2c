"""Synthesis: the drafts of a corpus, in an order that a config alone decides.

Held-out examples come first, then validation, then training: graphs, and last the golds. Every graph has its own
random state, `(seed, split, number)`, so a run that was stopped makes the same drafts again and goes on where its
file ends. Drafts are unverified, and may be duplicates of each other but for sizes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kernelwright.data import graphs, normal, pairs
from kernelwright.data.config import CorpusConfig
from kernelwright.data.families import sampler as families
from kernelwright.data.golds import gold_examples, gold_graphs
from kernelwright.data.streams import Stream
from kernelwright.errors import UserError
from kernelwright.records import Example, Task

Progress = Callable[[str, int, int], None]
"""Called with (step, done, total)."""

_ATTEMPTS = 2000
"""Draws of a graph that is sound, new and of the wanted split, before the operators are held to be exhausted."""


def drafts(config: CorpusConfig) -> Iterator[Example]:
    """Every draft, without duplicates. Raises UserError when there are not as many graphs as the config wants."""
    seen: set[str] = set()
    for example in _all(config):
        key = identity(example)
        if key not in seen:
            seen.add(key)
            yield example


def _all(config: CorpusConfig) -> Iterator[Example]:
    wanted: tuple[tuple[pairs.Split, int], ...] = (
        ("heldout", config.heldout_graphs),
        ("validation", config.validation_graphs),
        ("train", config.train_graphs),
    )
    for split, count in wanted:
        # A gold's function may be drawn for training too, and for nothing else.
        taken = set() if split == "train" else gold_graphs(config)
        for rng, graph in _new_graphs(config, split, split, count, taken):
            yield from pairs.examples(config, rng, graph, split)
    yield from gold_examples(config)
    yield from families.drafts(config)


def practice(config: CorpusConfig, taken: Iterable[str]) -> Iterator[Task]:
    """Tasks of the training split on graphs that are not among the digests `taken`."""
    taken = set(taken)
    for rng, graph in _new_graphs(config, "practice", "train", config.practice_graphs, taken):
        yield pairs.ask(config, rng, graph, heldout=False).task
    yield from families.practice(config, taken)


def _new_graphs(
    config: CorpusConfig, name: str, split: pairs.Split, count: int, taken: Iterable[str]
) -> Iterator[tuple[random.Random, graphs.Graph]]:
    """`count` sound graphs of a split, all different, each with the random state it was drawn from."""
    drawn = set(taken)

    def fits(graph: graphs.Graph) -> bool:
        return pairs.split_of(graph.digest, len(graph.steps), config) == split and graph.digest not in drawn

    for number in range(count):
        rng = random.Random(f"{config.seed}:{name}:{number}")
        graph = graphs.draw_sound(config, rng, _ATTEMPTS, fits)
        if graph is None:
            raise UserError(
                f"data: only {number} of {count} different {name} graphs could be drawn; set {name}_graphs "
                "lower, or allow more operators or lengths"
            )
        drawn.add(graph.digest)
        yield rng, graph


def identity(example: Example) -> str:
    """What makes two examples the same: kind, reference and kernels in normal form (sizes apart)."""
    return normal.digest(
        example.kind,
        normal.normal_form(example.task.source),
        normal.normal_form(example.kernel, keep_sizes=True),
        normal.normal_form(example.code, keep_sizes=True),
    )


def synth(config: CorpusConfig, out: Path, progress: Progress | None = None) -> int:
    """Write the drafts to `out`, going on where a stopped run of the same config left off. Returns their number."""
    stream = Stream(out, Example)
    if stream.whole:
        return len(stream)
    done, made = len(stream), 0
    total = estimate(config)
    with stream:
        for made, example in enumerate(drafts(config), 1):
            if made > done:
                stream.write(example)
            if progress is not None:
                progress("synth", min(made, total), total)
    if progress is not None:
        progress("synth", made, made)
    return made


def estimate(config: CorpusConfig) -> int:
    """About how many drafts there will be, a few duplicates less."""
    per_graph = config.variants + round(config.improve * config.improve_share) + config.repair
    others = (config.heldout_graphs + config.validation_graphs) * (1 + config.heldout_improve)
    drawn = round(config.family_train * (1 + config.family_improve + config.family_repair))
    drawn = drawn + config.family_validation + config.family_heldout if config.families else 0
    return config.train_graphs * per_graph + others + config.golds * config.variants + drawn
