"""A few programs of a full-size launch run on real values: inputs that repeat take the room of one period.

The kernel sees full-size addresses, all of them checked. A read of an input is answered from its one period, fresh
memory is real and stays uncommitted but where it is written. Whatever these programs alone do not decide (memory that
others write, atomics, constants that nobody sent) ends the run as unsure, which is no accusation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import torch

from kernelwright.verify.interpret.memory import Region, Traffic
from kernelwright.verify.trace.tape import View

_STEPS, _MOST_STEPS = 24, 6000
"""Memory instructions of all programs together, after which no further one is begun, and which end the run."""


class Unsure(Exception):
    """What these programs write depends on more than they were given."""


@dataclasses.dataclass(frozen=True)
class Fold:
    """Addresses of a full tensor, mapped to those of one period of it. Bytes."""

    steps: tuple[tuple[int, int, int], ...]
    """(stride in the full tensor, period, stride in the one period), outermost first; elements."""
    itemsize: int
    start: int
    """Where the full tensor begins in its storage."""

    @staticmethod
    def of(view: View, period: torch.Tensor) -> Fold:
        """`period` is contiguous. Raises Unsure for a tensor with gaps, which nobody can tell apart from the rest."""
        axes = sorted(
            (stride, size, small, inner)
            for size, stride, small, inner in zip(
                view.shape, view.stride, period.shape, period.stride(), strict=True
            )
            if size > 1
        )
        if view.end >> 32:
            raise Unsure("an input of more than 4 GiB")
        filled = 1
        for stride, size, _, _ in axes:
            if stride != filled:
                raise Unsure("an input with gaps")
            filled *= size
        merged: list[tuple[int, int, int]] = []
        whole = True
        for stride, size, small, inner in axes:  # innermost first
            kept = small == size
            if merged and kept and whole and inner == merged[-1][1] * merged[-1][2]:
                merged[-1] = (merged[-1][0], merged[-1][1] * small, merged[-1][2])
            else:
                merged.append((stride, small, inner))
            whole = kept
        return Fold(tuple(reversed(merged)), view.itemsize, view.offset * view.itemsize)

    def __call__(self, offsets: np.ndarray) -> np.ndarray:
        """Byte offsets in the period's memory for byte offsets in the full storage."""
        offsets = offsets - np.uint64(self.start)
        shift = self.itemsize.bit_length() - 1
        rest = (offsets >> np.uint64(shift)).astype(
            np.uint32
        )  # numpy divides these by a number several at a time
        found = np.zeros_like(rest)
        for stride, period, inner in self.steps:
            at = rest // np.uint32(stride) if stride > 1 else rest
            rest = rest - at * np.uint32(stride)
            found += (at - at // np.uint32(period) * np.uint32(period)) * np.uint32(inner)
        return (found.astype(np.uint64) << np.uint64(shift)) | (offsets & np.uint64(self.itemsize - 1))


class Spot:
    """Memory of one spot run, by storage."""

    def __init__(self) -> None:
        self.folds: dict[int, tuple[Fold, torch.Tensor]] = {}
        """Inputs and weights, by `_cdata` of the full storage."""
        self.fresh: set[int] = set()
        """Storages that the call makes."""
        self.memory: dict[int, torch.Tensor] = {}
        self.written: dict[int, list[np.ndarray]] = {}
        """Byte offsets and item sizes of what was stored, by storage."""
        self._mine: dict[int, list[np.ndarray]] = {}
        self.steps = 0
        self._loaded = 0.0
        self.done, self.priced = [0.0, 0.0], [0.0, 0.0]
        """Operations and bytes read by all programs together: on real values, and as they are priced."""

    def begin(self) -> bool:
        """Start another program; False when enough were run."""
        self._mine.clear()
        self._loaded = 0.0
        return self.steps < _STEPS

    def place(self, region: Region) -> None:
        """Say where a region really is."""
        key = region.keep._cdata
        if key in self.folds:
            fold, period = self.folds[key]
            region.real, region.fold = period.data_ptr(), fold
        elif key in self.fresh:
            if key not in self.memory:
                self.memory[key] = torch.empty(region.size, dtype=torch.uint8)
            region.real = self.memory[key].data_ptr()

    def compared(self, flops: float, traffic: Traffic) -> None:
        """Enter what the program did, and the `traffic` of the same program where it is priced."""
        for totals, amounts in (
            (self.done, (flops, self._loaded)),
            (self.priced, (sum(traffic.flops.values()), sum(traffic.loaded.values()))),
        ):
            for place, amount in enumerate(amounts):
                totals[place] += amount

    def reads(
        self, region: Region | None, offsets: Callable[[], np.ndarray], mask: np.ndarray, itemsize: int
    ) -> None:
        """Raises Unsure where the value is not known here."""
        self._step()
        self._loaded += float(np.count_nonzero(mask)) * itemsize
        if region is None:
            return
        if region.fold is not None:
            if itemsize > region.fold.itemsize:
                raise Unsure("an input read as wider elements")
            return
        mine = self._mine.get(region.keep._cdata)
        if mine is None or not np.isin(offsets(), np.concatenate(mine)).all():
            raise Unsure("memory that another program writes")

    def writes(self, region: Region | None, offsets: Callable[[], np.ndarray], itemsize: int) -> None:
        """Raises Unsure for what must stay as it is."""
        self._step()
        if region is None:
            return
        key = region.keep._cdata
        if key not in self.fresh:
            raise Unsure("memory that lives on is written")
        found = offsets()
        self._mine.setdefault(key, []).append(found)
        self.written.setdefault(key, []).append(found)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise Unsure("a long program")

    def stored(self, storage: int, view: View) -> tuple[torch.Tensor, torch.Tensor] | None:
        """(flat positions in a tensor on that storage, their values) of what was written; None if nothing was."""
        if storage not in self.written:
            return None
        offsets = np.unique(np.concatenate(self.written[storage])).astype(np.int64)
        elements, odd = np.divmod(offsets - view.offset * view.itemsize, view.itemsize)
        rest, positions, step = elements, np.zeros_like(elements), 1
        steps = [1]
        for size in reversed(view.shape[1:]):
            step *= size
            steps.insert(0, step)
        order = sorted(range(len(view.shape)), key=lambda axis: -view.stride[axis])
        for axis in order:
            if view.shape[axis] > 1:
                at, rest = np.divmod(rest, view.stride[axis])
                positions += at * steps[axis]
                odd |= (at < 0) | (at >= view.shape[axis])
        inside = (odd == 0) & (rest == 0)
        made = torch.empty(0, dtype=_dtype(view)).set_(
            self.memory[storage].untyped_storage(), 0, (self.memory[storage].numel() // view.itemsize,), (1,)
        )
        values = made[torch.from_numpy(offsets[inside] // view.itemsize)]
        return torch.from_numpy(positions[inside]), values


def _dtype(view: View) -> torch.dtype:
    from kernelwright.verify.sandbox import channel

    return channel.DTYPES[view.dtype]
