"""Schedules of each nest: by rules of thumb, and all that are worth measuring. None is known to be the best."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from kernelwright.hardware import TARGETS
from kernelwright.synth import joined
from kernelwright.synth.estimate import in_order, of_windows, patch_instructions
from kernelwright.synth.facts import behind, extents_of, instruction, itemsize_of, legal, plain_operands
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import (
    AttentionSchedule,
    ConvolutionSchedule,
    DepthwiseSchedule,
    MapSchedule,
    ProductSchedule,
    RowSchedule,
    ScanSchedule,
    TransposeSchedule,
)
from kernelwright.synth.schedules.product import product_of
from kernelwright.synth.schedules.row import space_of
from kernelwright.synth.schedules.taps import taps_of
from kernelwright.synth.schedules.transpose import along_rows, turned_dimension
from kernelwright.synth.sizes import ONE, next_power_of_two
from kernelwright.synth.source import Source

_ONE_PASS = 16384
"""Most elements of a row that one program holds."""
HEAVY = 12
"""Instructions after a product from which another tile may be better."""
_LIKELY = 3
"""Number of a product's schedules that serve as rule of thumb."""


def patch_cost(source: Source, schedule: DepthwiseSchedule) -> float:
    """Estimated cost of a depthwise schedule at the graph's sizes."""
    prim = next(prim for prim in source.lowered.prims if prim.op == "conv")
    high, wide = prim.args[1].shape[2:]
    down, across = prim.out.shape[2:]
    planes = math.prod(prim.out.shape[:2])
    return patch_instructions(schedule, planes, (high, wide), (down, across), prim.attr("stride"))


# -- rules of thumb -------------------------------------------------------------------------------------------------


def _map_defaults(source: Source, precision: str) -> Iterator[Any]:
    if turned_dimension(source) is not None:
        yield TransposeSchedule(tile=(64, 64) if itemsize_of(source) == 2 else (32, 32), warps=4)
    elements = extents_of(source, "map")[0]
    yield MapSchedule(block=1024 if elements >= 2**20 else 256, warps=4)


def _row_defaults(source: Source, precision: str) -> Iterator[Any]:
    rows, columns, contiguous, levels = extents_of(source, "row")
    argument = any(prim.op in ("argmax", "argmin") for prim in source.lowered.prims)
    yield from itertools.islice(_taps(source), 2)
    if not contiguous:
        if not argument:
            yield from itertools.islice(_split_columns(source), 2)
        yield RowSchedule(passes="loop", rows=64 if rows >= 64 * 132 else 16, block=32, warps=4)
        return
    if columns <= 2048 and along_rows(source):
        yield from itertools.islice(_turned_rows(columns), 2)
    if rows < 132 and columns >= 8192 and levels == 1 and not argument:
        split = min(1024, max(2, 528 // max(rows, 1)), -(-columns // 2048))
        yield from legal(RowSchedule, passes="split", block=2048, split=max(split, 2), warps=8)
    if columns <= _ONE_PASS:
        power = next_power_of_two(columns)
        warps = 1 if power <= 256 else 4 if power <= 2048 else 8 if power <= 8192 else 16
        many = max(1, min(16, 1024 // power)) if power < 512 else 1
        yield RowSchedule(passes="one_pass", rows=many, warps=max(warps, 4) if many > 1 else warps)
    if columns > _ONE_PASS and levels == 2:
        yield RowSchedule(passes="online", block=4096, warps=8)
    yield RowSchedule(passes="loop", block=4096, warps=8)


def _product_defaults(source: Source, precision: str) -> Iterator[Any]:
    m, n, k = extents_of(source, "product")
    wide = itemsize_of(source) == 4
    how = instruction(precision)
    if not wide:
        limit = min(sheet.shared_per_block for sheet in TARGETS.values() if sheet.arch.startswith("90"))
        some = [one for one in _product_space(source, precision) if one.fits(2, limit)]
        yield from in_order(some, m, n, k, behind(source))[:_LIKELY]
    tile_m = 128 if m >= 128 else 64 if m > 32 else 32 if m > 16 else 16
    tile_n = 128 if n >= 128 else 64 if n > 32 else 32
    tiles = -(-m // tile_m) * -(-n // tile_n)
    if tiles < 66 and k >= 2048:
        split = min(16, max(2, 132 // tiles), k // 512)
        yield from legal(
            ProductSchedule, tile=(tile_m, tile_n, 32 if wide else 64), split_k=split, warps=4, precision=how
        )
    if wide and how == "ieee":
        yield from legal(
            ProductSchedule, tile=(min(tile_m, 64), min(tile_n, 64), 16), warps=4, stages=3, precision=how
        )
        return
    side = plain_operands(source)
    if not wide and tiles >= 132 and min(k, n) >= 64 and side:
        yield from legal(
            ProductSchedule, tile=(128, 128, 64), warps=8, stages=4, loads="descriptor", persistent=True
        )
    if not wide and m * n >= 128 * 256 * 66:
        yield from legal(ProductSchedule, tile=(128, 256, 32), warps=8, stages=5)
    warps = 8 if tile_m * tile_n > 8192 else 4
    yield from legal(ProductSchedule, tile=(tile_m, tile_n, 32), warps=warps, stages=3, precision=how)
    yield from legal(ProductSchedule, tile=(64, 64, 32), warps=4, stages=3, precision=how)


def _attention_defaults(source: Source, precision: str) -> Iterator[Any]:
    width = extents_of(source, "attention")[3]
    wide = itemsize_of(source) == 4
    tile = (64, 32) if wide else (128, 64) if width <= 128 else (64, 32)
    warps, stages = 4 if width <= 64 or wide else 8, 2 if wide else 3
    yield AttentionSchedule(tile=tile, warps=warps, stages=stages, precision=instruction(precision))


def _convolution_facts(source: Source) -> tuple[int, int, int, int, bool]:
    """Output places, filters and channels per group, taps, and whether it is a plain 1x1 convolution."""
    prim = next(prim for prim in source.lowered.prims if prim.op == "conv")
    w, groups, transposed = prim.args[1].shape, prim.attr("groups"), prim.attr("transposed")
    channels = w[0] // groups if transposed else w[1]
    filters = w[1] if transposed else w[0] // groups
    taps = math.prod(w[2:])
    same = taps == 1 and math.prod(prim.attr("stride")) == 1 and not any(prim.attr("padding"))
    return math.prod(prim.out.shape) // prim.out.shape[1], filters, channels, taps, same


def _convolution_defaults(source: Source, precision: str) -> Iterator[Any]:
    places, filters, channels, taps, same = _convolution_facts(source)
    how = instruction(precision, convolution=True)
    yield from _depthwise(source)[:2]
    if filters < 16 and taps * channels <= 64:
        yield ConvolutionSchedule(algorithm="direct", tile=(512, 16, 16), warps=4)
    if windows_counted(source):
        some = [one for one in _convolution_space(source, precision) if one.loads == "pointer"]
        yield from sorted(some, key=lambda one: window_cost(source, one))[:2]
    n = min(128, max(16, next_power_of_two(filters)))
    k = min(64 if itemsize_of(source) == 2 else 32, max(16, next_power_of_two(channels)))
    m, warps = (128, 8 if n == 128 else 4) if places >= 128 * 64 else (64, 4)
    if how == "ieee" and itemsize_of(source) == 4:
        m, n, k, warps = 64, min(n, 64), 16, 4
    if not same and channels % 8 == 0 and channels >= 16:
        yield from legal(
            ConvolutionSchedule, layout="nhwc", tile=(m, n, k), warps=warps, stages=3, precision=how
        )
    yield from legal(ConvolutionSchedule, layout="nchw", tile=(m, n, k), warps=warps, stages=3, precision=how)


def windows_counted(source: Source) -> bool:
    """Whether `window_cost` applies to all schedules of a convolution: half precision, several taps, enough channels for tiles."""
    _, filters, channels, taps, _ = _convolution_facts(source)
    return itemsize_of(source) == 2 and taps > 1 and filters >= 16 and taps * channels > 64


def window_cost(source: Source, schedule: ConvolutionSchedule) -> float:
    """Estimated cost of an implicit convolution at the graph's sizes."""
    places, filters, channels, taps, _ = _convolution_facts(source)
    return of_windows(schedule, places, filters, channels * taps)


def _depthwise(source: Source) -> list[Any]:
    """Depthwise schedules, those with the fewest instructions first; empty for other convolutions."""
    prim = next(prim for prim in source.lowered.prims if prim.op == "conv")
    w = prim.args[1].shape
    if len(w) != 4 or w[1] != 1 or w[0] != prim.attr("groups") or prim.attr("transposed"):
        return []
    high = prim.out.shape[2]
    strips = {-(-high // parts) for parts in (1, 2, 4, 8)}
    found: list[Any] = []
    if prim.attr("stride")[0] == prim.attr("dilation")[0] == 1:
        for columns, rows in itertools.product((4, 2, 8), sorted(strips)):
            found += legal(DepthwiseSchedule, tile=(min(rows, 256), columns), warps=4)
        found += legal(DepthwiseSchedule, tile=(-(-high // 2), 4), warps=2)
    if math.prod(w[2:]) <= 9 or not found:
        tiles = ((4, 4), (7, 4), (7, 2), (4, 2), (2, 4), (8, 1))
        found += [DepthwiseSchedule(algorithm="patch", tile=tile, warps=4) for tile in tiles]
    return sorted(found, key=lambda one: patch_cost(source, one))


def _convolution_space(source: Source, precision: str) -> Iterator[Any]:
    _, filters, channels, taps, same = _convolution_facts(source)
    how, wide = instruction(precision, convolution=True), itemsize_of(source) == 4
    yield from _depthwise(source)
    if taps * channels <= 64:
        for block, warps in ((256, 2), (256, 4), (512, 4), (1024, 4), (1024, 8)):
            yield from legal(ConvolutionSchedule, algorithm="direct", tile=(block, 16, 16), warps=warps)
    if filters < 16:
        return
    layouts = ("nchw",) if same else ("nhwc", "nchw")
    tiles = ((128, 128, 64, 8), (128, 128, 64, 4), (128, 256, 64, 8), (256, 128, 64, 8), (128, 64, 64, 4), (64, 128, 64, 4),
             (256, 64, 64, 8), (128, 128, 32, 4), (64, 64, 64, 4))  # fmt: skip
    for layout, (m, n, k, warps), stages, group in itertools.product(layouts, tiles, (3, 4), (1, 8)):
        if n <= max(16, filters) and (layout == "nhwc" or same or stages == 3):
            yield from legal(ConvolutionSchedule, layout=layout, tile=(m, n, min(k // 2 if wide else k, max(16, channels))),
                             warps=warps, stages=stages, group=group, precision=how)  # fmt: skip
    yield from _boxes(source, how)


_BOXED = (
    (128, 256, 64, 8),
    (256, 128, 64, 8),
    (128, 128, 64, 8),
    (128, 128, 64, 4),
    (64, 256, 64, 4),
    (128, 64, 64, 4),
)


def _boxes(source: Source, how: str) -> Iterator[Any]:
    """Schedules of a convolution that load boxes of an input with channels last; empty if no stride or step divides its sizes."""
    prim = next(prim for prim in source.lowered.prims if prim.op == "conv")
    _, filters, channels, _, same = _convolution_facts(source)
    plain = prim.args[0].name in {one.name for one in source.lowered.arguments} and not same
    last = any(one.op == "permute" and one.out.name == prim.args[0].name for one in source.lowered.prims)
    strides = zip(prim.args[0].shape[2:], prim.attr("stride"), strict=True)
    if len(prim.out.shape) != 4 or not (plain or last) or any(size % stride for size, stride in strides):
        return
    for (m, n, k, warps), stages in itertools.product(_BOXED, (3, 4, 5)):
        depth = k // 2 if itemsize_of(source) == 4 else k
        if n <= max(16, filters) and channels % depth == 0:
            yield from legal(ConvolutionSchedule, layout="nhwc" if plain else "nchw", tile=(m, n, depth), warps=warps, stages=stages,
                             loads="descriptor", box=_box(m, prim.out.shape), precision=how)  # fmt: skip


def _box(places: int, shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a box of so many places that covers images with the fewest places beside them; the widest of these."""
    images, _, down, across = shape
    powers = [2**power for power in range(places.bit_length())]
    found = (
        (rows, columns) for rows, columns in itertools.product(powers, powers) if rows * columns <= places
    )

    def covered(box: tuple[int, int]) -> tuple[int, int, int]:
        rows, columns = box
        sizes = ((images, places // (rows * columns)), (down, rows), (across, columns))
        return math.prod(-(-size // part) * part for size, part in sizes), -columns, -rows

    return min(found, key=covered)


def _scan_defaults(source: Source, precision: str) -> Iterator[Any]:
    rows, columns, contiguous = extents_of(source, "scan")
    if contiguous:
        yield ScanSchedule(rows=4 if columns <= 256 else 1, block=2048, warps=4 if columns <= 2048 else 8)
    yield ScanSchedule(rows=32 if rows >= 32 * 132 else 8, block=64, warps=4)


def _scan_space(source: Source, precision: str) -> Iterator[Any]:
    _, _, contiguous = extents_of(source, "scan")
    blocks = (
        (1, 1024, 4),
        (1, 2048, 4),
        (1, 2048, 8),
        (1, 4096, 8),
        (1, 8192, 8),
        (2, 1024, 4),
        (4, 512, 4),
        (4, 1024, 8),
    )
    others = ((8, 64, 4), (16, 64, 4), (32, 32, 4), (32, 64, 4), (64, 32, 4), (64, 64, 8))
    for rows, block, warps in blocks if contiguous else others:
        yield from legal(ScanSchedule, rows=rows, block=block, warps=warps)


# -- spaces ---------------------------------------------------------------------------------------------------------


def _map_space(source: Source, precision: str) -> Iterator[Any]:
    if turned_dimension(source) is not None:
        for tile, warps in itertools.product(((32, 32), (32, 64), (64, 64), (64, 128), (128, 64)), (4, 8)):
            yield from legal(TransposeSchedule, tile=tile, warps=warps)
    for block, warps in itertools.product((512, 1024, 2048, 4096), (4, 8)):
        yield from legal(MapSchedule, block=block, warps=warps)
    if any(prim.op == "window" for prim in source.lowered.prims):
        block = min(256, next_power_of_two(source.outputs[0][0].shape[-1]))
        for elements, warps in itertools.product((512, 1024, 256, 2048), (4, 8, 2)):
            if elements > block:
                yield from legal(MapSchedule, rows=elements // block, block=block, warps=warps)


def _row_space(source: Source, precision: str) -> Iterator[Any]:
    rows, columns, contiguous, levels = extents_of(source, "row")
    yield from _taps(source)
    if not contiguous:
        yield from _split_columns(source)
        for many, block, warps in itertools.product((32, 64, 128), (8, 32, 64), (4, 8)):
            yield from legal(RowSchedule, passes="loop", rows=many, block=block, warps=warps)
        return
    if columns <= 2048 and along_rows(source):
        yield from _turned_rows(columns)
    power = next_power_of_two(columns)
    if columns <= 65536 and rows >= 64:
        for warps, many in itertools.product((1, 2, 4, 8, 16), (1, 2, 4, 8)):
            if 4 <= power * many // (32 * warps) <= 128:
                yield from legal(RowSchedule, passes="one_pass", rows=many, warps=warps)
    if columns >= 2048:
        for block, warps in ((1024, 4), (2048, 4), (2048, 8), (4096, 8), (8192, 16)):
            yield from legal(RowSchedule, passes="loop", block=block, warps=warps)
            if levels == 2:
                yield from legal(RowSchedule, passes="online", block=block, warps=warps)
            if levels == 1 and rows < 1024:
                for split in (8, 64, 256, 1024):
                    if split * block <= columns:
                        yield from legal(RowSchedule, passes="split", block=block, split=split, warps=warps)


def _taps(source: Source) -> Iterator[Any]:
    """Schedules of the weights' gradient of a depthwise convolution: enough warps to fill an SM four times, or two or eight times,
    with at least four steps each; empty for other sums."""
    try:
        total, seen, _ = taps_of(source)
    except Unsupported:
        return
    for waves, columns, warps in itertools.product((4, 2, 8), (4, 8, 2), (4, 8, 2)):
        steps = math.prod((seen.out.shape[0], *seen.out.shape[4:])) // (32 * columns)
        parts = max(1, min(256, 132 * 16 * waves // total.out.shape[0], steps // 4))
        yield from legal(DepthwiseSchedule, algorithm="weights", tile=(parts, columns), warps=warps)


_TILES = ((128, 256, 64, 8), (128, 256, 32, 8), (256, 128, 64, 8), (128, 128, 64, 8), (128, 128, 64, 4), (128, 128, 128, 8),
          (64, 256, 64, 8), (64, 128, 64, 4), (128, 64, 64, 4), (64, 64, 128, 4))  # fmt: skip


def _split_columns(source: Source) -> Iterator[Any]:
    """Sums over columns: lines of at least 128 bytes, enough of them in flight per program, and several programs per SM; images
    that are contiguous along the summed dimensions are split by channel."""
    rows, columns, _, _ = extents_of(source, "row")
    if not along_rows(source) and not stores_along_rows(source):
        for busy, (block, warps) in itertools.product((8, 4, 16), ((2048, 4), (4096, 8), (1024, 4))):
            split = min(-(-132 * busy * 4 // (warps * rows)), -(-columns // block), 512)
            if split > 1:
                yield from legal(RowSchedule, passes="split", block=block, split=split, warps=warps)
        return
    narrow = itemsize_of(source) == 2
    tiles = ((64, 64, 4), (128, 64, 8), (64, 32, 4), (128, 32, 4), (256, 32, 8), (64, 128, 8), (64, 16, 4))
    for busy, (many, block, warps) in itertools.product((6, 3, 12), tiles):
        many = many if narrow else many // 2
        split = min(-(-132 * busy * 4 // (warps * -(-rows // many))), -(-columns // block), 512)
        if split > 1 and many < 2 * rows:
            yield from legal(RowSchedule, passes="split", rows=many, block=block, split=split, warps=warps)


def stores_along_rows(source: Source) -> bool:
    """Whether full-length results are stored with a kept dimension fastest."""
    space, rows = space_of(source), extents_of(source, "row")[0]
    last = max(i for i, size in enumerate(space.shape) if size != ONE)
    return last not in space.dims and any(math.prod(value.shape) != rows for value, _ in source.outputs)


def _turned_rows(columns: int) -> Iterator[Any]:
    """Rows whose neighbours are adjacent in memory."""
    for many, warps in ((32, 8), (64, 8), (64, 16), (32, 4), (128, 16), (16, 4)):
        if many * columns <= 128 * 32 * warps:
            yield from legal(RowSchedule, passes="one_pass", rows=many, warps=warps)


def _product_space(source: Source, precision: str) -> Iterator[Any]:
    m, n, k = extents_of(source, "product")
    how, wide, plain = instruction(precision), itemsize_of(source) == 4, plain_operands(source)
    product = product_of(source)
    rows = product.out.shape[-2] if len(product.args[1].shape) > 2 else m
    if wide and how == "ieee":  # three TF32 products are as accurate as one in IEEE
        for tile, warps in itertools.product(
            ((128, 128, 32), (128, 64, 32), (64, 128, 32), (64, 64, 32)), (4, 8)
        ):
            for stages in (2, 3):
                yield from legal(ProductSchedule, tile=tile, warps=warps, stages=stages, precision="tf32x3")
    for tile_m, tile_n, tile_k, warps in _TILES:
        if tile_m > max(16, 2 * rows) or tile_n > max(16, 2 * n):
            continue
        tile = (tile_m, tile_n, tile_k // 2 if wide else tile_k)
        tiles = m // rows * -(-rows // tile_m) * -(-n // tile_n)
        yield from legal(ProductSchedule, tile=tile, warps=warps, stages=3, precision=how)
        for stages in (3, 4) if plain else ():
            for way, pieces in itertools.product(
                ({}, {"persistent": True}, {"persistent": True, "flat": True}), (1, 2)
            ):
                yield from legal(ProductSchedule, tile=tile, warps=warps, stages=stages, loads="descriptor",
                                 epilogue=pieces, precision=how, **way)  # fmt: skip
        for split in (2, 3, 4, 6, 8, 12, 16, 24, 32) if tiles < 132 else ():
            if k // split >= 4 * tile_k and tiles * split <= 4 * 132:
                for stages in (3, 4):
                    yield from legal(ProductSchedule, tile=tile, warps=warps, stages=stages, split_k=split, precision=how,
                                     loads="descriptor" if plain else "pointer")  # fmt: skip
    if min(rows, n) <= 64:
        for tile_m, tile_n, split in itertools.product((16, 32, 64), (32, 64, 128), (1, 4, 8, 16)):
            if tile_m <= max(16, 2 * rows) and tile_n <= max(32, 2 * n):
                tile = (tile_m, tile_n, 128)
                yield from legal(ProductSchedule, tile=tile, warps=4, stages=4, split_k=split, precision=how)


def _attention_space(source: Source, precision: str) -> Iterator[Any]:
    width, how = next_power_of_two(extents_of(source, "attention")[3]), instruction(precision)
    most = max(sheet.shared_per_block for sheet in TARGETS.values()) // (width * itemsize_of(source))
    causal = next(prim for prim in source.lowered.prims if prim.op == "attention").attr("causal")
    if itemsize_of(source) == 4 and how == "ieee":  # three TF32 products are as accurate as one in IEEE
        for tile, warps in (((64, 32), 4), ((128, 32), 8), ((64, 64), 4), ((128, 64), 8)):
            for stages, loads in itertools.product((2, 3), ("pointer", "descriptor")):
                shared = {"tile": tile, "warps": warps, "stages": stages, "precision": "tf32x3"}
                yield from legal(
                    AttentionSchedule, loads=loads, first="long" if causal else "short", **shared
                )
    for (m, n, warps), stages in itertools.product(
        ((128, 64, 4), (128, 64, 8), (128, 128, 8), (64, 64, 4), (64, 128, 4)), (1, 2, 3, 4)
    ):
        if m + 2 * stages * n > most:  # shared memory for queries, and for keys and values of every stage
            continue
        for loads, first in itertools.product(
            ("pointer", "descriptor"), ("short", "long", "heads") if causal else ("short",)
        ):
            shared = {"tile": (m, n), "warps": warps, "stages": stages, "precision": how}
            yield from legal(AttentionSchedule, loads=loads, first=first, **shared)


DEFAULTS = {
    "map": _map_defaults, "row": _row_defaults, "product": _product_defaults, "joined": joined.defaults,
    "attention": _attention_defaults, "convolution": _convolution_defaults, "scan": _scan_defaults,
}  # fmt: skip
"""Nest -> schedules of a source in a precision, the likely best first."""
SPACES = {
    "map": _map_space, "row": _row_space, "product": _product_space, "joined": joined.space,
    "attention": _attention_space, "scan": _scan_space, "convolution": _convolution_space,
}  # fmt: skip
"""Nest -> all schedules worth measuring."""
