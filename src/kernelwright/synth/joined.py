"""Schedules of products that share their left operand: all legal ones, and those expected to be fast."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from kernelwright.hardware import TARGETS
from kernelwright.synth.estimate import of_joined
from kernelwright.synth.facts import behind, extents_of, instruction, itemsize_of, legal
from kernelwright.synth.program import JoinedSchedule
from kernelwright.synth.schedules.joined import products_of
from kernelwright.synth.schedules.product import side_of
from kernelwright.synth.source import Source

_HALF = ((128, 128, 64, 8), (128, 128, 32, 8), (64, 128, 64, 4), (64, 128, 64, 8), (128, 64, 64, 4), (128, 64, 64, 8),
         (256, 64, 64, 8), (64, 64, 64, 4))  # fmt: skip
_FLOAT32 = ((128, 64, 32, 8), (64, 64, 32, 4), (64, 64, 16, 4))
_LIKELY = 3


def cost(source: Source, schedule: JoinedSchedule) -> float:
    """Estimated microseconds. Raises Unsupported."""
    m, n, k, _ = extents_of(source, "joined")
    return of_joined(schedule, m, n, k, behind(source))


def defaults(source: Source, precision: str) -> Iterator[Any]:
    """The schedules with the best estimates, then a small tile that works for any sizes."""
    limit = min(sheet.shared_per_block for sheet in TARGETS.values() if sheet.arch.startswith("90"))
    if itemsize_of(source) == 2:
        some = [one for one in space(source, precision) if one.fits(2, limit)]
        yield from sorted(some, key=lambda one: cost(source, one))[:_LIKELY]
    yield from legal(JoinedSchedule, products=len(products_of(source)), tile=(64, 64, 16 if itemsize_of(source) == 4 else 32),
                     warps=4, precision=instruction(precision))  # fmt: skip


def space(source: Source, precision: str) -> Iterator[Any]:
    """All schedules worth measuring."""
    m, n, _, products = extents_of(source, "joined")
    wide, how = itemsize_of(source) == 4, instruction(precision)
    plain = all(side_of(source, prim, row).argument for prim in products_of(source) for row in (True, False))
    for tile_m, tile_n, tile_k, warps in _FLOAT32 if wide else _HALF:
        if tile_m > max(64, 2 * m) or tile_n > max(64, 2 * n):
            continue
        made = {"products": products, "tile": (tile_m, tile_n, tile_k), "warps": warps}
        yield from legal(JoinedSchedule, **made, precision="tf32x3" if wide and how == "ieee" else how)
        ways: list[dict[str, Any]] = [{}, {"persistent": True}, {"persistent": True, "flat": True}]
        for stages, way, pieces in itertools.product((3, 4), ways, (1, 2)) if plain and not wide else ():
            yield from legal(
                JoinedSchedule, **made, **way, stages=stages, loads="descriptor", epilogue=pieces
            )
