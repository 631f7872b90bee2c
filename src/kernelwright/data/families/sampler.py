"""Drafts of families: uniform over the families that can be asked for at a length, in an order that a config decides.

Every pair has its own random state, `(seed, split, number)`. Splits go by operator graph as they do for the small
corpus: single operators are always trained on, and sizes of held-out tasks are never trained on. A training pair may
also give an *improve* example (a slower honest kernel of the same task) and a *repair* example (one fault).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kernelwright import shapes
from kernelwright.data import mutations
from kernelwright.data.families.spec import Family
from kernelwright.data.families.table import chosen, pair
from kernelwright.data.families.write import Pair
from kernelwright.data.pairs import Kind, Split, shape_is_heldout, split_of
from kernelwright.data.plans import plan
from kernelwright.errors import UserError
from kernelwright.records import Example, Task

if TYPE_CHECKING:
    from kernelwright.data.config import CorpusConfig

_ATTEMPTS = 400
"""Draws of a pair of the wanted split and of free sizes, before the families are held to have none."""


def drafts(config: CorpusConfig) -> Iterator[Example]:
    """The drafts of the families that `config` names; none where it names none. Raises UserError."""
    families = chosen(config.families)
    if not families:
        return
    wanted: tuple[tuple[Split, int], ...] = (
        ("heldout", config.family_heldout),
        ("validation", config.family_validation),
        ("train", config.family_train),
    )
    for split, count in wanted:
        for number in range(count):
            yield from _examples(config, families, split, f"{config.seed}:families:{split}:{number}")


def practice(config: CorpusConfig, taken: Iterable[str]) -> Iterator[Task]:
    """Tasks of the training split for which nobody shows a kernel, on graphs of two operators and more that are not
    among the digests `taken`."""
    families, drawn = chosen(config.families), set(taken)
    lengths = [n for n in config.family_lengths if n > 1 and any(n in family.levels for family in families)]
    for number in range(config.family_practice if lengths else 0):
        rng = random.Random(f"{config.seed}:families:practice:{number}")
        for _ in range(_ATTEMPTS):
            length = rng.choice(lengths)
            family = rng.choice([f for f in families if length in f.levels])
            made = pair(family, str(rng.random()), "", length)
            if made.graph not in drawn and _belongs(made, "train", config):
                drawn.add(made.graph)
                yield made.task
                break


def _belongs(made: Pair, split: Split, config: CorpusConfig) -> bool:
    """Whether a pair's graph and sizes are of `split`."""
    sizes = list(shapes.constants(made.task.source).values())
    of_graph = split_of(made.graph, made.operators, config) == split
    return of_graph and shape_is_heldout(sizes) == (split == "heldout")


def _examples(
    config: CorpusConfig, families: tuple[Family, ...], split: Split, seed: str
) -> Iterator[Example]:
    rng = random.Random(seed)
    family, length, place, made = _fitting(config, families, split, rng, seed)
    yield _example(made, "translate", split, made.code)
    if split != "train":
        return
    if rng.random() < config.family_improve:
        slower = pair(family, place, f"{place}:slow", length, slow=True)
        if slower.code != made.code:
            yield _example(made, "improve", split, made.code, slower.code)
    if rng.random() < config.family_repair:
        try:
            yield _example(made, "repair", split, made.code, mutations.mutate(made.code, rng))
        except ValueError:
            return


def _fitting(
    config: CorpusConfig, families: tuple[Family, ...], split: Split, rng: random.Random, seed: str
) -> tuple[Family, int, str, Pair]:
    """A pair whose graph and sizes belong to `split`, with what it was drawn from."""
    lengths = [n for n in config.family_lengths if any(n in family.levels for family in families)]
    if split != "train":
        lengths = [n for n in lengths if n > 1]
    for attempt in range(_ATTEMPTS if lengths else 0):
        length = rng.choice(lengths)
        family = rng.choice([f for f in families if length in f.levels])
        place = f"{seed}:{attempt}"
        made = pair(family, place, f"{place}:kernel", length)
        if _belongs(made, split, config):
            return family, length, place, made
    raise UserError(
        f"data: the families have no pairs for the {split} split at lengths {list(config.family_lengths)}; set "
        f"family_{split}=0, or name families of two operators and more, such as fusion"
    )


def _example(made: Pair, kind: Kind, split: Split, code: str, kernel: str = "") -> Example:
    return Example(
        kind=kind,
        task=made.task,
        kernel=kernel,
        plan=plan(code),
        code=code,
        teacher="families",
        split=split,
        graph=made.graph,
    )
