"""What a clock said, turned into a time with an interval, and the rules by which a claim is fraud. No torch.

Rounds alternate candidate and reference, each call on inputs of its own with the L2 flushed before it. The ratio
of a round's medians cancels what drifts between rounds; the interval is Student's over the rounds' log ratios.

The judge also clocks whole batches of n calls from outside, behind a delay that lets the host run ahead of the
GPU. Batches of two sizes give a line: its slope is flush + call, its intercept is what a batch costs anyway. A claim
far below the slope is a forged clock; an intercept far above the reference's is a batch padded to bend the line.
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
"""Half a 95 % interval of a time, as a share of it, at which rounds end."""
_STOPPING = 1.15
"""Rounds end when the interval is narrow, which favours rounds that happen to agree: 93 % of plain 95 % intervals held
the truth (benchmarks/noise.py); wider by so much, they do as they say."""

SLOPE_SLACK = 0.25
"""Share by which a claim may lie below the outside slope before it is called forged."""
SLOPE_SLACK_MS = 0.004
"""And milliseconds: the slope of a few microseconds is known to about this."""
PADDING_SHARE = 0.30
PADDING_MS = 2.0
PADDING_CALLS = 0.1
"""How far a batch's fixed cost may exceed the reference's: by so much of that, so many milliseconds, and so much of one call,
for it is what two long batches differ by (7.5 ms of an honest call of 190 ms, once)."""


def t95(degrees: int) -> float:
    """Two-sided 95 % quantile of Student's t."""
    return _T95[degrees - 1] if degrees <= len(_T95) else 1.96 + 2.4 / degrees


@dataclasses.dataclass(frozen=True)
class Interval:
    """A centre and a 95 % interval, in the unit of the samples."""

    centre: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """As a share of the centre."""
        return (self.high - self.low) / (2 * self.centre) if self.centre else math.inf


def geometric(samples: Sequence[float]) -> Interval:
    """Geometric mean of positive samples with Student's interval on their logarithms."""
    logs = [math.log(sample) for sample in samples]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return Interval(math.exp(mean), 0.0, math.inf)
    half = _STOPPING * t95(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


@dataclasses.dataclass(frozen=True)
class Batch:
    """One batch clocked from outside: calls in it, and wall-clock milliseconds."""

    calls: int
    ms: float


def line(batches: Sequence[Batch]) -> tuple[float, float]:
    """(slope, intercept) in ms through the fastest batch of each of two sizes.

    The fastest, because noise only ever adds. Raises ValueError without two sizes.
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
    """Whether a call takes longer than claimed. True of the reference, whose time nobody forges: the clock is disturbed."""
    slope, _ = line(batches)
    return claim_ms < (slope - flush_ms) * (1.0 - SLOPE_SLACK) - SLOPE_SLACK_MS


def why_forged(
    claim_ms: float,
    candidate: Sequence[Batch],
    reference: Sequence[Batch],
    flush_ms: float,
    delay_ms: float = 0.0,
) -> str:
    """Why a claimed time is fraud, or an empty string. `flush_ms` is what the flush before each call takes, `delay_ms` what
    every batch waits at least: no batch costs less, whatever line the reference's noise gives."""
    slope, fixed = line(candidate)
    usual = max(line(reference)[1], delay_ms)
    if contradicts(claim_ms, candidate, flush_ms):
        return f"claims {claim_ms:.4f} ms a call; clocked from outside it takes {slope - flush_ms:.4f} ms"
    if fixed > usual * (1.0 + PADDING_SHARE) + PADDING_MS + PADDING_CALLS * claim_ms:
        return f"a batch costs {fixed:.2f} ms beside its calls; the reference's costs {usual:.2f} ms"
    return ""
