"""Operators that return indices, and which other indices are equally right: ties of `topk`, `sort`, `kthvalue`, `mode` and
`median`, whose order torch leaves open, and near ties of values that were computed and rounded before.

An index is right if the operand has the same value there as at the reference's index, and each index occurs once. `argmax`,
`max` and stable sorts promise the first of equal elements; there an index is free only where roundings decide.

Covers indices only if they are an output themselves, at most cast. Anything else made of indices (a gather, a mask of groups)
is right if each row is what the reference makes with the first of equal elements first, or the last (`Reordered`); other
orders are not covered.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelwright.verify.structures import DispatchMode, flatten, with_changed

_FREE = ("topk", "sort", "kthvalue", "mode", "median")
_ORDERED = _FREE[:3]
_FIRST = ("argmax", "argmin", "max", "min")
_COPIES = ("_to_copy", "clone")
CHOSEN = "chosen"
"""The kind of `arranged` inputs."""
_MOST = 1 << 26
"""The most elements of an operand that are kept."""
_ERRORS, _STEPS = 4.0, 2.0
"""Elements of a computed operand count as equal within these multiples of an honest run's error and of its rounding step."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """One call of such an operator."""

    operand: torch.Tensor
    axis: int | None
    first: bool
    """Whether the operator promises the first of equal elements."""
    indices: torch.Tensor

    def arrange(self, tensor: torch.Tensor) -> torch.Tensor:
        """See `arranged`, of a tensor from which the operand was made element by element."""
        assert self.axis is not None
        extent = self.operand.shape[self.axis]
        lines, made = (
            one.reshape(self.operand.shape).movedim(self.axis, -1).reshape(-1, extent)
            for one in (self.operand, tensor)
        )
        indices = (
            self.indices if self.indices.ndim == self.operand.ndim else self.indices.unsqueeze(self.axis)
        )
        chosen = indices.movedim(self.axis, -1).reshape(len(lines), -1)
        count = chosen.shape[1]
        far = (extent - 1) // max(count - 1, 1)
        steps = [unit << bits for unit in (3, 1) if (bits := (far // unit).bit_length() - 1) >= 0]
        rows = torch.arange(len(lines))
        step = torch.tensor([*steps, 1])[rows % (len(steps) + 1)].unsqueeze(1)
        places = step * torch.arange(count)
        rest = (
            torch.ones(lines.shape).scatter(1, chosen, 0.0),
            torch.ones(lines.shape).scatter(1, places, 0.0),
        )
        others, free = (one.nonzero()[:, 1].reshape(len(lines), -1) for one in rest)
        moved = made.gather(1, torch.cat([chosen, others], 1))
        moved = torch.empty_like(made).scatter(1, torch.cat([places, free], 1), moved)
        form = tensor.reshape(self.operand.shape).movedim(self.axis, -1).shape
        return moved.reshape(form).movedim(-1, self.axis).reshape(tensor.shape)

    def arranges(self) -> bool:
        """Whether few of several elements of floats are chosen along an axis."""
        if self.axis is None or not self.operand.is_floating_point() or not self.indices.numel():
            return False
        along = self.indices.ndim == self.operand.ndim
        count = self.indices.shape[self.axis] if along else 1
        return 0 < 4 * count <= self.operand.shape[self.axis] or (count == 1 < self.operand.shape[self.axis])

    def meet(self, tensor: torch.Tensor) -> torch.Tensor:
        """See `with_ties`, of a tensor from which the operand of a promised order was made element by element."""
        assert self.axis is not None
        lines = tensor.reshape(self.operand.shape).movedim(self.axis, -1).clone()
        extent = lines.shape[-1]
        if self.indices.shape == self.operand.shape:  # a sort: which zero is the first, whatever its sign
            lines[..., ::3], lines[..., 1::3] = 0.0, -0.0
        else:
            place = self.indices if self.indices.ndim < lines.ndim else self.indices.squeeze(self.axis)
            place = place.unsqueeze(-1)
            lines.scatter_(-1, (place + extent // 2) % extent, lines.gather(-1, place))
        return lines.movedim(-1, self.axis).reshape(tensor.shape)

    def leaves_out(self) -> bool:
        """Whether some of several elements are chosen, in no promised order."""
        if self.first or self.axis is None or self.indices.ndim != self.operand.ndim:
            return False
        return 0 < self.indices.shape[self.axis] < self.operand.shape[self.axis]

    def tie(self, tensor: torch.Tensor) -> torch.Tensor:
        """See `with_ties`, of a tensor from which the operand was made element by element."""
        assert self.axis is not None
        chosen = torch.zeros_like(self.operand, dtype=torch.bool).scatter(self.axis, self.indices, True)
        largest = bool(self.operand[chosen].mean() > self.operand[~chosen].mean())
        order = self.operand if largest else -self.operand
        last = torch.where(chosen, order, math.inf).argmin(self.axis, keepdim=True)
        first = torch.where(chosen, -math.inf, order).argmax(self.axis, keepdim=True)
        every_other = torch.arange(last.numel()).reshape(last.shape) % 2 == 0
        lines = tensor.reshape(self.operand.shape)
        kept, equal = (lines.gather(self.axis, one) for one in (first, last))
        return lines.scatter(self.axis, first, torch.where(every_other, equal, kept)).reshape(tensor.shape)


class Choices(DispatchMode):
    """Records the calls in the block, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Choice] = []
        self.of_nan = False
        """Whether one was among operands with NaN, of which torch chooses NaN and compilers another."""
        self._weights: set[int] = set()
        """Storages that a softmax wrote last, or a cast of its result."""

    def is_softmax(self, output: torch.Tensor) -> bool:
        """Whether an output is what a softmax made, at most cast or laid out otherwise."""
        return output.untyped_storage()._cdata in self._weights

    def _note(self, func: Any, name: str, args: Any, out: object) -> None:
        held = {one.untyped_storage()._cdata for one in args if isinstance(one, torch.Tensor)}
        for one in out if isinstance(out, (tuple, list)) else [out]:
            if not isinstance(one, torch.Tensor):
                continue
            place = one.untyped_storage()._cdata
            if place in held and not func._schema.is_mutable:  # a view
                continue
            copied = name in _COPIES and not held.isdisjoint(self._weights)
            (self._weights.add if copied or name == "_softmax" else self._weights.discard)(place)

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        self._note(func, name, args, out)
        if name in _FREE or name in _FIRST:
            given = _arguments(func, args, kwargs)
            places = out[-1] if isinstance(out, tuple) else out
            if places.dtype == torch.int64 and given["self"].dim() and given["self"].numel() <= _MOST:
                first = name in _FIRST or bool(given.get("stable"))
                self.of_nan |= given["self"].is_floating_point() and bool(given["self"].isnan().any())
                self.made.append(Choice(given["self"], given.get("dim"), first, places))
        elif name == "_to_copy" and not out.is_floating_point():
            self.made += [
                dataclasses.replace(one, indices=out) for one in self.made if one.indices is args[0]
            ]
        return out

    def undecided(self) -> bool:
        """Whether an operator that promises no order had equal elements to choose from."""
        return any(
            not one.first
            and one.axis is not None
            and bool((_in_order(one.operand, one.axis)[0].diff(dim=one.axis) == 0).any())
            for one in self.made
        )


def with_ties(inputs: object, made: Sequence[Choice]) -> Any:
    """The inputs with two ways to choose in every other line of the last selection (`topk`) among as many elements as an input has:
    of those left out the first equals the last of those chosen. Where the first of equal elements is promised, the largest is also half
    of the line away, or a third of a line that is sorted 0 and another -0. None without such a selection."""
    for one in reversed(made):
        if (place := _made_from(inputs, one)) is None:
            continue
        if one.leaves_out():
            return with_changed(inputs, place, one.tie)
        if one.first and one.axis is not None:
            return with_changed(inputs, place, one.meet)
    return None


def arranged(inputs: object, made: Sequence[Choice]) -> Any:
    """The inputs with what the last selection chooses (by `topk`, `max` or `argmax`) put where kernels that keep a few of each part lose
    it: in every line the first place, and behind it places as far apart as powers of two, and three times these, allow, or
    neighbours. So all lines choose one expert. None without such a selection among as many elements as an input has."""
    for one in reversed(made):
        place = _made_from(inputs, one) if one.arranges() else None
        if place is not None:
            return with_changed(inputs, place, one.arrange)
    return None


def _made_from(inputs: object, choice: Choice) -> int | None:
    """The place of the first input of as many floats as a choice is among."""
    given, operand = flatten(inputs), choice.operand
    alike = [n for n, t in enumerate(given) if t.is_floating_point() and t.numel() == operand.numel() > 1]
    return alike[0] if alike and operand.is_floating_point() else None


class Reordered(Choices):
    """Makes `topk`, `sort` and `kthvalue` put the first of equal elements first, or the `last`."""

    def __init__(self, last: bool) -> None:
        super().__init__()
        self._last = last

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
        name = func._schema.name.removeprefix("aten::")
        given = _arguments(func, args, kwargs) if name in _ORDERED and not func._schema.is_mutable else {}
        if not given or given.get("stable") or not given["self"].dim():
            return func(*args, **(kwargs or {}))
        axis = given["dim"]
        values, places = _in_order(
            given["self"], axis, given.get("largest", given.get("descending", False)), self._last
        )
        if name == "kthvalue":
            pair = (one.select(axis, given["k"] - 1) for one in (values, places))
            return tuple(one.unsqueeze(axis) if given["keepdim"] else one for one in pair)
        most = given.get("k", values.shape[axis])
        return values.narrow(axis, 0, most), places.narrow(axis, 0, most)


def _arguments(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments by name, defaults included."""
    given = {one.name: one.default_value for one in func._schema.arguments if one.has_default_value()}
    given |= {one.name: value for one, value in zip(func._schema.arguments, args, strict=False)}
    return given | (kwargs or {})


def _in_order(
    operand: torch.Tensor, axis: int, descending: bool = False, last: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """(values, indices) sorted along an axis; of equal elements the first comes first, or the `last`."""
    values, places = (operand.flip(axis) if last else operand).sort(
        dim=axis, descending=descending, stable=True
    )
    return values, operand.shape[axis] - 1 - places if last else places


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The values that the indices in one output point to."""

    lines: torch.Tensor
    """[line, index]"""
    line: torch.Tensor
    """The line of each element of the output."""
    first: bool
    near: float
    """Elements count as equal within this absolute difference, ..."""
    step: float
    """... plus this relative one."""
    once: bool = True
    """Whether an index may occur only once per line; unknown if one line stands for several."""

    @property
    def size(self) -> int:
        return sum(one.numel() * one.element_size() for one in (self.lines, self.line))

    def each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Chosen:
        """The same for some of the output's elements, or in other memory, by `change`."""
        return dataclasses.replace(self, line=change(self.line))

    def settled(self, got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        """`got`, with indices that are equally right replaced by the expected ones."""
        places, wanted, line = (one.reshape(-1).long() for one in (got, expected, self.line))
        extent = self.lines.shape[1]
        inside = (places >= 0) & (places < extent)
        places = places.clamp(0, extent - 1)
        lines = self.lines.to(line.device)
        here, there = (lines[line, where].double() for where in (places, wanted))
        equal = (here - there).abs() <= self.near + self.step * there.abs()
        equal |= (here == there) | (here.isnan() & there.isnan())
        if self.first:
            equal &= here != there
        good = inside & equal
        if self.once:
            _, which, counts = torch.unique(line * extent + places, return_inverse=True, return_counts=True)
            good &= counts[which] == 1
        return torch.where(good, wanted, got.reshape(-1).long()).reshape(got.shape).to(got.dtype)


def find_choice(
    output: torch.Tensor, native: Sequence[Choice], exact: Sequence[Choice], inputs: set[int]
) -> Chosen | None:
    """What an output points to, from the calls `native` of the run that made it; None if it does not hold indices. `exact`: the
    calls of an fp64 run, if any; `inputs`: the storages of the inputs."""
    for number, one in enumerate(native):
        if one.indices.untyped_storage()._cdata != output.untyped_storage()._cdata:
            continue
        if one.indices.shape != output.shape:
            return None
        operand, near, step = one.operand, 0.0, 0.0
        if operand.untyped_storage()._cdata not in inputs and len(exact) == len(native):
            operand = exact[number].operand
            difference = (operand.double() - one.operand.double()).abs().detach()
            near = _ERRORS * float(difference.nan_to_num(0.0, 0.0, 0.0).max()) if difference.numel() else 0.0
            step = _STEPS * torch.finfo(one.operand.dtype).eps if one.operand.is_floating_point() else 0.0
        if one.axis is None:
            return Chosen(operand.reshape(1, -1), torch.zeros_like(output), one.first, near, step)
        axis = one.axis % operand.dim()
        lines = operand.movedim(axis, -1)
        line = torch.arange(math.prod(lines.shape[:-1]), device=operand.device).reshape(lines.shape[:-1])
        count = line.numel()
        if output.dim() == operand.dim():
            line = line.unsqueeze(axis).expand(output.shape)
        return Chosen(
            lines.reshape(count, operand.shape[axis]), line.reshape(output.shape), one.first, near, step
        )
    return None
