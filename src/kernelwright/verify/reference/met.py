"""Integers of an input that meet exactly what the reference compares them with: a request that fills the rest, a sum that is a budget.

Numbers drawn at random hardly ever equal a computed one, so there `<` and `<=` are the same. Half of an input's integers are made
equal to what is on the other side of a comparison, where that is a number that the task may draw.

Does not meet a computed number with another, as where what is compared is not an input itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from kernelwright.verify.reference.copies import copied
from kernelwright.verify.reference.distributions import orders
from kernelwright.verify.reference.operators import SIDED
from kernelwright.verify.reference.whole_numbers import Change, take
from kernelwright.verify.structures import DispatchMode, Kwargs, Op, convert, flatten

_SHARE = 0.5


class _Compared(DispatchMode):
    """Records, by place of an input, a view of it that is compared with integers made of inputs, and these."""

    def __init__(self, given: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.found: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._held = list(given)  # storages of freed tensors may be given again
        self._places = {_storage(one): place for place, one in enumerate(given)}
        self._made: set[int] = set()

    def __torch_dispatch__(self, func: Op, types: object, args: Any = (), kwargs: Kwargs = None) -> object:
        out = func(*args, **(kwargs or {}))
        given = flatten([args, kwargs or {}])
        if func._schema.name.removeprefix("aten::").rstrip("_") in SIDED and all(map(_whole, args[:2])):
            for one, other in (args[:2], args[1::-1]):
                place = self._places.get(_storage(one))
                if place is not None and _storage(other) in self._made and 0 not in one.stride():
                    self.found.setdefault(place, (one, other.clone()))
        if any(_storage(one) in self._made or _storage(one) in self._places for one in given):
            for one in flatten([out]):
                if _storage(one) not in self._places:
                    self._held.append(one)
                    self._made.add(_storage(one))
        return out


def met(
    inputs: object, module: torch.nn.Module, call: Callable[[object], list[torch.Tensor]], seed: int
) -> Any:
    """The inputs with integers that equal what the reference compares them with; None if there are none, or it accepts none.
    `call` as in `whole_numbers.wider`. Raises what the reference raises."""
    given = convert(inputs, torch.clone)
    noted = _Compared(flatten(given))
    with torch.no_grad(), noted:
        copied(module)(*given)
    generator = torch.Generator().manual_seed(seed)

    def changes(place: int, tensor: torch.Tensor) -> Iterator[Change]:
        if place in noted.found and not orders(tensor):
            view, other = noted.found[place]
            yield functools.partial(_meet, view=view, other=other, generator=generator)

    return take(inputs, [changes(*one) for one in enumerate(flatten(inputs))], call)


def _meet(
    old: torch.Tensor, view: torch.Tensor, other: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    """`old` with half of its elements those of `other` that are compared with them in a `view` of it."""
    made = old.clone()
    mine = made.as_strided(view.shape, view.stride(), view.storage_offset())
    wide = other.broadcast_to(torch.broadcast_shapes(view.shape, other.shape))
    while wide.ndim > mine.ndim:
        wide = wide[int(torch.randint(len(wide), (), generator=generator))]
    for axis, extent in enumerate(mine.shape):
        if extent < wide.shape[axis]:
            form = [*wide.shape[:axis], 1, *wide.shape[axis + 1 :]]
            wide = wide.gather(axis, torch.randint(wide.shape[axis], form, generator=generator))
    some = torch.rand(mine.shape, generator=generator) < _SHARE
    some &= (wide >= old.min()) & (wide <= old.max())
    mine.copy_(torch.where(some, wide.to(mine), mine))
    return made


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _whole(value: object) -> bool:
    """Whether this is a tensor of several integers."""
    return isinstance(value, torch.Tensor) and value.numel() > 1 and value.dtype in (torch.int32, torch.int64)
