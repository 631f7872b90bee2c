"""Which loads reach the outputs of a planned call: backwards from outputs, through stores that are needed, to their loads.

A stored value is made of loads of the same program (`program_map.py`). It is needed if it lies in an output, or if a
program loads it whose own store is needed. Loads that feed no needed store do not count, such as parts of a sum that
nobody adds up.

Sound where it says that something is not needed: what depends on loaded numbers counts as needed, in doubt a whole tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kernelwright.verify.interpret.memory import REACH
from kernelwright.verify.interpret.program_map import Access
from kernelwright.verify.interpret.slices import Intervals, Planned, Route, alike, runs

_PIECES = 2_000_000
"""The most runs of bytes that are followed."""
_PAIRS = 200_000
"""The most loads times stores of a program that are followed."""
WHOLE = 1 << 47


class Needs(NamedTuple):
    """What outputs depend on."""

    places: dict[int, Intervals]
    """Bytes needed, by storage: sorted disjoint runs."""
    rough: set[int]
    """Storages for which it is unknown which bytes are needed."""


def needs(planned: Sequence[Planned], roots: Mapping[int, tuple[int, int]]) -> Needs | None:
    """What the bytes `roots` of outputs, by storage, depend on. None if that is unknown or too much to follow."""
    if any(not launch.whole or any(route.map.data_decides for route in launch.routes) for launch in planned):
        return None
    found = Needs({key: (np.array([low]), np.array([high])) for key, (low, high) in roots.items()}, set())
    writers = [
        {launch.storage(access) for route in launch.routes for access in route.accesses(("write", "atomic"))}
        for launch in planned
    ]
    again = True
    while again:
        again, pieces = False, 0
        for number in reversed(range(len(planned))):
            grown: dict[int, list[Intervals]] = {}
            for route in planned[number].routes:
                if not _loads(planned[number], route, found, grown):
                    return None
            for storage, parts in grown.items():
                pieces += sum(len(starts) for starts, _ in parts)
                if pieces > _PIECES:
                    return None
                before = found.places.get(storage)
                merged = _merge([*([before] if before else []), *parts])
                if before is None or not all(map(np.array_equal, before, merged)):
                    found.places[storage] = merged
                    again |= any(storage in stored for stored in writers[number:])
    return found


def unused_stores(planned: Sequence[Planned], found: Needs) -> list[tuple[str, float]]:
    """(kernel, share of its programs' stores to one tensor that are not needed), for tensors that some program loads: memory
    kept for a backward pass is loaded by none."""
    loaded = {
        launch.storage(access)
        for launch in planned
        for route in launch.routes
        for access in route.accesses(("read",))
    }
    shares = []
    for launch in planned:
        counted: dict[int, list[int]] = {}
        for route in launch.routes:
            for access, fed in zip(route.map.accesses, route.map.fed_by, strict=True):
                storage = launch.storage(access)
                if access.kind != "read" and fed and storage is not None and storage in loaded:
                    used, made = counted.setdefault(storage, [0, 0])
                    live = _live(storage, route, access, found)
                    counted[storage] = [used + int(live.sum()), made + int(route.members.sum())]
        shares += [(launch.name, 1.0 - used / made) for used, made in counted.values()]
    return shares


def _loads(launch: Planned, route: Route, found: Needs, grown: dict[int, list[Intervals]]) -> bool:
    """Enter the loads that feed needed stores. False if there are too many to follow."""
    accesses, fed_by = route.map.accesses, route.map.fed_by
    stores = [
        (fed, _live(launch.storage(access), route, access, found))
        for access, fed in zip(accesses, fed_by, strict=True)
        if access.kind != "read"
    ]
    stores = [(fed, live) for fed, live in stores if fed and live.any()]
    together: dict[int, np.ndarray] = {}
    for fed, live in stores:
        together[fed] = together[fed] | live if fed in together else live
    if len(together) * len(accesses) > _PAIRS:
        return False
    for number, access in enumerate(accesses):
        storage = launch.storage(access)
        if access.kind == "write" or storage is None:
            continue
        lives = [live for fed, live in together.items() if fed >> number & 1]
        if not lives:
            continue
        if access.data or not alike(route, access):
            found.rough.add(storage)
            grown.setdefault(storage, []).append((np.array([0]), np.array([WHOLE])))
            continue
        if not access.pointers.size:
            continue
        starts, ends = runs(access)
        shifts = route.map.shifts(access, np.logical_or.reduce(lives))
        if len(starts) * len(shifts) > _PIECES:
            return False
        grown.setdefault(storage, []).append(
            ((starts[None] + shifts[:, None]).ravel(), (ends[None] + shifts[:, None]).ravel())
        )
    return True


def _live(storage: int | None, route: Route, access: Access, found: Needs) -> np.ndarray:
    """By program, whether its store there may be needed."""
    if storage is not None and storage not in found.places:
        return np.zeros_like(route.members)
    if storage is None or access.data or not alike(route, access):
        return route.members
    if not access.pointers.size:
        return np.zeros_like(route.members)
    offsets = access.pointers & REACH
    low = int(offsets.min()) + access.shift
    high = int(offsets.max()) + access.itemsize + access.shift
    starts, ends = found.places[storage]
    return route.members & (np.searchsorted(ends, low, "right") < np.searchsorted(starts, high, "left"))


def _merge(pieces: Sequence[Intervals]) -> Intervals:
    starts = np.concatenate([one[0] for one in pieces])
    ends = np.concatenate([one[1] for one in pieces])
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    cuts = np.flatnonzero(starts[1:] > reach[:-1]) + 1
    return starts[np.concatenate(([0], cuts))], reach[np.concatenate((cuts - 1, [len(reach) - 1]))]
