"""Weights under which elements reach more outputs than under freshly drawn ones, such as a decay that was learnt to be slow.

What a reference does far along an axis may vanish under its initial weights (0.7 to the 128th), and a kernel that leaves it out
passes there. We try on the reference, with one size as long as is cheap, which weights bring it back: each small parameter is
moved up and down as a whole, and input elements are moved one by one, to count the outputs that change. Of a backward pass
cotangents are inputs, and gradients are outputs.

Does not find weights that reach further only together. Inputs of few elements are scaled (`oracle.few_that_bend`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import torch

from kernelwright.verify.reference.copies import copied
from kernelwright.verify.reference.task_module import finite, outputs_of, where_possible
from kernelwright.verify.structures import flatten, with_changed

_STEP, _STEPS = 6.0, (4.0, 8.0)
"""How far a parameter is moved for the trial, and the range for its elements in a case: a sigmoid is near 1 there."""
_MOST_ELEMENTS, _MOST_PARAMETERS = 1024, 4
_TRIED = 4
"""Elements that are moved in each of the first two inputs, and in the last."""
MOST_OPERATORS = 1500
"""The most operators of the reference in a call for which this is asked: it is called some hundred times."""
_NOTICED = 0.02
"""An output has changed if it moved by this share of the largest output."""
_FURTHER = 2.0
"""Reaching further means this many times as many outputs."""


def farther(module: torch.nn.Module, inputs: object, dice: random.Random) -> dict[str, float]:
    """For at most one parameter, by name, the sign of a step that lets input elements reach many more outputs; usually empty."""
    found: dict[str, float] = {}
    small = small_parameters(module)
    with where_possible():
        if not (places := _places(inputs, dice) if small else []):
            return {}
        # An element that reaches its own output alone is no further away where that was cut off before.
        usual = max(_count_reached(module, inputs, places), len(places))
        most, outputs = 0, sum(one.numel() for one in outputs_of(module, inputs))
        if usual * _FURTHER > outputs * len(places):
            return {}
        for _, name in sorted(small)[:_MOST_PARAMETERS]:
            for sign in (1.0, -1.0):
                with where_possible():
                    moved = copied(module)
                    with torch.no_grad():
                        moved.get_parameter(name).add_(sign * _STEP)
                    reached = _count_reached(moved, inputs, places)
                    if reached > max(most, _FURTHER * usual):
                        found, most = {name: sign}, reached
    return found


def small_parameters(module: torch.nn.Module) -> list[tuple[int, str]]:
    """(elements, name) of the parameters that are moved; a graph's weights are inputs, so it has none."""
    return [
        (one.numel(), name)
        for name, one in module.named_parameters()
        if one.requires_grad and one.is_floating_point() and 0 < one.numel() <= _MOST_ELEMENTS
    ]


def moved_parameters(
    module: torch.nn.Module, signs: Mapping[str, float], generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """The parameters in `signs`, each element moved by a step of its own."""
    low, high = _STEPS
    found = {}
    for name, sign in signs.items():
        value = module.get_parameter(name).detach()
        steps = low + (high - low) * torch.rand(value.shape, generator=generator)
        found[name] = value + (sign * steps).to(value)
    return found


def _places(inputs: object, dice: random.Random) -> list[tuple[int, int]]:
    """(number of an input, flat index), one in each of equal stretches: early elements may reach furthest."""
    floating = [
        (n, one.numel()) for n, one in enumerate(flatten(inputs)) if one.is_floating_point() and one.numel()
    ]
    return [
        (number, int((stretch + dice.random()) * count / _TRIED))
        for number, count in (floating if len(floating) < 3 else [*floating[:2], floating[-1]])
        for stretch in range(_TRIED)
    ]


def _count_reached(module: torch.nn.Module, inputs: object, places: list[tuple[int, int]]) -> int:
    """How many outputs change when elements are moved, summed over elements; 0 if the reference is not finite."""
    usual = outputs_of(module, inputs)
    if not finite(usual):
        return 0
    found = 0
    for number, place in places:

        def changed(tensor: torch.Tensor, place: int = place) -> torch.Tensor:
            made = tensor.clone(memory_format=torch.contiguous_format)
            made.view(-1)[place] += 1.0 + float(tensor.abs().max())
            return made

        for one, other in zip(usual, outputs_of(module, with_changed(inputs, number, changed)), strict=True):
            most = float(one.double().abs().max()) if one.numel() else 0.0
            found += int(((one.double() - other.double()).abs() > _NOTICED * most).sum())
    return found
