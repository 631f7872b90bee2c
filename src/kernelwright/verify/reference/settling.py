"""Inputs on which a reference's iteration settles late.

What a reference repeats (a Newton step, a normalisation of rows and columns, a gain that is updated) has settled after a few rounds
where data are drawn at random, and a kernel may stop there, or keep what it has by then. We run the reference in float64 and keep
what each operator of a round gives in every round. Of those that have settled by the middle on drawn inputs we look for inputs on
which they settle later: elements or rows smaller by up to 10^6, groups with weak links, numbers drawn between 0 and 1 near 1, each
input by itself. Independent instances (rows of all inputs) are searched at once: each gets the inputs that keep it busy the longest.
Instances on which the reference's own precision strays from float64 are left out.

Not found: rounds in which no operator settles, such as a scan; integers; rounds of more than 256 operators.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from kernelwright.verify.reference.distributions import in_order
from kernelwright.verify.reference.operators import Operators
from kernelwright.verify.reference.special_values import ROUNDS
from kernelwright.verify.reference.task_module import NotModelled
from kernelwright.verify.structures import Args, DispatchMode, Kwargs, Op, convert, flatten

KIND, STEPS = "late rounds", "late steps"
_LONGEST, _MOST_OPERATORS, _MOST_ELEMENTS = 256, 4096, 1 << 24
"""The most operators of a round and of a call, and the most elements of what they give."""
_TURNS, _TOGETHER, _INSTANCES = 8, 8, 64
"""The most turns; inputs that are tried at once if they have instances, or more if these are so few."""
_WORK, _ELEMENTS, _AT_ONCE = 5_000, 1 << 23, 1 << 21
"""The most operators that are run, and elements of what those of all turns, and of one, give."""
_CHANGES, _STRAYS = 1e-3, 1e-4
"""What has settled changes by less than this share of the largest number of its instance; the reference's own precision strays by
less than that."""
_STEPS_CHANGED, _STEPS_STRAYED = 16, 8
"""The same in rounding steps, if that is more."""
_OF_SHARES = 0.01
"""By how much sums along an axis of shares may differ from 1."""
_LATER, _SHARE = 2, 0.25
"""By how many rounds, at least, this share of the instances must settle later than any drawn one."""
_SPREAD = 6.0

Run = Callable[[object], list[torch.Tensor]]


class _Kept(DispatchMode):
    """Keeps what each operator gives. Raises OverflowError if that is too much."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.made: list[Any] = []
        self.elements = 0

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        out = func(*args, **(kwargs or {}))
        name, one = func._schema.name, out[0] if isinstance(out, (tuple, list)) and out else out
        if isinstance(one, torch.Tensor):
            self.elements += one.numel()
            if len(self.made) >= _MOST_OPERATORS or self.elements > _MOST_ELEMENTS:
                raise OverflowError
            self.names.append(name)
            self.made.append(one.clone() if name.endswith("_") else one)
        return out


def settling(
    inputs: object,
    again: object,
    double: Run,
    single: Run,
    operators: Operators,
    seed: int,
    long: bool = False,
) -> tuple[str, Any] | None:
    """(kind, inputs) on which a reference settles late; None if there is nothing to find, or nothing is found. `again`: inputs of
    another draw. `double` and `single`: the reference in float64, with all that it makes there, and in its own precision; both may
    raise. `long`: only if there are as many rounds as an axis is long (of kind `STEPS`)."""
    if len(operators) > _MOST_OPERATORS or period(operators)[2] < ROUNDS:
        return None
    axis, generator = instances_axis(flatten(inputs)), torch.Generator().manual_seed(seed)
    usual, other = (_settled(one, double, single, axis) for one in (inputs, again))
    if usual is None or other is None:
        return None
    steps = any(abs(usual.count - extent) < 2 for one in flatten(inputs) for extent in one.shape)
    drawn = torch.maximum(usual.late.amax(1), other.late.amax(1))
    early = drawn <= usual.count / 2
    early = early & usual.given if bool((early & usual.given).any()) else early
    if (long and not steps) or not bool(early.any()):
        return None

    def later(tried: object) -> torch.Tensor:
        found = _settled(tried, double, single, axis, early)
        if found is None:
            raise NotModelled("other operators")
        return (found.late - drawn.unsqueeze(1))[early].amax(0)

    best, most = inputs, (usual.late - drawn.unsqueeze(1))[early].amax(0)
    several = 1 if axis is None else max(_TOGETHER, _INSTANCES // len(most))
    parts = max(1, min(several, _AT_ONCE // usual.elements))
    for _ in range(min(_TURNS, _WORK // len(operators), _ELEMENTS // (parts * usual.elements))):
        tried = [_changed(inputs, best, axis, generator) for _ in range(parts)]
        for one, gained in zip(tried, later(beside(tried, axis)).chunk(parts), strict=True):
            best = joined(best, one, gained > most, axis)
            most = torch.maximum(gained, most)
    found = float((most >= _LATER).double().mean()) >= _SHARE
    return (STEPS if steps else KIND, best) if found else None


def instances_axis(given: Sequence[torch.Tensor]) -> int | None:
    """The axis of all inputs, the first or the last, along which they may be independent instances."""
    several = [one for one in given if one.numel() > 1]
    for axis in (0, -1):
        if several and len({one.shape[axis] for one in several}) == 1 and several[0].shape[axis] > 1:
            return axis
    return None


@dataclasses.dataclass
class _Settled:
    late: torch.Tensor
    """After how many rounds results stay, by operator of a round and instance; less than none where the own precision strays."""
    given: torch.Tensor
    """By operator, whether the last one's memory is returned."""
    count: int
    """Of rounds."""
    elements: int
    """Of what all operators give."""


def _settled(
    inputs: object, double: Run, single: Run, axis: int | None, wanted: torch.Tensor | None = None
) -> _Settled | None:
    """What one call tells, of all operators of a round or of those `wanted`; None without rounds."""
    with _Kept() as kept:
        right = double(inputs)
    length, begin, count = period(kept.names)
    if count < ROUNDS:
        return None
    some = [one for one in flatten(inputs) if one.numel() > 1]
    extent = some[0].shape[axis] if axis is not None else 1
    own = single(inputs)
    step = max((torch.finfo(one.dtype).eps for one in own if one.is_floating_point()), default=0.0)
    least = max(_CHANGES, _STEPS_CHANGED * step)
    late, given = torch.full((length, extent), count), torch.zeros(length, dtype=torch.bool)
    returned = {one.untyped_storage()._cdata for one in right}
    for place in range(length) if wanted is None else wanted.nonzero().reshape(-1).tolist():
        made = kept.made[begin + place :: length][:count]
        if not made[0].is_floating_point() or len({one.shape for one in made}) > 1:
            continue
        found = lines(torch.stack(made), axis, extent)
        if found is not None:
            moves = (found - found[-1]).abs().amax(2) > least * found.abs().amax((0, 2))
            late[place] = (moves * torch.arange(1, count + 1).unsqueeze(1)).amax(0)
            given[place] = made[-1].untyped_storage()._cdata in returned
    strays = torch.zeros(extent, dtype=torch.bool)
    for one, other in zip(right, own, strict=True):
        both = torch.stack([one.double(), other.double()])
        pair = lines(both, axis, extent)
        pair = both.reshape(2, 1, -1) if pair is None else pair
        strays |= ~(
            (pair[0] - pair[1]).abs().amax(1) <= max(_STRAYS, _STEPS_STRAYED * step) * pair[0].abs().amax(1)
        )
    return _Settled(torch.where(strays, -count, late), given, count, kept.elements)


def lines(stacked: torch.Tensor, axis: int | None, extent: int) -> torch.Tensor | None:
    """(runs, instances, elements of each); None if there are no such instances."""
    count = len(stacked)
    if stacked.numel() == 0:
        return None
    if axis is None:
        return stacked.reshape(count, 1, -1)
    if stacked.ndim < 2 or stacked.shape[1 if axis == 0 else -1] != extent:
        return None
    return stacked.movedim(1 if axis == 0 else -1, 1).reshape(count, extent, -1)


def period(names: Sequence[str]) -> tuple[int, int, int]:
    """(operators of a round, number of the first one, rounds) of the longest stretch that repeats."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    line = torch.tensor([numbers[name] for name in names])
    best = (1, 0, 0)
    for length in range(1, min(_LONGEST, len(names) // ROUNDS) + 1):
        breaks = (line[length:] != line[:-length]).nonzero().reshape(-1).tolist()
        ends = [-1, *breaks, len(names) - length]
        run, begin = max((end - start - 1, start + 1) for start, end in itertools.pairwise(ends))
        count = (run + length) // length
        if count >= ROUNDS and count * length > best[0] * best[2]:
            best = (length, begin, count)
    return best


def _changed(inputs: object, best: object, axis: int | None, generator: torch.Generator) -> object:
    """The inputs, each changed in some way, or one of the best."""
    held = iter(flatten(best))

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    def change(tensor: torch.Tensor) -> torch.Tensor:
        own, way, by = next(held), int(6 * draw()), -_SPREAD * draw()
        if way == 0 or not tensor.is_floating_point() or tensor.numel() < 2:
            return tensor
        if bool((tensor == tensor.round()).all()):  # masks, classes, counts
            return tensor
        extent = tensor.shape[-1]
        if tensor.ndim > 1 and way < 3 and tensor.shape[-2] == extent and torch.equal(tensor, tensor.mT):
            line = draw(extent)
            made = tensor * 10.0 ** (by / 2 * (line.unsqueeze(1) + line))
        elif way == 1:
            made = tensor * 10.0 ** (by * draw(*tensor.shape))
        elif way == 2:
            made = tensor * 10.0 ** (by * draw(*_of_instances(tensor, axis)))
        elif way == 3 and tensor.ndim > 1:
            rows, columns = (torch.arange(extent) < extent // 2 for extent in tensor.shape[-2:])
            made = torch.where(rows.unsqueeze(1) == columns, tensor, tensor * 10.0**by)
        elif way == 3 and 0 <= float(tensor.min()) <= float(tensor.max()) <= 1:
            made = 1 - 10.0 ** (-3 * draw(*_of_instances(tensor, axis))) * (1 - tensor.double())
        else:
            return own
        for dim in range(tensor.ndim):
            if bool(((tensor.sum(dim) - 1).abs() < _OF_SHARES).all()):
                made = made / made.sum(dim, keepdim=True)
        return in_order(tensor, made.to(tensor))

    return convert(inputs, change)


def _of_instances(tensor: torch.Tensor, axis: int | None) -> list[int]:
    shape = [1] * tensor.ndim
    if axis is not None:
        shape[axis] = tensor.shape[axis]
    return shape


def beside(tried: Sequence[Any], axis: int | None) -> Any:
    """Several inputs as one, with their instances behind one another."""
    if axis is None:
        return tried[0]
    others = zip(*map(flatten, tried), strict=True)

    def join(tensor: torch.Tensor) -> torch.Tensor:
        several = next(others)
        return torch.cat(several, axis) if tensor.numel() > 1 else tensor

    return convert(tried[0], join)


def joined(inputs: object, others: object, chosen: torch.Tensor, axis: int | None) -> object:
    """The inputs with the instances `chosen` from others."""
    given: Iterator[torch.Tensor] = iter(flatten(others))

    def join(tensor: torch.Tensor) -> torch.Tensor:
        other = next(given)
        if tensor.numel() < 2:
            return tensor
        if axis is None:
            return other if bool(chosen[0]) else tensor
        mask = chosen.reshape(-1, *(1,) * (tensor.ndim - 1)) if axis == 0 else chosen
        return torch.where(mask, other, tensor)

    return convert(inputs, join)
