"""Gives a traced candidate the weights of a checkpoint (`reference/checkpoint.py`), wherever it keeps them.

Weights are found by name, as in `load_state_dict`. Where a constructor rearranged them (packed, transposed, padded), they
are found by value: an element equal to one of the reference's old weights gets the new value of that weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from kernelwright.verify import folding
from kernelwright.verify.messages import TINY
from kernelwright.verify.sandbox import channel
from kernelwright.verify.traced import Trace

State = Mapping[str, torch.Tensor]


def loads_weights(trace: Trace, before: State, after: State) -> bool:
    """Whether a trace built with the weights `before` has a place for all that differ in `after`. If so, its constants now hold
    the new values; weights that have the reference's names are set later, elsewhere."""
    changed = [name for name, value in after.items() if not torch.equal(value, before[name])]
    tiny = [before[name].reshape(-1).tolist() for name in changed if before[name].numel() <= TINY]
    if set(map(_single, folding.numbers_given(trace))) & {
        _single(one) for values in tiny for one in values if one
    }:
        return False  # read at construction and passed as a number
    named = {view.storage for view in trace.traced.state.values()}
    used = folding.used_storages(trace)
    made, lacking = list(trace.blobs), {name for name in changed if name not in trace.traced.state}
    known: dict[str, _Places] = {}
    for storage, _, blob in trace.traced.constants:
        if blob < 0 or storage in named or used.get(storage) not in folding.FLOATS:
            continue
        kind = used[storage]
        places = known.setdefault(kind, _Places(changed, before, after, channel.DTYPES[kind]))
        held = trace.blobs[blob].view(torch.uint8).reshape(-1)
        if held.numel() % channel.DTYPES[kind].itemsize:
            continue
        flat = held.clone().view(channel.DTYPES[kind])
        found = places.new_whole_weights(flat) or places.new_values(flat)
        if found is None:
            return False
        values, names = found
        if names:
            made[blob] = values.view(torch.uint8)
            lacking -= names
    if lacking:
        return False
    trace.blobs = made
    return True


def _single(number: float) -> float:
    """The number rounded to float32, as kernels receive it."""
    return float(torch.tensor(number).float()) if math.isfinite(number) else number


class _Places:
    """Maps values of old weights, rounded to one dtype, to values of new ones."""

    def __init__(self, names: list[str], before: State, after: State, dtype: torch.dtype) -> None:
        floats = [name for name in names if before[name].is_floating_point()]
        old = [before[name].reshape(-1).to(dtype).double() for name in floats]
        new = [after[name].reshape(-1).to(dtype).double() for name in floats]
        empty = torch.empty(0, dtype=torch.float64)
        self._names, self._dtype = floats, dtype
        self._whole = [(name, before[name].to(dtype), after[name].to(dtype)) for name in floats]
        self._old, order = torch.cat([*old, empty]).sort(stable=True)
        self._new = torch.cat([*new, empty])[order]
        owners = [torch.full((value.numel(),), at) for at, value in enumerate(old)]
        self._owners = torch.cat([*owners, torch.empty(0, dtype=torch.long)])[order]
        same = self._old[1:] == self._old[:-1]
        differs = same & (self._new[1:] != self._new[:-1])
        self._twice = self._old[1:][differs].unique()

    def new_whole_weights(self, held: Any) -> tuple[Any, set[str]] | None:
        """Like `new_values`, for memory that is a sequence of whole weights, plain or transposed. In half precision many single
        values are equal, but whole weights are not."""
        forms = [(name, one.reshape(-1), other.reshape(-1)) for name, one, other in self._whole]
        forms += [
            (name, one.mT.reshape(-1), other.mT.reshape(-1))
            for name, one, other in self._whole
            if one.ndim == 2
        ]
        found: list[Any] = []
        names: set[str] = set()
        at = 0
        while at < held.numel():
            fits = [
                (name, new)
                for name, old, new in forms
                if old.numel() and torch.equal(held[at : at + old.numel()], old)
            ]
            if not fits or any(not torch.equal(new, fits[0][1]) for _, new in fits[1:]):
                return None
            names.add(fits[0][0])
            found.append(fits[0][1])
            at += fits[0][1].numel()
        return (torch.cat(found), names) if found else None

    def new_values(self, held: Any) -> tuple[Any, set[str]] | None:
        """The memory's contents under the new weights, and those weights' names; None if values are ambiguous."""
        if not self._old.numel():
            return held, set()
        values = held.double()
        at = torch.searchsorted(self._old, values).clamp(max=self._old.numel() - 1)
        hit = self._old[at] == values
        if not bool((hit & (values != 0.0)).any()):
            return held, set()
        padding = (values == 0.0) | (values == 1.0)
        if bool((torch.isin(values, self._twice) & hit).any()) or not bool((hit | padding).all()):
            return None
        laid = torch.where(hit, self._new[at], values).to(self._dtype)
        return laid, {self._names[int(one)] for one in self._owners[at[hit]].unique()}
