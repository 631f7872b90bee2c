"""Finds program instances of one launch that use the same element unordered.

The interpreter runs instances one after another, so a race never shows in the values; it shows in who touched what.
Every element remembers who last stored to it, updated it atomically, and read it, and in which epoch of theirs. An
instance may rely on another's access only if a chain of atomic operations on common addresses leads from there to here:
an operation that releases passes on what its instance knows, one that acquires learns what was passed on at the address.
An operation with block scope is no atomic to another instance by PTX's memory model, whatever the hardware does.

Inside an instance, lanes run on many threads: what one lane stored, another may read only after a barrier, and what one read,
another may store to only after one, unless all are of one warp. Reductions, products and atomics include one. A single number
is loaded by every thread and stored by the first one alone: without a barrier between, it is for single stores and atomic
operations, which that thread does. Whether it is used otherwise shows in a recording (`Recording.spreads`).

Source: vector clocks as in Fidge (1988), with epochs as in FastTrack (Flanagan and Freund, PLDI 2009). Not covered:
two lanes of one store to one element.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from kernelwright.verify.interpret.memory import REACH, REGION_BITS, Memory, Region, spread

_NOBODY = -1
_EPOCH_BITS = 32
_MOST_LANES = 128
"""An atomic operation on more addresses than this counts as an accumulation, not a lock."""
_RECENT = 64
_LANE_BITS = 32
_ACQUIRES, _RELEASES = ("ACQUIRE", "ACQUIRE_RELEASE"), ("RELEASE", "ACQUIRE_RELEASE")
"""Memory orders of an atomic operation that acquire, and that release; RELAXED does neither."""


class Race(Exception):
    """The result depends on the order in which program instances run."""


class Clock:
    """By instance, the last epoch whose accesses are known to have happened before. Immutable."""

    def __init__(self, base: np.ndarray | None = None, recent: dict[int, int] | None = None) -> None:
        self._base, self._recent = base, recent or {}

    def at(self, programs: np.ndarray) -> np.ndarray:
        """The known epoch of each of `programs`, -1 if none."""
        known = np.full(programs.shape, _NOBODY) if self._base is None else self._base[programs]
        if self._recent:
            names, epochs = self._sorted
            place = np.minimum(np.searchsorted(names, programs), names.size - 1)
            known = np.where(names[place] == programs, np.maximum(known, epochs[place]), known)
        return known

    @functools.cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """The recent instances, sorted, and their epochs."""
        names = sorted(self._recent)
        return np.array(names), np.array([self._recent[name] for name in names])

    def joined(self, other: Clock, count: int) -> Clock:
        """The combined knowledge of two clocks, for a launch of `count` instances."""
        if other is self:
            return self
        base, theirs = self._base, other._base
        if base is None or theirs is None:
            base = theirs if base is None else base
        elif base is not theirs:
            base = np.maximum(base, theirs)
        recent = dict(self._recent)
        for program, epoch in other._recent.items():
            recent[program] = max(epoch, recent.get(program, _NOBODY))
        if len(recent) > _RECENT:
            base = np.full(count, _NOBODY) if base is None else base.copy()
            programs = np.fromiter(recent, dtype=np.int64)
            base[programs] = np.maximum(base[programs], np.fromiter(recent.values(), dtype=np.int64))
            recent = {}
        return Clock(base, recent)


class _Shadow:
    """Stamps (instance and epoch) for every element of a region."""

    def __init__(self, region: Region, grain: int) -> None:
        self.grain = grain
        self._count = -(-region.size // grain)
        self._kinds: dict[str, np.ndarray] = {}

    def __getitem__(self, kind: str) -> np.ndarray:
        if kind not in self._kinds:
            self._kinds[kind] = np.full(self._count, _NOBODY, dtype=np.int64)
        return self._kinds[kind]

    def touched(self, elements: np.ndarray) -> bool:
        """Whether anybody has read or updated one of these elements."""
        kinds = ("reads", "atomics", "narrow")
        return any((self._kinds[kind][elements] != _NOBODY).any() for kind in kinds if kind in self._kinds)


class Races:
    """Watches one launch for races. The methods raise Race."""

    crossed = False
    """Whether an instance of several warps loaded a single number that it stores, with no barrier between."""

    def __init__(
        self,
        memory: Memory,
        count: int,
        stored: set[str] | None,
        warps: int = 1,
        step: Callable[[], int] = lambda: 0,
    ) -> None:
        """`stored`: arguments that the kernel is known to write; None if not yet known. `warps`: those of an instance. `step()`:
        the number of the step that is being recorded."""
        self.memory, self.count, self.stored, self._warps = memory, count, stored, warps
        self._shadows: dict[int, _Shadow] = {}
        self._released: dict[int, Clock] = {}
        self._program = self._epoch = self.phase = 0
        self._clock = Clock()
        self._step = step
        self._singles: dict[tuple[int, int], list[int]] = {}
        """By phase and address, the steps of this instance that load a single number there."""
        self.early: list[tuple[int, str]] = []
        """(step, argument) of this instance's loads that only its first thread may use."""

    def start(self, program: int) -> None:
        """Begin the next instance, which knows nothing of the others."""
        self._program, self._epoch, self._clock = program, 0, Clock()
        self.phase += 1
        self.early.clear()
        self._singles.clear()

    def place(self) -> tuple[int, int, Clock]:
        """The current instance, and what it knows."""
        return self._program, self._epoch, self._clock

    def come_back(self, place: tuple[int, int, Clock]) -> None:
        """Continue an instance from where it stopped."""
        self._program, self._epoch, self._clock = place
        self.phase += 1

    def barrier(self) -> None:
        """All lanes of the instance have arrived here."""
        self.phase += 1

    def minds(self, region: Region | None) -> bool:
        """Whether plain loads from a region (None: several regions or none) must be checked."""
        return region is None or self.stored is None or region.name in self.stored

    def read(self, pointers: np.ndarray, mask: np.ndarray, itemsize: int, volatile: bool) -> None:
        """A plain load. A volatile one may poll what others update atomically, but learns nothing from it: in PTX it is
        relaxed."""
        for region, chosen, addresses in self._parts(pointers, mask):
            if self.stored is not None and region.name not in self.stored:
                continue
            shadow, elements = self._elements(region, addresses, itemsize)
            others = self._loose(shadow["stores"][elements])
            others |= self._loose(shadow["narrow" if volatile else "atomics"][elements])
            if not volatile:
                self._note_read(shadow, elements)
            if others.any():
                raise Race(
                    f"`{region.name}` is read by one program and written by another in the same launch"
                )
            stored = shadow["lanes"][elements]
            here = self._lanes(pointers, mask)[chosen][:, None]
            if bool(((stored >> _LANE_BITS == self.phase) & (stored != here)).any()):
                raise Race(
                    f"`{region.name}` is read by other lanes than stored it, with no tl.debug_barrier() between"
                )
            if self._warps > 1:
                self._note_lanes(shadow, elements, here)
                if pointers.size == 1:
                    self._singles.setdefault((self.phase, int(addresses[0])), []).append(self._step())
                    if (stored == here).any():
                        self._cross(region, addresses)

    def write(
        self, pointers: np.ndarray, mask: np.ndarray, itemsize: int, changed: Callable[[], np.ndarray]
    ) -> None:
        """A plain store. `changed()` tells which unmasked lanes change a value; the others cannot harm."""
        for region, lanes, addresses in self._parts(pointers, mask):
            shadow, elements = self._elements(region, addresses, itemsize)
            writers = self._loose(shadow["stores"][elements]) | self._loose(shadow["atomics"][elements])
            readers = self._loose(shadow["reads"][elements]) | self._loose(shadow["earlier reads"][elements])
            if writers.any() and bool((writers.any(axis=-1) & changed()[lanes]).any()):
                raise Race(f"two programs write different values to one element of `{region.name}`")
            if readers.any() and bool((readers.any(axis=-1) & changed()[lanes]).any()):
                raise Race(
                    f"`{region.name}` is written by one program and read by another in the same launch"
                )
            here = self._lanes(pointers, mask)[lanes][:, None]
            for kind in ("reading lanes", "earlier reading lanes") if self._warps > 1 else ():
                read = shadow[kind][elements]
                crossed = (read >> _LANE_BITS == self.phase) & (read != here)
                if crossed.any() and bool((crossed.any(axis=-1) & changed()[lanes]).any()):
                    raise Race(
                        f"`{region.name}` is stored to by other lanes than read it, with no tl.debug_barrier() between"
                    )
            if (
                pointers.size == 1
                and (self.phase, int(addresses[0])) in self._singles
                and changed()[lanes].any()
            ):
                self._cross(region, addresses)
            shadow["stores"][elements] = self._stamp
            shadow["lanes"][elements] = here

    def apart(
        self, pointers: np.ndarray, mask: np.ndarray, itemsize: int, stamps: np.ndarray, phases: np.ndarray
    ) -> bool:
        """Note a plain store of many instances, which lie along the first axis, if it cannot race: its elements are all different, and
        each was touched, if at all, by stores of the same instance alone. Else returns False, and nothing is noted."""
        if self._released or self._singles:
            return False
        chosen, size = spread(mask, pointers.shape), pointers[0].size

        def of_lanes(numbers: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
            return np.broadcast_to(numbers.reshape(shape), pointers.shape)[chosen][:, None]

        ahead = (-1, *[1] * (pointers.ndim - 1))
        stamp, here = of_lanes(stamps, ahead), of_lanes(phases, ahead) << _LANE_BITS
        here += of_lanes(np.arange(size, dtype=np.int64), pointers.shape[1:])
        here += size.bit_length() << (_LANE_BITS - 6)
        found = []
        for region, lanes, addresses in self._parts(pointers, mask):
            shadow, elements = self._elements(region, addresses, itemsize)
            before = shadow["stores"][elements]
            foreign = (before != _NOBODY) & (before >> _EPOCH_BITS != stamp[lanes] >> _EPOCH_BITS)
            shadow["last"][elements] = here[lanes]
            twice = (shadow["last"][elements] != here[lanes]).any()
            if foreign.any() or twice or shadow.touched(elements):
                return False
            found.append((shadow, elements, lanes))
        for shadow, elements, lanes in found:
            shadow["stores"][elements], shadow["lanes"][elements] = stamp[lanes], here[lanes]
        return True

    def atomic(self, pointers: np.ndarray, mask: np.ndarray, itemsize: int, order: str, narrow: bool) -> None:
        """An atomic operation with Triton's memory `order`; `narrow` if its scope is the block. What others released at an
        address stays released after a later update of it: in PTX that update has observed theirs."""
        self.barrier()
        for region, _, addresses in self._parts(pointers, mask):
            shadow, elements = self._elements(region, addresses, itemsize)
            if self._loose(shadow["stores"][elements]).any():
                raise Race(f"`{region.name}` is stored to by one program and updated atomically by another")
            if self._loose(shadow["atomics" if narrow else "narrow"][elements]).any():
                raise Race(f'two programs update `{region.name}`, with scope="cta": no atomic to the other')
            if narrow:
                shadow["narrow"][elements] = self._stamp
            shadow["atomics"][elements] = self._stamp
            if narrow or addresses.size > _MOST_LANES:
                continue
            if order in _ACQUIRES:
                self._acquire(addresses)
            if order in _RELEASES:
                own = self._clock.joined(Clock(None, {self._program: self._epoch}), self.count)
                for address in set(addresses.tolist()):
                    former = self._released.get(address) if order not in _ACQUIRES else None
                    self._released[address] = own.joined(former, self.count) if former else own
        if order in _RELEASES and not narrow:
            self._epoch += 1

    def _cross(self, region: Region, addresses: np.ndarray) -> None:
        """Note that what is loaded and stored at one address, with no barrier between, is for the first thread."""
        self.crossed = True
        self.early += [(step, region.name) for step in self._singles[self.phase, int(addresses[0])]]

    @property
    def _stamp(self) -> int:
        return self.stamp_of(self.place())

    @staticmethod
    def stamp_of(place: tuple[int, int, Clock]) -> int:
        """An instance and its epoch, as one number."""
        return place[0] << _EPOCH_BITS | place[1]

    def _lanes(self, pointers: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """For every unmasked lane a number made of this phase, the block's size, and the lane's place in the block."""
        size = pointers.size
        place = np.arange(size, dtype=np.int64).reshape(pointers.shape)[spread(mask, pointers.shape)]
        return (self.phase << _LANE_BITS) + (size.bit_length() << (_LANE_BITS - 6)) + place

    def _acquire(self, addresses: np.ndarray) -> None:
        if self._released and addresses.size <= _MOST_LANES:
            found = [self._released[a] for a in addresses.tolist() if a in self._released]
            for known in {id(clock): clock for clock in found}.values():
                self._clock = self._clock.joined(known, self.count)

    def _loose(self, stamps: np.ndarray) -> np.ndarray:
        """Mask of stamps of other instances that nothing orders before this one."""
        programs = stamps >> _EPOCH_BITS
        others = (stamps >= 0) & (programs != self._program)
        if others.any():
            known = self._clock.at(programs[others])
            others[others] = known < (stamps[others] & ((1 << _EPOCH_BITS) - 1))
        return others

    def _note_read(self, shadow: _Shadow, elements: np.ndarray) -> None:
        """Record this reader, keeping the last other reader."""
        reads, earlier = shadow["reads"], shadow["earlier reads"]
        last = reads[elements]
        others = (last >= 0) & (last >> _EPOCH_BITS != self._program)
        if others.any():
            earlier[elements[others]] = last[others]
        reads[elements] = self._stamp

    @staticmethod
    def _note_lanes(shadow: _Shadow, elements: np.ndarray, here: np.ndarray) -> None:
        """Record which lanes read, keeping one other lane."""
        last, earlier = shadow["reading lanes"], shadow["earlier reading lanes"]
        for _ in range(2):  # again, for elements that several lanes of this load read
            before = last[elements]
            others = before != here
            earlier[elements[others]] = before[others]
            last[elements] = here

    def _parts(
        self, pointers: np.ndarray, mask: np.ndarray
    ) -> Iterator[tuple[Region, np.ndarray | slice, np.ndarray]]:
        """(region, its lanes among the unmasked ones, their addresses) for every region touched."""
        meant = pointers[spread(mask, pointers.shape)]
        if meant.size == 0:
            return
        slots = (meant >> np.uint64(REGION_BITS)).astype(np.int64) - 1
        if (slots == slots[0]).all():
            yield self.memory.regions[int(slots[0])], slice(None), meant
            return
        for slot in np.unique(slots).tolist():
            lanes = slots == slot
            yield self.memory.regions[slot], lanes, meant[lanes]

    def _elements(self, region: Region, addresses: np.ndarray, itemsize: int) -> tuple[_Shadow, np.ndarray]:
        """The region's shadow, and for every address the elements that the access covers, shape (lanes, n)."""
        shadow = self._shadows.get(id(region))
        if shadow is None or shadow.grain > itemsize:
            shadow = self._shadows[id(region)] = _Shadow(region, min(itemsize, region.itemsize))
        offsets = (addresses & REACH).astype(np.int64)
        first = offsets[:, None] // shadow.grain
        return shadow, first + np.arange(itemsize // shadow.grain)
