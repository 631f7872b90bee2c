"""Estimates the time of a half-precision product's schedule on a Hopper-type GPU from counts alone.

Counts tiles per SM, the share of the tensor cores' rate that a tile's loop reaches, the time to start and end a tile, memory, and
the cost of a split contraction. Rates come from measured rows (`benchmarks/schedules.py`); the order of schedules is what
matters, the milliseconds are rough. For depthwise convolutions, counts instructions per lane.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kernelwright.synth.program import ConvolutionSchedule, DepthwiseSchedule, JoinedSchedule, ProductSchedule

_SMS, _SHARED = 132, 232448
_RATE = 5.9e6
"""Most operations of one SM per microsecond."""
_BYTES = 3.0e6
"""Bytes of memory traffic per microsecond."""
_CACHED = 4.5e6
"""Bytes of partial sums per microsecond; L2 holds most of them."""
_FLYING = 64000
"""Bytes in flight that an SM needs for full memory bandwidth."""
_FEED = 1.15e7
"""Bytes of operands from L2 per microsecond."""
_LAUNCH, _ENDS = 3.0, 2.0
"""Microseconds: launching a second kernel; filling the pipeline and the epilogue of one tile."""


_GATHERED = 2.0
"""Cost factor of windows of an image whose channels are not the fastest dimension."""
_INSTRUCTIONS = 2.2e5
"""Instructions of an SM's lanes per microsecond."""
_SPILLED = 3.5
"""Cost factor of a loop whose sums do not fit into registers."""
_ALIKE = 1.04
"""By how much a second schedule of the same tile must be better to come before another tile's first."""


class Behind(NamedTuple):
    """Work per element after a product: instructions, and bytes read."""

    instructions: int = 0
    bytes: int = 0


_NOTHING = Behind()


def microseconds(schedule: ProductSchedule, m: int, n: int, k: int, behind: Behind = _NOTHING) -> float:
    """Estimated time of a product of these sizes."""
    a, b, c = schedule.tile
    split = schedule.split_k
    tiles = -(-m // a) * -(-n // b) * split
    own = max(1, -(-tiles // _SMS))
    beside = 1 if schedule.persistent else min(_resident(schedule), own)
    steps = math.ceil(k / split / c)
    rate = _RATE * _rate_reached(schedule, beside)
    loop = own * steps * 2 * a * b * c / rate * (_SPILLED if a * b >= 256 * 32 * schedule.warps else 1.0)
    shared = (0.4 if schedule.epilogue > 1 else 0.5) if schedule.persistent else 1 / beside
    finish = a * b * behind.instructions / _INSTRUCTIONS if split == 1 else 0.0
    if schedule.epilogue == 1 and a * b >= 128 * 32 * schedule.warps and schedule.warps < 8:
        finish *= 1.4  # values spill out of registers
    if split == 1:
        finish += a * b * behind.bytes / (2 * _BYTES / _SMS)
    # With other programs on the SM, one finishes while another's tensor cores work.
    ends = own * (_ENDS * shared + finish * (0.7 if beside == 1 else 0.4))
    again = (-(-n // b)) * m * k + (-(-m // a)) * n * k  # operand elements, as often as tiles read them
    memory = max((2 * (m * k + k * n + m * n) + behind.bytes * m * n) / _BYTES, 2 * again / _FEED)
    flying = min(tiles, _SMS * _resident(schedule)) * (schedule.stages - 1) * (min(a, m) + min(b, n)) * c * 2
    fill = min(1.0, flying / (_SMS * _FLYING))
    memory /= max(fill, 0.05)
    total = max(loop, memory) + 0.1 * min(loop, memory) + ends  # overlap is not perfect
    if split > 1:
        total += _LAUNCH + 8 * split * m * n / _CACHED
    return total


def of_joined(schedule: JoinedSchedule, m: int, n: int, k: int, behind: Behind = _NOTHING) -> float:
    """Microseconds of several products of one left operand, each with n columns, as one product of wider tiles. `behind`: work per
    element of one of them."""
    a, b, c = schedule.tile
    wide = {**schedule.model_dump(exclude={"nest", "products"}), "tile": (a, b * schedule.products, c)}
    alike = ProductSchedule.model_construct(**wide)
    return microseconds(alike, m, -(-n // b) * b * schedule.products, k, behind)


def in_order(
    some: Sequence[ProductSchedule], m: int, n: int, k: int, behind: Behind = _NOTHING
) -> list[ProductSchedule]:
    """The schedules, fastest first but with tiles mixed: schedules that differ only in stages add little information."""
    alike: Counter[tuple[object, ...]] = Counter()
    costs = []
    for one in sorted(some, key=lambda one: microseconds(one, m, n, k, behind)):
        kind = (one.tile, one.warps, one.split_k, one.persistent, one.flat)
        costs.append((microseconds(one, m, n, k, behind) * _ALIKE ** alike[kind], one))
        alike[kind] += 1
    return [one for _, one in sorted(costs, key=lambda pair: pair[0])]


def of_windows(schedule: ConvolutionSchedule, places: int, filters: int, summed: int) -> float:
    """Microseconds of a convolution with more than one tap, as an equivalent product."""
    m, n, k = schedule.tile
    alike = ProductSchedule.model_construct(tile=(m, n, k), stages=schedule.stages, warps=schedule.warps)
    return microseconds(alike, places, filters, summed) * (_GATHERED if schedule.layout == "nchw" else 1.0)


def _resident(schedule: ProductSchedule) -> int:
    """Programs that one SM runs at once."""
    a, b, c = schedule.tile
    memory = schedule.stages * (a + b) * c * 2
    registers = 32 * schedule.warps * (a * b / (32 * schedule.warps) + 48)
    return max(1, min(_SHARED // memory, int(65536 // registers), 64 // schedule.warps, 4))


def _rate_reached(schedule: ProductSchedule, beside: int) -> float:
    """The share of an SM's rate that a tile's loop reaches, with `beside` programs on the SM."""
    a, b, c = schedule.tile
    low, high = min(a, b), max(a, b)
    reached = {(128, 256): 1.0, (128, 128): 0.86, (64, 256): 0.8, (64, 128): 0.64, (64, 64): 0.42}.get(
        (low, high)
    )
    if reached is None:
        reached = 0.42 * math.sqrt(low * high / 4096) if low < 64 else 0.7
    if a > b:
        reached *= 0.97 if low >= 128 else 0.9
    reached *= {1: 1.0, 2: 1.1, 3: 1.16, 4: 1.2}[beside] if low * high <= 16384 else 1.0
    if schedule.loads == "pointer":
        reached *= 0.88
    if c < 64:
        reached *= 0.95
    if schedule.stages * c < 192:
        reached *= 0.96
    if (low, high) == (128, 128) and schedule.warps == 8:
        reached *= 0.95
    return min(reached, 1.0)


def patch_instructions(
    schedule: DepthwiseSchedule,
    planes: int,
    kernel: tuple[int, int],
    sides: tuple[int, int],
    stride: tuple[int, int],
) -> float:
    """Instructions per lane and output of a depthwise convolution, including patches over edges and idle SMs in the last wave."""
    rows, columns = schedule.tile
    taps = kernel[0] * kernel[1]
    across = (columns - 1) * stride[1] + kernel[1]
    down = (rows - 1) * stride[0] + kernel[0]
    over = -(-sides[0] // rows) * rows * -(-sides[1] // columns) * columns / (sides[0] * sides[1])
    if schedule.algorithm == "strip":
        held = kernel[0] * columns
        own = down * (taps * columns + held + 4 * across + 24) + 3 * taps + 60
    else:
        held = rows * columns
        own = taps * held + 4 * down * across + 3 * taps + 60
    registers = held + across + (20 if schedule.algorithm == "strip" else taps + 36)
    crowded = 1.0 if registers <= 124 else 1.25 if registers <= 168 else 1.6
    lanes = planes * -(-sides[0] // rows) * -(-sides[1] // columns)
    programs = lanes / (32 * schedule.warps * _SMS)
    return own / (rows * columns) * over * crowded * math.ceil(programs) / programs
