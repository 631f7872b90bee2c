"""From a random state to one `Example`: graph, shapes, reference, kernel, plan.

*translate*: reference -> plan and kernel. *improve*: reference and an honest kernel -> a kernel that should be
faster. *repair*: reference and a kernel with one fault -> the kernel without it. The last two are drafts: their
`feedback` stays empty until `corpus.validate` has the verifier's word on the kernel shown.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from kernelwright.data import library, mutations, source
from kernelwright.data.graphs import Graph
from kernelwright.data.library import Variant
from kernelwright.data.plans import plan
from kernelwright.records import Example, Task

Split = Literal["train", "validation", "heldout"]

FULL_ROWS = (1000, 1024, 2000, 2048, 3000, 4096, 6000, 8192, 12000, 16384, 20000, 32768)
FULL_COLUMNS = (500, 512, 768, 1000, 1024, 1536, 2048, 3000, 4096, 5000, 8192, 10000)
FULL_ELEMENTS = (4 << 20, 64 << 20)
"""16 to 256 MB of float32 for the main input."""
SMALL_ELEMENTS = 4096
HELDOUT_SHAPE_SHARE = 0.2


def split_of(graph_digest: str, heldout: float, validation: float) -> Split:
    """The split an operator graph belongs to: by its digest alone, so that no run can move it."""
    place = int(graph_digest[:8], 16) / 2**32
    return "heldout" if place < heldout else "validation" if place < heldout + validation else "train"


def shape_is_heldout(sizes: Sequence[int]) -> bool:
    """Whether a combination of full sizes is reserved for held-out tasks."""
    digest = hashlib.sha256(",".join(map(str, sizes)).encode()).digest()
    return digest[0] < 256 * HELDOUT_SHAPE_SHARE


def draw_shapes(
    rng: random.Random, graph: Graph, names: Sequence[str], heldout: bool
) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Full sizes and the shape sets `small` and `small_odd`, for the size constants `names`.

    Small tensors have at most 4,096 elements; odd ones are no powers of two, and wider than a tile or two.
    """
    while True:
        lead = [rng.choice((4, 8, 12, 16, 32))] if graph.rank == 3 else []
        full = [*lead, rng.choice(FULL_ROWS), rng.choice(FULL_COLUMNS)]
        elements = 1
        for size in full:
            elements *= size
        if FULL_ELEMENTS[0] <= elements <= FULL_ELEMENTS[1] and shape_is_heldout(full) == heldout:
            break
    extra = [2] if graph.rank == 3 else []
    room = SMALL_ELEMENTS // (2 if extra else 1)
    if graph.row_index is not None:
        small = [rng.choice((2, 4)), rng.choice((64, 128, 256))]
        rows = rng.choice((2, 3)) if not extra else 1
        odd = [rows, rng.randrange(301, min(room // rows, 1300), 2)]
    else:
        small = [rng.choice((4, 8)), rng.choice((64, 128))]
        odd = [rng.choice((3, 5, 7)), rng.randrange(151, 281, 2)]
    sets = {"small": [*extra, *small], "small_odd": [*extra, *odd]}
    return dict(zip(names, full, strict=True)), {
        name: dict(zip(names, sizes, strict=True)) for name, sizes in sets.items()
    }


def make(
    rng: random.Random,
    graph: Graph,
    kind: Literal["translate", "repair", "improve"],
    split: Split,
    *,
    wide: bool,
    unfused_share: float,
) -> Example:
    """One example for `graph`; `improve` and `repair` are drafts without feedback."""
    style = source.draw_style(rng, graph, wide)
    sizes, shapes = draw_shapes(rng, graph, style.sizes, split == "heldout")
    reference = source.write(graph, style, sizes, rng)
    variant = library.draw_variant(rng, graph, wide=wide, unfused_share=unfused_share)
    if kind == "improve":
        slow = slower(rng, graph, variant)
        kernel, code = library.write(graph, reference, slow), library.write(graph, reference, variant)
    elif kind == "repair":
        code = library.write(graph, reference, variant)
        kernel = mutations.mutate(code, rng)
    else:
        kernel, code = "", library.write(graph, reference, variant)
    task = Task(
        id=f"synth/{graph.digest}-{hashlib.sha256(reference.source.encode()).hexdigest()[:8]}",
        suite="synth",
        source=reference.source,
        shapes=shapes,
        family=graph.family,
        difficulty=len(graph.steps),
    )
    return Example(
        kind=kind,
        task=task,
        kernel=kernel,
        plan=plan(code),
        code=code,
        teacher="library",
        split=split,
        graph=graph.digest,
    )


def slower(rng: random.Random, graph: Graph, fast: Variant) -> Variant:
    """A variant that moves more memory than `fast`, or fits the machine worse; never the same one."""
    row = graph.row_index is not None
    choices: list[Mapping[str, object]] = []
    if fast.fused and len(graph.steps) > 1:
        choices += [{"fused": False}] * 2
    if row and fast.rows == "whole":
        choices.append({"rows": "walk"})
    choices.append({"warps": rng.choice([warps for warps in library.WARPS if warps != fast.warps])})
    blocks = library.ROW_BLOCKS if row else library.BLOCKS
    choices.append({"block": rng.choice([block for block in blocks if block != fast.block])})
    changes = dict(rng.choice(choices))
    if row and fast.rows == "whole" and "block" in changes:
        changes["rows"] = "walk"
    return replace(fast, **changes)  # type: ignore[arg-type]
