"""Inputs of a reference with other numbers of Python's, and the names it has for them: how else a user calls the same object.

A kernel may know a number that a task writes; but what it made for one it may not use for another. So nothing is asked of calls on
these inputs, only of those that come after. Does not change texts, nor what stands for nothing.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from typing import Any

from kernelwright.verify.reference.cases import Case
from kernelwright.verify.reference.task_module import finite, outputs_of, where_possible
from kernelwright.verify.structures import describe, like

_MOST = 8
"""Numbers that are changed."""


def with_other_numbers(case: Case) -> Iterator[object]:
    """The inputs (`describe`d) of calls with one number changed each, as far as the reference takes them and gives outputs of the
    same shapes."""
    for place in range(min(_count(case.inputs), _MOST)):
        for step in (0, 1):
            other, _ = _change_at(list(case.inputs), place, step)
            if _is_taken(case, other):
                yield describe(other)
                break


def _is_taken(case: Case, inputs: Any) -> bool:
    with where_possible():
        made = outputs_of(case.module, inputs)
        return finite(made) and [one.shape for one in made] == [one.shape for one in case.expected]
    return False


def _is_number(item: object) -> bool:
    return isinstance(item, (bool, int, float)) and math.isfinite(item)


def _count(tree: object) -> int:
    if isinstance(tree, (list, tuple, dict)):
        return sum(map(_count, tree.values() if isinstance(tree, dict) else tree))
    return int(_is_number(tree))


def _change_at(tree: Any, place: int, step: int) -> tuple[Any, int]:
    """The nest with another number at a place, and the place as counted from behind it."""
    if isinstance(tree, dict):
        items, place = _change_at(list(tree.values()), place, step)
        return dict(zip(tree, items, strict=True)), place
    if isinstance(tree, (list, tuple)):
        items = []
        for item in tree:
            made, place = _change_at(item, place, step)
            items.append(made)
        return (items if isinstance(tree, list) else like(tree, items)), place
    if not _is_number(tree):
        return tree, place
    return (_another(tree, step) if place == 0 else tree), place - 1


def _another(number: bool | int | float, step: int) -> bool | int | float:
    if isinstance(number, bool):
        return not number
    if isinstance(number, int):
        return number + (-1 if step else 1)
    return number / 2 if step else 2 * number + (number == 0.0)


def names_of_inputs(case: Case) -> Sequence[str]:
    """What the reference calls its inputs, in their order; none where it does not say."""
    for kind in type(case.module).__mro__:
        if "forward" in vars(kind):  # a class of ours may stand in front of the task's
            parameters = [*inspect.signature(vars(kind)["forward"]).parameters.values()][1:]
            named = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
            if len(named) >= len(case.inputs):
                return named[: len(case.inputs)]
    return ()
