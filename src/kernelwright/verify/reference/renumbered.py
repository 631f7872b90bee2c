"""Inputs with other Python numbers or of another type, and the reference's names of inputs: other calls of the same object.

A kernel may rely on a number that the task writes, but what it made for one it may not use for another. So nothing is asked of
calls with these inputs, only of later calls. Texts and None are not changed.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelwright.verify.reference.cases import Case
from kernelwright.verify.reference.task_module import finite, outputs_of, where_possible
from kernelwright.verify.structures import Args, DispatchMode, Kwargs, Op, convert, describe, flatten, like

_MOST = 8
"""The most numbers that are changed."""
_FAR = 100
"""How many times as far a step count lies."""
_LITTLE = (2.0**-8, -1e-2)
"""Relative changes of a float, too small for a cache key of few digits."""
_TYPES = (torch.float32, torch.float16, torch.bfloat16)
Number = bool | int | float
Change = Callable[[Number], Number]


def with_other_numbers(case: Case) -> Iterator[object]:
    """Inputs (`describe`d) of calls with one number changed each: by much, and a float also by little. Only those with which
    the reference runs and gives outputs of the same shapes."""
    for place, number in enumerate(_numbers(case.inputs)[:_MOST]):
        for several in _CHANGES:
            for change in several:
                other, _ = _change_at(list(case.inputs), place, change)
                if change(number) != number and _is_taken(case, other):
                    yield describe(other)
                    break


def in_another_type(case: Case) -> Iterator[object]:
    """Inputs (`describe`d) of a call with floats in half precision, or single if some are half, if the reference accepts
    that."""
    dtypes = {one.dtype for one in flatten(case.inputs) if one.dtype in _TYPES}
    if not dtypes:
        return
    other = torch.bfloat16 if dtypes == {torch.float32} else torch.float32
    made = convert(list(case.inputs), lambda one: one.to(other) if one.dtype in _TYPES else one)
    if _is_taken(case, made):
        yield describe(made)


class _Forms(DispatchMode):
    """Records operators with their integers and the shapes of their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        leaves = tree_leaves((args, kwargs or {}))
        self.seen.append(
            [
                func,
                *(
                    one.shape if isinstance(one, torch.Tensor) else one
                    for one in leaves
                    if type(one) is not float
                ),
            ]
        )
        return func(*args, **(kwargs or {}))


def step_counts(
    module: torch.nn.Module, inputs: Sequence[Any], named: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """(place among the inputs, other number) for integers that reach the reference's operators as floats only, like a step by
    which a schedule computes a rate: 1, one far beyond it, and around numbers that the task names. Only those with which the
    reference is finite and gives something else each."""
    for place, number in enumerate(inputs):
        if type(number) is not int:
            continue

        def called(other: int, place: int = place) -> tuple[list[object], list[torch.Tensor]]:
            with _Forms() as forms:
                outputs = outputs_of(module, [*inputs[:place], other, *inputs[place + 1 :]])
            return forms.seen, outputs

        with where_possible():
            (form, usual), (after, _) = called(number), called(number + 1)
            if form != after:
                continue
            around = [
                near for one in sorted(named, reverse=True) for near in (2 * one, one + 1, one, one // 2)
            ]
            known, shapes = [usual], [one.shape for one in usual]
            for other in dict.fromkeys((1, _FAR * abs(number) + 1, *around)):
                with where_possible():
                    made = called(other)[1]
                    fits = finite(made) and [one.shape for one in made] == shapes
                    if fits and not any(all(map(torch.equal, made, one)) for one in known):
                        known.append(made)
                        yield place, other
                if len(known) > _MOST:
                    break


def _is_taken(case: Case, inputs: Any) -> bool:
    with where_possible():
        made = outputs_of(case.module, inputs)
        return finite(made) and [one.shape for one in made] == [one.shape for one in case.expected]
    return False


def _numbers(tree: object) -> list[Number]:
    if isinstance(tree, (list, tuple, dict)):
        return [one for part in (tree.values() if isinstance(tree, dict) else tree) for one in _numbers(part)]
    return [tree] if isinstance(tree, (bool, int, float)) and math.isfinite(tree) else []


def _change_at(tree: Any, place: int, change: Change) -> tuple[Any, int]:
    """The nest with the number at `place` changed, and `place` less the numbers that the nest has."""
    if isinstance(tree, dict):
        items, place = _change_at(list(tree.values()), place, change)
        return dict(zip(tree, items, strict=True)), place
    if isinstance(tree, (list, tuple)):
        items = []
        for item in tree:
            made, place = _change_at(item, place, change)
            items.append(made)
        return (items if isinstance(tree, list) else like(tree, items)), place
    if not _numbers(tree):
        return tree, place
    return (change(tree) if place == 0 else tree), place - 1


def _more(number: Number) -> Number:
    if isinstance(number, bool):
        return not number
    return number + 1 if isinstance(number, int) else 2 * number + (number == 0.0)


def _less(number: Number) -> Number:
    if isinstance(number, bool):
        return number
    return number - 1 if isinstance(number, int) else number / 2


def _times(number: Number, factor: float) -> Number:
    return number * factor if isinstance(number, float) else number


_CHANGES: tuple[tuple[Change, ...], ...] = (
    (_more, _less),
    *((functools.partial(_times, factor=1.0 + share),) for share in _LITTLE),
)
"""Of each tuple the first change that the reference accepts is used."""


def names_of_inputs(case: Case) -> Sequence[str]:
    """The reference's parameter names for its inputs, in order; empty if it does not name them."""
    for kind in type(case.module).__mro__:
        if "forward" in vars(kind):  # a class of ours may come before the task's
            parameters = [*inspect.signature(vars(kind)["forward"]).parameters.values()][1:]
            named = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
            if len(named) >= len(case.inputs):
                return named[: len(case.inputs)]
    return ()
