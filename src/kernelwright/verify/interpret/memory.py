"""The interpreter's address space: every storage has a region of its own, and every access is checked.

A kernel never sees a real pointer. Storage k lives at `(k + 1) << 40`, so a pointer that strays from one tensor into
another is caught, however close they are in real memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from kernelwright.verify.interpret.coverage import Touched
from kernelwright.verify.messages import OF_STORAGE

REGION_BITS = 40
REACH = np.uint64((1 << REGION_BITS) - 1)
"""Mask of an address's offset in its region."""
SECTOR_BYTES = 32
ADDRESSED, MOST_ADDRESSED = 1 << 21, 1 << 21
"""Addresses that a kernel loads use slots from the first number on, plus the storage's number on the tape, which is below the
second."""


class OutOfBounds(Exception):
    """A kernel accessed an address outside the storage that its pointer came from."""

    def __init__(self, detail: str, certain: bool = False) -> None:
        """`certain`: it happens whatever is loaded."""
        super().__init__(detail)
        self.certain = certain


def spread(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A mask broadcast to `shape`; usually it has it, and numpy is slow to notice."""
    return mask if mask.shape == shape else np.broadcast_to(mask, shape)


@dataclasses.dataclass
class Region:
    """One storage: its name (the kernel argument), size in bytes and real address (None on meta)."""

    name: str
    size: int
    real: int | None
    itemsize: int
    keep: torch.UntypedStorage
    fold: Any = None
    """If the memory holds one period of a repeating tensor: its `full_size.Fold`."""
    stored: bool = False
    """Whether a lane has stored or updated atomically there."""

    def located(self, offsets: np.ndarray) -> np.ndarray:
        """Real addresses of byte offsets."""
        if self.fold is not None:
            offsets = self.fold(offsets)
        return offsets + np.uint64(self.real or 0)


class Memory:
    """Maps storages to simulated addresses for one launch."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self._slots: dict[int, int] = {}
        self._loaded: dict[int, int] = {}
        """By slot of a loadable address, the slot of its region."""

    def pointer(self, tensor: torch.Tensor, name: str) -> int:
        """The simulated address of a tensor's first element."""
        storage = tensor.untyped_storage()
        slot = self._slots.get(storage._cdata)
        if slot is None:
            slot = self._slots[storage._cdata] = len(self.regions)
            real = None if tensor.is_meta else storage.data_ptr()
            self.regions.append(Region(name, storage.nbytes(), real, tensor.element_size(), storage))
        return ((slot + 1) << REGION_BITS) + int(tensor.storage_offset()) * tensor.element_size()

    def may_load(self, number: int, storage: torch.UntypedStorage) -> None:
        """Let a kernel load addresses of the storage that has this number on the tape."""
        tensor = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        self._loaded[ADDRESSED + number] = self.pointer(tensor, f"{OF_STORAGE}{number}") >> REGION_BITS

    def as_pointers(self, numbers: np.ndarray) -> np.ndarray:
        """Integers as pointers: those that are known addresses point into their regions."""
        found: np.ndarray = numbers.astype(np.uint64)
        slots = found >> np.uint64(REGION_BITS)
        for slot in np.unique(slots[slots >= np.uint64(ADDRESSED)]).tolist() if self._loaded else ():
            if slot in self._loaded:
                found[slots == np.uint64(slot)] -= np.uint64(slot - self._loaded[slot] << REGION_BITS)
        return found

    def check(self, pointers: np.ndarray, mask: np.ndarray, itemsize: int, what: str) -> Region | None:
        """The one region that all unmasked pointers lie in; None if nothing is accessed or they span several.

        Raises OutOfBounds naming the argument and the element offset.
        """
        if mask.all():
            low, high = int(pointers.min()), int(pointers.max())
        else:
            active = pointers[mask]
            if active.size == 0:
                return None
            low, high = int(active.min()), int(active.max())
        slot = (low >> REGION_BITS) - 1
        if slot == (high >> REGION_BITS) - 1 and 0 <= slot < len(self.regions):
            region = self.regions[slot]
            if high - ((slot + 1) << REGION_BITS) + itemsize <= region.size:
                return region
        self._explain(pointers[mask], itemsize, what)
        return None

    def inside(self, pointers: np.ndarray, mask: np.ndarray, itemsize: int) -> np.ndarray:
        """The unmasked lanes whose addresses lie in a region."""
        slots = (pointers >> np.uint64(REGION_BITS)).astype(np.int64) - 1
        offsets = (pointers & REACH).astype(np.int64)
        sizes = np.array([*(region.size for region in self.regions), 0], dtype=np.int64)
        held = sizes[np.where((slots >= 0) & (slots < len(self.regions)), slots, -1)]
        found: np.ndarray = mask & (offsets + itemsize <= held)
        return found

    def nearest(self, pointers: np.ndarray, mask: np.ndarray) -> Region | None:
        """The region of the first unmasked pointer, which may lie a little before or behind it."""
        slot = (int(pointers[mask][0]) + (1 << (REGION_BITS - 1))) // (1 << REGION_BITS) - 1
        return self.regions[slot] if 0 <= slot < len(self.regions) else None

    def _explain(self, active: np.ndarray, itemsize: int, what: str) -> None:
        slots = (active >> np.uint64(REGION_BITS)).astype(np.int64) - 1
        for address, slot in zip(active.tolist(), slots.tolist(), strict=True):
            inside = 0 <= slot < len(self.regions)
            offset = address - ((slot + 1) << REGION_BITS)
            if inside and offset + itemsize <= self.regions[slot].size:
                continue
            # A small negative offset shows up near the top of the region below.
            if offset > 1 << (REGION_BITS - 1):
                slot, offset = slot + 1, offset - (1 << REGION_BITS)
                inside = 0 <= slot < len(self.regions)
            if not inside:
                raise OutOfBounds(f"{what} through a pointer that belongs to no tensor argument")
            region = self.regions[slot]
            raise OutOfBounds(
                f"{what} out of bounds: `{region.name}` element {offset // region.itemsize}, "
                f"valid 0..{region.size // region.itemsize - 1}"
            )

    def note_stores(self, pointers: np.ndarray, mask: np.ndarray, region: Region | None) -> None:
        """Record that some lanes write through checked pointers; `region` as from `check`."""
        if region is not None:
            region.stored = True
            return
        for slot in np.unique(pointers[spread(mask, pointers.shape)] >> np.uint64(REGION_BITS)):
            self.regions[int(slot) - 1].stored = True

    def names(self) -> list[str]:
        """The names of all regions."""
        return [region.name for region in self.regions]

    def translate(self, pointers: np.ndarray, region: Region | None) -> np.ndarray:
        """Real addresses of checked pointers (arbitrary for masked lanes)."""
        if region is not None:
            slot = self.regions.index(region)
            return region.located(pointers - np.uint64((slot + 1) << REGION_BITS))
        out = pointers.copy()
        for slot, other in enumerate(self.regions):
            here = (pointers >> np.uint64(REGION_BITS)) == np.uint64(slot + 1)
            out[here] = other.located(pointers[here] - np.uint64((slot + 1) << REGION_BITS))
        return out


_FIRST = 16
"""Loads of an argument whose offsets are kept."""
COUNTS = ("touched_bytes", "steps", "indexed", "split_products", "split_operands")
"""Fields of `Traffic` that are single numbers."""


@dataclasses.dataclass
class Traffic:
    """What one sampled program instance did to memory and arithmetic."""

    sectors: dict[str, set[int]] = dataclasses.field(default_factory=dict)
    """Distinct 32-byte sectors per argument."""
    touched_bytes: float = 0.0
    """Sectors of every access, repeats counted: what the L1/L2 path carries."""
    loaded: dict[str, float] = dataclasses.field(default_factory=dict)
    stored: dict[str, float] = dataclasses.field(default_factory=dict)
    """Bytes that unmasked lanes read and write, per argument; an atomic access counts as both."""
    steps: float = 0
    """Memory instructions in program order."""
    flops: dict[str, float] = dataclasses.field(default_factory=dict)
    """Operations by unit: `float32` (vector units), `tf32`, `float16`, ... (matrix units)."""
    indexed: float = 0.0
    """Integer operations on blocks of two or more dimensions: addresses and masks of tiles, which take issue slots."""
    split_products: float = 0.0
    """Matrix products of float32 done as three products, ..."""
    split_operands: float = 0.0
    """... and the elements of their operands, each of which is split."""
    executed: int = 0
    """Memory instructions that were interpreted; `steps` also counts those of skipped iterations."""
    skipped_sectors: dict[str, float] = dataclasses.field(default_factory=dict)
    """Distinct sectors per argument that skipped iterations would have added."""
    written: dict[str, list[np.ndarray]] = dataclasses.field(default_factory=dict)
    """Offsets in bytes of plain stores per argument."""
    read: dict[str, list[np.ndarray]] = dataclasses.field(default_factory=dict)
    """Offsets in bytes of the first plain loads, per argument."""
    widths: dict[str, int] = dataclasses.field(default_factory=dict)
    """Bytes per stored element, per argument."""
    invented: bool = False
    """Whether unknown integers were loaded, on which addresses may depend."""
    guessed: bool = False
    """Whether unknown integers, bytes or booleans were loaded, on which the work may depend."""
    iterations: dict[range, list[int]] = dataclasses.field(default_factory=dict)
    """By range, which iterations stand for a loop: always the same ones, or a second pass over a row would seem to read another
    row."""

    def access(
        self, region: Region | None, pointers: np.ndarray, mask: np.ndarray, itemsize: int, what: str
    ) -> None:
        active = pointers if mask.all() else pointers[mask]
        self.steps += 1
        self.executed += 1
        if active.size == 0:
            return
        sectors = distinct(active.reshape(-1) >> np.uint64(5))
        self.touched_bytes += sectors.size * SECTOR_BYTES
        name = region.name if region is not None else "?"
        if what != "write":
            self.loaded[name] = self.loaded.get(name, 0.0) + active.size * itemsize
        if what in ("write", "read"):
            parts = (self.read if what == "read" else self.written).setdefault(name, [])
            if what == "write":
                self.widths[name] = itemsize
            if what == "write" or len(parts) < _FIRST:
                parts.append(active.reshape(-1) & REACH)
        if what != "read":
            self.stored[name] = self.stored.get(name, 0.0) + active.size * itemsize
        self.sectors.setdefault(name, set()).update(sectors.tolist())

    def compute(self, unit: str, operations: float) -> None:
        self.flops[unit] = self.flops.get(unit, 0.0) + operations

    def unique_sectors(self) -> dict[str, float]:
        """Distinct sectors per argument, including those of skipped iterations."""
        return {name: len(seen) + self.skipped_sectors.get(name, 0.0) for name, seen in self.sectors.items()}

    def stores(self) -> dict[str, np.ndarray]:
        """`written`, with each offset once."""
        return _once(self.written)

    def touched(self) -> Touched:
        """`written`, `read` and `loaded`, with each offset once."""
        return Touched(self.stores(), _once(self.read), dict(self.loaded))

    def totals(self) -> dict[str, dict[str, float]]:
        """Everything counted so far, for `extrapolate`."""
        return {
            "counts": {name: float(getattr(self, name)) for name in COUNTS},
            "flops": dict(self.flops),
            "loaded": dict(self.loaded),
            "stored": dict(self.stored),
            "skipped_sectors": self.unique_sectors(),
        }

    def extrapolate(self, before: dict[str, dict[str, float]], factor: float) -> None:
        """Add `factor` times what was counted since `before`, for skipped iterations like those just run."""
        now = self.totals()
        grown = {
            kind: {name: (count - before[kind].get(name, 0.0)) * factor for name, count in counts.items()}
            for kind, counts in now.items()
        }
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + grown["counts"][name])
        for kind in ("flops", "loaded", "stored", "skipped_sectors"):
            into: dict[str, float] = getattr(self, kind)
            for name, count in grown[kind].items():
                into[name] = into.get(name, 0.0) + count


def _once(parts: Mapping[str, Sequence[np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: distinct(np.concatenate(several)) for name, several in parts.items()}


def distinct(numbers: np.ndarray) -> np.ndarray:
    """`np.unique` in one dimension, faster for data that is nearly sorted, as addresses are."""
    if numbers.size < 2:
        return numbers
    numbers = numbers[np.concatenate(([True], numbers[1:] != numbers[:-1]))]
    if (numbers[1:] > numbers[:-1]).all():
        return numbers
    numbers = np.sort(numbers)
    return numbers[np.concatenate(([True], numbers[1:] != numbers[:-1]))]
