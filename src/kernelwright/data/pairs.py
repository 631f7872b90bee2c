"""From an operator graph to its examples: references in several styles, kernels in several variants, plans.

*improve*: reference and an honest kernel -> the kernel that should be fastest. *translate*: reference -> plan and
kernel. *repair*: reference and a kernel with one fault -> the kernel without it. All are drafts until `validate` has
the verifier's word, and the last word on `improve` and `repair` is its too: their feedback is empty till then.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernelwright.data import library, mutations, source
from kernelwright.data.config import CorpusConfig
from kernelwright.data.graphs import Graph
from kernelwright.data.plans import plan
from kernelwright.records import Example, Task

Split = Literal["train", "validation", "heldout"]
Kind = Literal["translate", "repair", "improve"]

ROWS = (1000, 1024, 2000, 2048, 3000, 4096, 6000, 8192, 12000, 16384, 20000, 32768)
COLUMNS = (500, 512, 768, 1000, 1024, 1536, 2048, 3000, 4096)
LONG_COLUMNS = (*COLUMNS, 5000, 8192, 10000)
ELEMENTS = (4 << 20, 64 << 20)
"""16 to 256 MB of float32 for the main input."""
HELDOUT_SHAPE_SHARE = 0.2


@dataclass(frozen=True)
class Asked:
    """A task, with what a kernel writer needs to know of its reference."""

    task: Task
    reference: source.Reference
    width: int
    """Length of the last dimension at full size."""


def split_of(digest: str, operators: int, config: CorpusConfig) -> Split:
    """The split an operator graph belongs to: by its digest alone, so that no run can move it.

    Graphs of a single operator are the vocabulary that compositions are made of: always for training.
    """
    place = int(digest[:8], 16) / 2**32
    if operators == 1 or place >= config.heldout_share + config.validation_share:
        return "train"
    return "heldout" if place < config.heldout_share else "validation"


def shape_is_heldout(sizes: Sequence[int]) -> bool:
    """Whether a combination of full sizes is reserved for held-out tasks."""
    digest = hashlib.sha256(",".join(map(str, sizes)).encode()).digest()
    return digest[0] < 256 * HELDOUT_SHAPE_SHARE


def examples(config: CorpusConfig, rng: random.Random, graph: Graph, split: Split) -> list[Example]:
    """The drafts of one graph: `improve` first, so that what they hear serves the others too."""
    held = split == "heldout"
    first = ask(config, rng, graph, held)
    best = library.best_variant(graph, first.width)
    slower = library.slower_variants(graph, first.width)
    wanted = config.heldout_improve
    if split == "train":
        wanted = config.improve if rng.random() < config.improve_share else 0
    slow = rng.sample(slower, min(len(slower), wanted))
    answer = library.write(graph, first.reference, best)
    found = [
        _example(graph, first, "improve", split, answer, library.write(graph, first.reference, variant))
        for variant in slow
    ]
    if split != "train":
        return [*found, _example(graph, first, "translate", split, answer)]
    # Kernels that were heard above serve as structures; where there were none, one structure has to do.
    plain = slow or [rng.choice(slower) if rng.random() < config.plain_share else best]
    for _ in range(config.variants):
        asked = ask(config, rng, graph, held)
        structure = rng.choice(plain) if not slow or rng.random() < config.plain_share else best
        variant = library.alike(rng, graph, structure, asked.width, config.wide)
        found.append(
            _example(graph, asked, "translate", split, library.write(graph, asked.reference, variant))
        )
    for _ in range(config.repair):
        variant = library.alike(rng, graph, plain[0], first.width, config.wide)
        code = library.write(graph, first.reference, variant)
        found.append(_example(graph, first, "repair", split, code, mutations.mutate(code, rng)))
    return found


def ask(config: CorpusConfig, rng: random.Random, graph: Graph, heldout: bool) -> Asked:
    """One task for `graph`, in a random style, at random full sizes and interpreter-sized small ones."""
    style = source.draw_style(rng, graph, config.wide)
    full, small, odd = draw_sizes(rng, graph, heldout, LONG_COLUMNS if config.wide else COLUMNS)
    reference = source.write(graph, style, dict(zip(style.sizes, full, strict=True)), rng)
    task = Task(
        id=f"synth/{graph.digest}-{hashlib.sha256(reference.source.encode()).hexdigest()[:8]}",
        suite="synth",
        source=reference.source,
        shapes={
            "small": dict(zip(style.sizes, small, strict=True)),
            "small_odd": dict(zip(style.sizes, odd, strict=True)),
        },
        family=graph.family,
        difficulty=len(graph.steps),
    )
    return Asked(task, reference, full[-1])


def draw_sizes(
    rng: random.Random, graph: Graph, heldout: bool, columns: Sequence[int] = COLUMNS
) -> tuple[list[int], list[int], list[int]]:
    """Full sizes, and those of the shape sets `small` and `small_odd`.

    The odd ones are no powers of two and larger than any tile, so that a kernel which forgets its program id, or
    which part of a row it is at, is found out; not much larger, for the interpreter runs program after program.
    """
    while True:
        lead = [rng.choice((4, 8, 12, 16, 32))] if graph.rank == 3 else []
        full = [*lead, rng.choice(ROWS), rng.choice(columns)]
        if ELEMENTS[0] <= math.prod(full) <= ELEMENTS[1] and shape_is_heldout(full) == heldout:
            break
    extra = [2] if graph.rank == 3 else []
    if graph.row_index is not None:
        small = [rng.choice((2, 4)), rng.choice((64, 128, 256))]
        odd = [1 if extra else 2, rng.randrange(max(library.ROW_BLOCKS) + 1, 2 * max(library.ROW_BLOCKS), 2)]
    else:
        small = [rng.choice((2, 4)), rng.choice((64, 128))]
        rows, least = rng.choice((3, 5, 7)), max(library.BLOCKS)
        odd = [rows, rng.randrange(least // rows | 1, 3 * least // (2 * rows), 2) + 2]
    return full, [*extra, *small], [*extra, *odd]


def _example(graph: Graph, asked: Asked, kind: Kind, split: Split, code: str, kernel: str = "") -> Example:
    return Example(
        kind=kind,
        task=asked.task,
        kernel=kernel,
        plan=plan(code),
        code=code,
        teacher="library",
        split=split,
        graph=graph.digest,
    )
