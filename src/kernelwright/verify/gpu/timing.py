"""Statistics of timing: from measurements to a time with an interval, and the tests for forged times. No torch.

Rounds alternate candidate and reference, each call on fresh inputs with the L2 flushed before it. The ratio of a
round's medians cancels drift between rounds; the interval is Student's over the rounds' log ratios.

The judge also times whole batches of n calls from outside, behind a delay that lets the host run ahead of the GPU.
Batches of two sizes give a line: its slope is flush + call, its intercept the fixed cost of a batch. A claim far below
the slope is a forged time; an intercept far above the reference's is a batch padded to flatten the slope.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

# Two-sided 95 % quantiles of Student's t for 1.. degrees of freedom; beyond the table it is close to 1.96 + 2.4/df.
_T95 = (
    12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
)  # fmt: skip

PRECISION = 0.01
"""Rounds end when half the 95 % interval of a time is at most this share of it."""
_STOPPING = 1.15
"""Factor that widens intervals. Stopping when an interval is narrow favours rounds that agree by chance: only 93 % of plain
95 % intervals held the truth (benchmarks/noise.py); widened, 95 % do."""

SLOPE_SLACK = 0.25
"""Share by which a claimed time may lie below the measured slope before it counts as forged."""
SLOPE_SLACK_MS = 0.004
"""The same in milliseconds: the error of the slope for calls of a few microseconds."""
PADDING_SHARE = 0.30
PADDING_MS = 2.0
PADDING_CALLS = 0.1
"""A batch's fixed cost may exceed the reference's by the sum of a share of that, milliseconds, and a share of one call, since
the intercept carries the noise of long batches (7.5 ms for an honest call of 190 ms, once)."""


@dataclasses.dataclass(frozen=True)
class Interval:
    """A centre and a 95 % interval, in the unit of the samples."""

    centre: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width as a share of the centre."""
        return (self.high - self.low) / (2 * self.centre) if self.centre else math.inf


def geometric(samples: Sequence[float]) -> Interval:
    """Geometric mean of positive samples with Student's interval on their logarithms."""
    logs = [math.log(sample) for sample in samples]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return Interval(math.exp(mean), 0.0, math.inf)
    degrees = len(logs) - 1
    student = _T95[degrees - 1] if degrees <= len(_T95) else 1.96 + 2.4 / degrees
    half = _STOPPING * student * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


@dataclasses.dataclass(frozen=True)
class Batch:
    """One batch timed by the judge: its calls and its wall-clock milliseconds."""

    calls: int
    ms: float


def line(batches: Sequence[Batch]) -> tuple[float, float]:
    """(slope, intercept) in ms through the fastest batch of each of two sizes.

    The fastest, because noise only adds. Raises ValueError without two sizes.
    """
    best: dict[int, float] = {}
    for batch in batches:
        best[batch.calls] = min(best.get(batch.calls, math.inf), batch.ms)
    if len(best) < 2:
        raise ValueError("a slope needs batches of two sizes")
    small, large = min(best), max(best)
    slope = (best[large] - best[small]) / (large - small)
    return slope, best[small] - slope * small


def contradicts(claim_ms: float, batches: Sequence[Batch], flush_ms: float) -> bool:
    """Whether a call takes longer than claimed. If so for the reference, which nobody forges, the clock is disturbed."""
    slope, _ = line(batches)
    return claim_ms < (slope - flush_ms) * (1.0 - SLOPE_SLACK) - SLOPE_SLACK_MS


def why_forged(
    claim_ms: float,
    candidate: Sequence[Batch],
    reference: Sequence[Batch],
    flush_ms: float,
    delay_ms: float = 0.0,
) -> str:
    """Why a claimed time is fraud, or an empty string. `flush_ms`: the flush before each call; `delay_ms`: the least wait of
    every batch, hence a lower bound of its fixed cost, even if noise puts the reference's below."""
    slope, fixed = line(candidate)
    usual = max(line(reference)[1], delay_ms)
    if contradicts(claim_ms, candidate, flush_ms):
        return f"claims {claim_ms:.4f} ms a call; clocked from outside it takes {slope - flush_ms:.4f} ms"
    if fixed > usual * (1.0 + PADDING_SHARE) + PADDING_MS + PADDING_CALLS * claim_ms:
        return f"a batch costs {fixed:.2f} ms beside its calls; the reference's costs {usual:.2f} ms"
    return ""
