"""Inputs for which a reference that works in rounds needs many of them.

What follows pointers, relaxes edges, grows regions, divides with remainder or multiplies with one matrix again and again has settled
within a few rounds where data are drawn at random, and a kernel may stop there. Such a reference calls one operator several
times, and is asked about:

- numbers of places along their own axis (parents): each names the one before, or behind; distinct ones go round;
- lists of places of one form (edges): a path from place to place; positive numbers of each place are 0 at its ends, else large;
- two masks (booleans, or numbers 0 and 1): one place in each image, and all of the other; a single mask of ones;
- square matrices in several products each: two groups with weak links, and places that pass all on to the next, or
  where minima are taken a path; matrices whose rows and columns are normalised in turn: two groups, and one row as drawn;
- pairs of integers that are divided: neighbours among Fibonacci's numbers; of those that are divided or shifted, every other row
  is the largest digit throughout, to which a one is added at an end (a carry through all digits).

What a reference does not accept is passed over. Not found: lists that divide what they name; chains of floats that are rounded to
places; sizes at which a path is longer than a reference's own rounds need both sizes long (`judge._long_cases`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from kernelwright.verify.reference.distributions import orders
from kernelwright.verify.reference.operators import Operators
from kernelwright.verify.reference.special_values import ROUNDS, rounds
from kernelwright.verify.reference.whole_numbers import Change, take
from kernelwright.verify.structures import flatten

KIND = "chains"
_FOLLOWS = ("index", "gather", "take", "scatter")
_CARRIES = (
    *_FOLLOWS,
    "max_pool",
    "min",
    "max",
    "amin",
    "amax",
    "roll",
    "logical_or",
    "bitwise_or",
    "constant_pad",
)
"""Operators that read or write the places that integers name, and those that carry numbers to other places, by the beginnings of
their names."""
_PRODUCTS = ("mm", "bmm", "mv", "addmm", "baddbmm")
_DIVIDES, _SHIFTS = ("remainder", "fmod"), ("rshift", "bitwise_right_shift")
_LEAST = ("min", "amin", "fmin")
_BITS = {4: 30, 8: 40}
"""Bits of the largest of Fibonacci's numbers, by the bytes of integers; the others of a dozen lie below it."""
_DOZEN = 12
_WEAK = 0.01
_FAR = 1e6


def follows_lists(operators: Operators, inputs: object) -> bool:
    """Whether a reference reads or writes in rounds places of which its inputs have two lists of one form, or one of pairs."""
    forms = [one.shape for one in flatten(inputs) if _are_places(one)]
    paired = any(form[0] == 2 if len(form) == 2 else forms.count(form) > 1 for form in forms)
    return paired and rounds(operators, _FOLLOWS) >= ROUNDS


def chains(
    inputs: object,
    again: object,
    call: Callable[[object], list[torch.Tensor]],
    operators: Operators,
    seed: int,
) -> Iterator[Any]:
    """The inputs with chains, once or twice, as far as the reference accepts them. `again`: inputs of another draw. `call`: the
    reference, which may raise."""
    given, others = flatten(inputs), flatten(again)
    generator = torch.Generator().manual_seed(seed)
    changes: list[list[Change]] = [[] for _ in given]
    if rounds(operators, _FOLLOWS) >= ROUNDS:
        _add_places(given, others, changes)
    divides = rounds(operators, _DIVIDES) >= ROUNDS
    if "gcd" in operators or divides:
        _add_neighbours(given, changes, generator)
    if divides or rounds(operators, _SHIFTS) >= ROUNDS:
        _add_carries(given, others, changes, [one - 1 for one in operators.landmarks] if divides else [])
    _mix_slowly(given, operators, changes)
    carried = rounds(operators, _CARRIES) >= ROUNDS
    masks = [n for n, one in enumerate(given) if carried and _is_mask(one, others[n])]
    for seeds in masks[:2] or [-1]:
        for place in masks:
            changes[place] = [_one_place if place == seeds and len(masks) > 1 else torch.ones_like]
        made = take(inputs, [iter(some) for some in changes], call) if any(changes) else None
        if made is not None:
            yield made


def _mix_slowly(given: Sequence[torch.Tensor], operators: Operators, changes: Sequence[list[Change]]) -> None:
    """Add changes of matrices that are multiplied, searched for shortest paths, or normalised by rows and columns."""
    squares = [n for n, one in enumerate(given) if _is_matrix(one) and one.shape[-1] == one.shape[-2]]
    shared = min(rounds(operators, ("sum",)), rounds(operators, ("div",))) >= ROUNDS
    in_logs = min(rounds(operators, ("logsumexp",)), rounds(operators, ("sub",))) >= ROUNDS
    for place in squares:
        if rounds(operators, _PRODUCTS) >= ROUNDS * len(squares):
            changes[place].append(_slowly_mixed)
        elif rounds(operators, _LEAST) >= ROUNDS:
            changes[place].append(_path)
    for place, one in enumerate(given):
        if (in_logs or (shared and bool((one > 0).all()))) and _is_matrix(one) and not changes[place]:
            changes[place].append(_of_two_groups)


def _add_places(
    given: Sequence[torch.Tensor], others: Sequence[torch.Tensor], changes: Sequence[list[Change]]
) -> None:
    """Add changes of numbers of places, and of what belongs to the places of lists."""
    whole = [n for n, one in enumerate(given) if _are_places(one)]
    forms = [given[n].shape for n in whole]
    nodes = 0
    for place in whole:
        one, other = given[place], others[place]
        high = max(int(one.max()), int(other.max()))
        axis = _own_axis(one, high)
        mates = [n for n in whole if given[n].shape == one.shape and one.ndim == 1]
        if forms.count(one.shape) > 1 and one.ndim == 1:
            nodes, step = high + 1, mates.index(place)
            changes[place].append(lambda old, n=nodes, step=step: _along_a_path(old, n, step))  # type: ignore[misc]
        elif one.ndim == 2 and one.shape[0] == 2 and axis is None:
            nodes = high + 1
            changes[place].append(
                lambda old, n=nodes: torch.stack([_along_a_path(row, n, at) for at, row in enumerate(old)])  # type: ignore[misc]
            )
        elif axis is not None and not orders(one):
            changes[place].append(lambda old, axis=axis: _next_to_each(old, axis))  # type: ignore[misc]
    for place, one in enumerate(given) if nodes > 2 else ():
        of_places = one.is_floating_point() and one.ndim == 1 and len(one) >= nodes and one.shape not in forms
        if of_places and one.min() >= 0 and not orders(one):
            changes[place].append(_far_but_for_the_ends)


def _are_places(tensor: torch.Tensor) -> bool:
    whole = tensor.dtype in (torch.int32, torch.int64) and tensor.numel() > 2
    return whole and int(tensor.min()) >= -1 and int(tensor.max()) > 1


def _own_axis(tensor: torch.Tensor, high: int) -> int | None:
    """The longest axis of which numbers up to `high` may be places, more than half of them; None without."""
    found = [axis for axis, extent in enumerate(tensor.shape) if high < extent < 2 * (high + 1)]
    return max(found, key=tensor.shape.__getitem__, default=None)


def _next_to_each(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    """Each number that of the place before; of the place behind where none drawn is less than its own. Along other axes of which an
    element has several (neighbours), in turn."""
    extent = tensor.shape[axis]
    own = torch.arange(extent).reshape(-1, *(1,) * (tensor.ndim - axis - 1))
    step = 1 if bool((tensor >= own).all()) else -1
    steps = (
        torch.full((tensor.shape[-1],), step)
        if axis == tensor.ndim - 1
        else step * (-1) ** torch.arange(tensor.shape[-1])
    )
    made = own + steps
    lines = tensor.movedim(axis, -1).reshape(-1, extent)
    distinct = bool((lines.sort().values.diff() > 0).all())
    made = made % extent if distinct else made.clamp(min(0, int(tensor.min())), extent - 1)
    return made.expand_as(tensor).to(tensor).contiguous()


def _along_a_path(tensor: torch.Tensor, nodes: int, step: int) -> torch.Tensor:
    """Edge by edge the place that it leaves, or with `step` 1 the one that it reaches."""
    count = min(nodes - 1, len(tensor))
    return (torch.arange(len(tensor)) * count // len(tensor) + step % 2).to(tensor)


def _far_but_for_the_ends(tensor: torch.Tensor) -> torch.Tensor:
    made = torch.full_like(tensor, _FAR if tensor.dtype != torch.float16 else _FAR / 100)
    made[0] = made[-1] = 0.0
    return made


def _is_mask(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether all is 0 or 1, and both occur, and not in every draw at the same places."""
    if tensor.numel() < 3 or tensor.is_complex() or torch.equal(tensor, other):
        return False
    return bool(((tensor == 0) | (tensor == 1)).all()) and bool((tensor != tensor.reshape(-1)[0]).any())


def _one_place(tensor: torch.Tensor) -> torch.Tensor:
    """0 but for the first, or in turn the last, place of each plane."""
    made = torch.zeros_like(tensor, memory_format=torch.contiguous_format)
    planes = made.flatten(0, -3).flatten(1) if made.ndim > 2 else made.reshape(1, -1)
    planes[::2, 0] = 1
    planes[1::2, -1] = 1
    return made


def _is_matrix(tensor: torch.Tensor) -> bool:
    """Whether the last two axes may be a matrix: of positive floats, or of others but 0, which are not symmetric."""
    if tensor.ndim < 2 or min(tensor.shape[-2:]) < 3 or not tensor.is_floating_point():
        return False
    square = tensor.shape[-1] == tensor.shape[-2]
    one_sided = not bool((tensor <= 0).any())
    return one_sided or not (bool((tensor == 0).any()) or (square and torch.equal(tensor, tensor.mT)))


def _ends(tensor: torch.Tensor) -> tuple[float, float]:
    """The smallest and the largest drawn number, or 0 and 1 where both signs are drawn."""
    return (0.0, 1.0) if bool((tensor < 0).any()) else (float(tensor.min()), float(tensor.max()))


def _groups(rows: int, columns: int) -> torch.Tensor:
    """Whether a row's and a column's places are of one half."""
    return (torch.arange(rows) < rows // 2).unsqueeze(1) == (torch.arange(columns) < columns // 2)


def _slowly_mixed(tensor: torch.Tensor) -> torch.Tensor:
    """Matrices of two numbers (`_ends`): in turn two groups, and (unless symmetric) each place and the next."""
    low, high = _ends(tensor)
    extent = tensor.shape[-1]
    own, groups = torch.arange(extent), _groups(extent, extent)
    turned = (own + 1) % extent == own.unsqueeze(1)
    if low == 0.0:  # groups of ones would grow
        groups = turned.T
    made = torch.stack([groups, groups.T if torch.equal(tensor, tensor.mT) else turned])
    count = tensor.numel() // extent**2
    some = made[torch.arange(count) % 2].reshape(tensor.shape)
    return torch.where(some, high, low).to(tensor)


def _path(tensor: torch.Tensor) -> torch.Tensor:
    """Matrices of two numbers (`_ends`): the smaller between neighbours, the larger elsewhere."""
    low, high = _ends(tensor)
    own = torch.arange(tensor.shape[-1])
    near = (own.unsqueeze(1) - own).abs() == 1
    return torch.where(near, low, high).to(tensor).expand_as(tensor).clone()


def _of_two_groups(tensor: torch.Tensor) -> torch.Tensor:
    """Matrices of two groups with a hundredth of what is drawn between them (logarithms: less by all of the range), but for the first
    row, through which the groups settle slowly."""
    low, high = tensor.aminmax()
    weak = tensor * _WEAK if low > 0 else tensor - (high - low)
    kept = _groups(*tensor.shape[-2:])
    kept[0] = True
    return torch.where(kept, tensor, weak)


def _add_neighbours(
    given: Sequence[torch.Tensor], changes: Sequence[list[Change]], generator: torch.Generator
) -> None:
    """Add changes of pairs of integers to neighbours among Fibonacci's numbers."""
    for first, second in _pairs(given):
        one = given[first]
        if changes[first]:
            continue
        numbers = [1, 2]
        while sum(numbers[-2:]) >> _BITS[one.element_size()] == 0:
            numbers.append(sum(numbers[-2:]))
        place = len(numbers) - 1 - torch.randint(_DOZEN, one.shape, generator=generator)
        table = torch.tensor(numbers)
        changes[first].append(lambda old, place=place, table=table: table[place].to(old))  # type: ignore[misc]
        changes[second].append(lambda old, place=place, table=table: table[place - 1].to(old))  # type: ignore[misc]


def _add_carries(
    given: Sequence[torch.Tensor],
    others: Sequence[torch.Tensor],
    changes: Sequence[list[Change]],
    digits: Sequence[float],
) -> None:
    """Add changes of every other row of pairs of integers (a vector is one) to the largest digit, and zeros with a one first or, in
    turn, last. The largest is the least of `digits` that is not below what is drawn, or has all bits of that."""
    for first, second in _pairs(given):
        if given[first].shape[-1] < 3 or min(int(given[one].min()) for one in (first, second)) < 0:
            continue
        drawn = max(int(one.max()) for one in (given[first], others[first]))
        most = int(min((one for one in digits if one >= drawn), default=(1 << drawn.bit_length()) - 1))
        changes[first].append(lambda old, most=most: _in_every_other(old, torch.full_like(old, most)))  # type: ignore[misc]
        changes[second].append(lambda old: _in_every_other(old, _one_at_an_end(old)))


def _one_at_an_end(tensor: torch.Tensor) -> torch.Tensor:
    made = torch.zeros_like(tensor, memory_format=torch.contiguous_format)
    rows = made.reshape(-1, made.shape[-1])
    rows[::4, 0] = rows[2::4, -1] = 1
    return made


def _in_every_other(old: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """The rows of `made` at even places, and of `old` at odd ones."""
    even = torch.arange(math.prod(old.shape[:-1])).reshape(*old.shape[:-1], 1) % 2 == 0
    return torch.where(even, made, old)


def _pairs(given: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """Places of integers of 4 and 8 bytes, of one form, that follow one another."""
    whole = [n for n, one in enumerate(given) if one.element_size() in _BITS and _are_numbers(one)]
    forms = {n: (given[n].shape, given[n].dtype) for n in whole}
    return [(one, other) for one, other in itertools.pairwise(whole) if forms[one] == forms[other]]


def _are_numbers(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.int32, torch.int64) and tensor.numel() > 1 and not orders(tensor)
