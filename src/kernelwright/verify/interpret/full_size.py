"""Memory for a few programs of a full-size call that run on real values: repeating inputs are stored as a single period.

The kernel sees full-size addresses, all of them checked. A read of an input is answered from its period, or, at indices on which
nothing depends that the programs write, from numbers as the task draws them, so that no two rows are alike there. Fresh memory is
real, and uncommitted until written. Whatever the programs that are run do not determine (memory that others write, constants
that nobody sent) ends the run as unsure, which is no accusation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from kernelwright.verify.interpret.memory import Region, Traffic, distinct
from kernelwright.verify.messages import LOADED
from kernelwright.verify.repeats import Repeats
from kernelwright.verify.trace.tape import View

_MOST_STEPS = 2000
"""Memory instructions of all programs together after which the run ends."""
_FILLED_BYTES = 1 << 26
"""The most bytes that torch may fill at once with something other than zeros."""
_COPIED = 1 << 21
"""The most elements that torch may copy or count."""


class Unsure(Exception):
    """What these programs write depends on more than is known here."""


@dataclasses.dataclass(frozen=True)
class Fold:
    """Maps addresses of a full tensor to those of its one period. Bytes."""

    steps: tuple[tuple[int, Repeats | None, int], ...]
    """(stride in the full tensor, how its indices repeat, stride in the period) in elements, outermost first. None: the axis
    is stored in full."""
    itemsize: int
    start: int
    """Byte offset of the full tensor in its storage."""
    width: str
    """Integer type for element offsets: 64 bits only if 32 are too few."""
    others: Repeats | None = None
    """Which of the numbers behind the period stands at an element of which no asked index depends; None if there are none."""
    behind: int = 0
    """Elements of the period."""
    asked: Mapping[Repeats, np.ndarray] = dataclasses.field(default_factory=dict)
    """See `Sampled.asked`."""

    @staticmethod
    def of(
        view: View,
        period: torch.Tensor,
        repeats: Sequence[Repeats | None],
        others: int = 0,
        asked: Mapping[Repeats, np.ndarray] | None = None,
    ) -> Fold:
        """`period` is contiguous; `repeats` by axis; `others`: count of numbers behind the period. Raises Unsure for a tensor with
        gaps, whose bytes cannot be told from those between."""
        axes = sorted(
            (
                (stride, size, inner, drawn)
                for size, stride, inner, drawn in zip(
                    view.shape, view.stride, period.stride(), repeats, strict=True
                )
                if size > 1
            ),
            key=lambda axis: axis[0],
        )
        filled = 1
        for stride, size, _, _ in axes:
            if stride != filled:
                raise Unsure("an input with gaps")
            filled *= size
        merged: list[tuple[int, Repeats | None, int]] = []
        follows = -1
        """The stride in the period at which the next axis continues the one before it, if that is whole."""
        for stride, size, inner, drawn in axes:  # innermost first
            if drawn is not None or inner != follows:
                merged.append((stride, drawn, inner))
            follows = inner * size if drawn is None else -1
        # numpy vectorises division of 32-bit numbers by a scalar
        width = "uint32" if view.end // view.itemsize < 1 << 32 else "uint64"
        made = Fold(tuple(reversed(merged)), view.itemsize, view.offset * view.itemsize, width)
        drawn = next((one for one in repeats if one is not None), None)
        if not others or drawn is None:
            return made
        pick = dataclasses.replace(drawn, count=others)
        return dataclasses.replace(
            made, others=pick, behind=period.numel(), asked={} if asked is None else asked
        )

    def __call__(self, offsets: np.ndarray) -> np.ndarray:
        """Byte offsets in the period for byte offsets in the full storage."""
        offsets = offsets - np.uint64(self.start)
        shift = self.itemsize.bit_length() - 1
        width = np.dtype(self.width).type
        elements: np.ndarray = (offsets >> np.uint64(shift)).astype(self.width)
        rest, found = elements, np.zeros_like(elements)
        asked: np.ndarray | None = None
        for stride, drawn, inner in self.steps:
            at = rest // width(stride) if stride > 1 else rest
            rest = rest - at * width(stride)
            found += (at if drawn is None else drawn(at)).astype(self.width, copy=False) * width(inner)
            if drawn is not None and drawn in self.asked:
                here = self.asked[drawn].take(at.astype(np.intp), mode="clip")
                asked = here if asked is None else asked & here
        if asked is not None and self.others is not None and not asked.all():
            found = np.where(asked, found, self.others(elements) + width(self.behind)).astype(self.width)
        return (found.astype(np.uint64) << np.uint64(shift)) | (offsets & np.uint64(self.itemsize - 1))


@dataclasses.dataclass
class Compared:
    """Work of a few programs of a launch, summed (operations, memory instructions, bytes read of each argument): on real values,
    and as priced."""

    programs: int = 0
    done: dict[str, float] = dataclasses.field(default_factory=dict)
    priced: dict[str, float] = dataclasses.field(default_factory=dict)
    guessed: bool = False
    """Whether the price depends on unknown numbers, by which work is chosen or lanes are left out."""


class Sampled:
    """Memory of one sampled run, by storage."""

    def __init__(self) -> None:
        self.folds: dict[int, tuple[Fold, torch.Tensor]] = {}
        """Inputs and weights, by `_cdata` of the full storage."""
        self.asked: dict[Repeats, np.ndarray] = {}
        """By axis that repeats, a mask of the indices whose outputs are asked, the last one False; none: all may be."""
        self.fresh: set[int] = set()
        """Storages that the call allocates, and scratch that it finds: only what is written to them is known."""
        self.memory: dict[int, torch.Tensor] = {}
        self.written: dict[int, list[np.ndarray]] = {}
        """Byte offsets and item sizes of what was stored, by storage."""
        self.mine: dict[int, list[np.ndarray]] = {}
        """The part of `written` that the current program stored."""
        self.final: dict[int, list[np.ndarray]] = {}
        """The part of `written` that no other program of the call writes, by storage."""
        self._filled: set[int] = set()
        """Storages of which every byte is known."""
        self._lazy: dict[int, tuple[torch.dtype, float]] = {}
        """Large storages that torch filled with one value, which is stored only where it is read."""
        self._sorted: dict[int, tuple[int, np.ndarray]] = {}
        self.steps = self._before = 0
        """Memory instructions of all programs, and of those before the current one."""
        self._loaded: dict[str, float] = {}
        self.compared_to: dict[int, Compared] = {}
        """Work of a launch's programs, by launch."""

    def ask(self, indices: Mapping[Repeats, np.ndarray]) -> None:
        """Outputs at these indices are asked, by axis that repeats: all others get numbers that do not repeat."""
        self.asked.clear()
        for axis, some in indices.items():
            self.asked[axis] = np.zeros(int(some.max()) + 2, dtype=bool)
            self.asked[axis][some] = True

    def begin(self) -> None:
        """Begin another program."""
        self._loaded, self._before = {}, self.steps
        self.mine.clear()

    def counted(self) -> tuple[int, dict[str, float]]:
        """What was counted so far, for `count_from`."""
        return self.steps, dict(self._loaded)

    def count_from(self, counts: tuple[int, dict[str, float]]) -> None:
        """Forget what was counted since."""
        self.steps, self._loaded = counts

    def finish(self) -> None:
        """Mark what the current program stored as final."""
        for key, parts in self.mine.items():
            self.final.setdefault(key, []).extend(parts)

    def place(self, region: Region) -> None:
        """Set a region's real address."""
        key = region.keep._cdata
        if key in self.folds:
            fold, period = self.folds[key]
            region.real, region.fold = period.data_ptr(), fold
        elif key in self.fresh:
            region.real = self._room(key, region.size).data_ptr()

    def compared(self, launch: int, flops: float, traffic: Traffic) -> None:
        """Add the current program's work, and `traffic`, the same program's as priced."""
        known = self.compared_to.setdefault(launch, Compared())
        known.guessed |= traffic.guessed
        known.programs += 1
        done = {"flops": flops, "steps": self.steps - self._before} | {
            f"{LOADED}{name}": amount for name, amount in self._loaded.items()
        }
        priced = {"flops": sum(traffic.flops.values()), "steps": traffic.steps} | {
            f"{LOADED}{name}": amount for name, amount in traffic.loaded.items()
        }
        for totals, amounts in (known.done, done), (known.priced, priced):
            for what, amount in amounts.items():
                totals[what] = totals.get(what, 0.0) + float(amount)

    def reads(
        self, region: Region | None, offsets: Callable[[], np.ndarray], mask: np.ndarray, itemsize: int
    ) -> None:
        """Record a load. Raises Unsure if the value is not known."""
        self._step()
        name = region.name if region is not None else "?"
        self._loaded[name] = self._loaded.get(name, 0.0) + float(np.count_nonzero(mask)) * itemsize
        if region is None:
            return
        if region.fold is not None:
            if itemsize > region.fold.itemsize:
                raise Unsure("an input read as wider elements")
            return
        if not self._knows(region.keep._cdata, offsets):
            raise Unsure("memory that no program of the slice writes")

    def _knows(self, key: int, offsets: Callable[[], np.ndarray]) -> bool:
        if key in self._filled:
            return True
        if key in self._lazy:
            self._supply(key, offsets())
            return True
        parts = self.written.get(key)
        if not parts:
            return False
        if key not in self._sorted or self._sorted[key][0] != len(parts):
            self._sorted[key] = len(parts), distinct(np.concatenate(parts))
        known, wanted = self._sorted[key][1], offsets()
        places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return bool((known[places] == wanted).all())

    def _supply(self, key: int, offsets: np.ndarray) -> None:
        """Store the value that a storage was filled with at those of the places that nothing has written."""
        dtype, value = self._lazy[key]
        known = self.written.setdefault(key, [])
        missing = np.setdiff1d(offsets, np.concatenate(known)) if known else offsets
        at = torch.from_numpy(np.unique(missing).astype(np.int64)) // dtype.itemsize
        self.memory[key].view(dtype)[at] = value
        known.append(missing)

    def writes(self, region: Region | None, offsets: Callable[[], np.ndarray], itemsize: int) -> None:
        """Record a store. Raises Unsure for memory that may not be written."""
        self._step()
        if region is None:
            return
        key = region.keep._cdata
        self._ours(key)
        found = offsets()
        self.written.setdefault(key, []).append(found)
        self.mine.setdefault(key, []).append(found)

    def _ours(self, key: int) -> None:
        """Raises Unsure if a storage has no memory for writes."""
        if key not in self.fresh:
            raise Unsure("an input or a weight is written")

    def adds(self, region: Region | None, offsets: Callable[[], np.ndarray], itemsize: int) -> None:
        """Record an atomic access; the value it finds must be known as well. Raises Unsure."""
        if region is not None and not self._knows(region.keep._cdata, offsets):
            raise Unsure("an atomic access to memory that nobody wrote")
        self.writes(region, offsets, itemsize)

    # -- what torch does -------------------------------------------------------------------------------------------

    def _room(self, key: int, size: int) -> torch.Tensor:
        """Real memory of a fresh storage: zeros, which cost nothing until touched."""
        if key not in self.memory:
            self.memory[key] = torch.zeros(size, dtype=torch.uint8)
        return self.memory[key]

    def _tensor(self, key: int, size: int, view: View) -> torch.Tensor:
        made = torch.empty(0, dtype=_dtype(view))
        return made.set_(self._room(key, size).untyped_storage(), view.offset, view.shape, view.stride)

    def fills(self, key: int, size: int, view: View, value: float) -> None:
        """Fill as torch does. Raises Unsure for more memory than is filled here."""
        self._ours(key)
        whole = view.numel * view.itemsize == size and view.offset == 0
        if not (value == 0 and whole and key not in self.memory):
            if view.numel * view.itemsize > _FILLED_BYTES:
                if not whole or key in self.memory:
                    raise Unsure("a large tensor that torch fills in part")
                self._lazy[key] = _dtype(view), value
                self._room(key, size)
                return
            self._tensor(key, size, view).fill_(value)
        self._room(key, size)
        self._note_written(key, view, whole)

    def counts(self, key: int, size: int, view: View, start: float, step: float) -> None:
        """`torch.arange`. Raises Unsure."""
        self._ours(key)
        if view.numel > _COPIED:
            raise Unsure("a large tensor that torch counts out")
        numbers = torch.arange(view.numel, dtype=torch.float64) * step + start
        self.puts(key, size, view, numbers.reshape(view.shape))

    def puts(self, key: int, size: int, view: View, numbers: torch.Tensor) -> None:
        """Store numbers that torch puts into a tensor. Raises Unsure."""
        self._ours(key)
        self._tensor(key, size, view).copy_(numbers)
        self._note_written(key, view, view.numel * view.itemsize == size)

    def copies(self, target: tuple[int, int, View], source: tuple[int, int, View]) -> None:
        """Copy as torch does; (storage, bytes, view) of each. Raises Unsure."""
        key, size, view = source
        if view.numel > _COPIED:
            raise Unsure("a large tensor that torch copies")
        offsets = _places(view)
        if key in self.folds:
            fold, period = self.folds[key]
            folded = fold(offsets.astype(np.uint64)).astype(np.int64) // view.itemsize
            values = period.reshape(-1)[torch.from_numpy(folded)].reshape(view.shape)
        elif key in self.fresh and self._knows(key, lambda: offsets.astype(np.uint64)):
            values = self._tensor(key, size, view)
        else:
            raise Unsure("torch copies what is not known")
        self._ours(target[0])
        self._tensor(*target).copy_(values)
        self._note_written(target[0], target[2], target[2].numel * target[2].itemsize == target[1])

    def _note_written(self, key: int, view: View, whole: bool) -> None:
        if whole:
            self._filled.add(key)
        else:
            if view.numel > _COPIED:
                raise Unsure("part of a large tensor")
            self.written.setdefault(key, []).append(_places(view).astype(np.uint64))

    def _step(self) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise Unsure("a long program")

    def stored(self, storage: int, view: View) -> tuple[torch.Tensor, torch.Tensor] | None:
        """(flat positions in a tensor on that storage, values) of final stores; None if there are none."""
        if storage not in self.final:
            return None
        offsets = distinct(np.concatenate(self.final[storage])).astype(np.int64)
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


def indices(view: View, offsets: np.ndarray) -> dict[int, np.ndarray]:
    """By axis, the distinct indices of elements at byte offsets of the storage; none if an offset lies between the elements."""
    if any(stride <= 0 for extent, stride in zip(view.shape, view.stride, strict=True) if extent > 1):
        return {}
    rest, found = distinct(offsets.astype(np.int64) // view.itemsize) - view.offset, {}
    for axis in sorted(range(len(view.shape)), key=lambda axis: -view.stride[axis]):
        if view.shape[axis] > 1:
            at, rest = np.divmod(rest, view.stride[axis])
            if at.min() < 0 or at.max() >= view.shape[axis]:
                return {}
            found[axis] = distinct(at)
    return found if not rest.any() else {}


def _places(view: View) -> np.ndarray:
    """Byte offsets of a tensor's elements in its storage, in row-major order."""
    found = np.full((1,) * len(view.shape), view.offset, dtype=np.int64)
    for axis, (extent, stride) in enumerate(zip(view.shape, view.stride, strict=True)):
        steps = np.arange(extent, dtype=np.int64) * stride
        found = found + steps.reshape((-1,) + (1,) * (len(view.shape) - axis - 1))
    return (found * view.itemsize).reshape(-1)


def _dtype(view: View) -> torch.dtype:
    from kernelwright.verify.sandbox import channel

    return channel.DTYPES[view.dtype]
