"""All families by name, and a pair of one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kernelwright.data.families import (
    attention,
    compose,
    convolution,
    formulas,
    losses,
    matmul,
    moves,
    norms,
    pointwise,
    pooling,
    reductions,
    scans,
    training,
)
from kernelwright.data.families.spec import FREED, Draw, Family
from kernelwright.data.families.write import Pair, write
from kernelwright.errors import UserError, did_you_mean

_MODULES = (
    *(
        matmul,
        convolution,
        pointwise,
        formulas,
        moves,
        norms,
        pooling,
        reductions,
        scans,
        losses,
        attention,
        training,
        compose,
    ),
)
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {family.name: family for module in _MODULES for family in module.FAMILIES}
)
CATEGORIES = tuple(dict.fromkeys(family.category for family in FAMILIES.values()))


def chosen(names: Iterable[str]) -> tuple[Family, ...]:
    """The families that names and categories stand for; `all` stands for every one. Raises UserError."""
    found: dict[str, Family] = {}
    for name in names:
        matching = [f for f in FAMILIES.values() if name in ("all", f.name, f.category)]
        if not matching:
            known = ("all", *CATEGORIES, *FAMILIES)
            hint = did_you_mean(name, known)
            raise UserError(f"data: unknown family {name!r}{hint}; families are all, {', '.join(known[1:])}")
        found.update({family.name: family for family in matching})
    return tuple(found.values())


def pair(
    family: Family,
    task: str,
    kernel: str,
    operators: int = 0,
    slow: bool = False,
    spellings: int = 1,
    freed: float = FREED,
) -> Pair:
    """A task seeded by `task` and a kernel for it seeded by `kernel`.

    `operators` is the wanted length of a chain, 0 for the family's shortest; `slow` asks for an honest kernel in a
    structure or with tiles that should be slower; `spellings` is in how many styles the task is written, `freed` the
    share of tasks whose weights are inputs.
    """
    draw = Draw(task, kernel, operators or family.levels[0], slow, freed)
    return write(family.name, family.category, family.draw(draw), draw, spellings)
