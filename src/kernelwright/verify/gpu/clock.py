"""The device process's clock: candidate and reference in turn, every call on fresh inputs, with a flushed L2.

Nothing here is the candidate's but its kernels, so what the clock says is true; what a kernel could still do is to
notice that it is clocked. Before each call, outside of the clock, the memory that it allocates is poisoned as in every
other call, what it keeps from call to call is put back, each input is put together anew from two draws that were never
played before, and the L2 is flushed. One call at a secret moment has one of the draws whole, and
its output is handed to the judge.
"""

from __future__ import annotations

import itertools
import math
import random
import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelwright.verify.gpu import timing
from kernelwright.verify.gpu.memory import flat

_FLUSH_BYTES = 256 << 20
"""Written before each timed call: several times any L2."""
_SLEEP_CYCLES_PER_US = 2000
"""`torch.cuda._sleep` counts cycles; at least this many pass in a microsecond on any GPU here."""
_LEAST_BATCH_DELAY, _MOST_BATCH_DELAY = (_SLEEP_CYCLES_PER_US * us for us in (4_000, 200_000))
_BUDGET_S = 0.4
"""Rounds end when the interval is narrow enough, or after so long."""
_LEAST_ROUNDS, _MOST_ROUNDS = 6, 40
_FEW_CALLS_ROUNDS = 8
"""Rounds at least, where a round is a single call."""
_ROUND_MS = 2.0
_MOST_CALLS, _LEAST_CALLS = 20, 5
"""In a round, as many as take so long at the usual precision; of short calls at least the latter at any."""
_SHARE_CALLS = 5
_RESOLUTION_MS = 1.5e-4
"""Half an interval that is no wider than the events' own steps is not narrowed further."""


class Inputs:
    """The memory that candidate and reference both read, and what it is refreshed from."""

    def __init__(
        self, bound: list[torch.Tensor], audited: list[torch.Tensor], other: list[dict[str, Any]]
    ) -> None:
        """`bound`: what kernels read; `audited`: one draw; `other`: per input `at` (elements from the start of its
        memory) and `values`, a stretch of another draw. Neither was played before.
        """
        self._bound, self._audited = bound, audited
        self._flat = [(flat(tensor), flat(source)) for tensor, source in zip(bound, audited, strict=True)]
        self._other = other
        self._dice = random.Random(secrets.randbits(64))

    def restore(self) -> None:
        """The audited draw, whole."""
        for tensor, source in zip(self._bound, self._audited, strict=True):
            tensor.copy_(source)

    def freshen(self) -> None:
        """Other values than at any call before, as good as surely.

        Each floating-point input has one draw up to a random element and the other from there, so that structure that
        both have (a triangle, a range) stays. Integers may belong together: all from one draw.
        """
        other = self._dice.random() < 0.5
        for (target, audited), stretch in zip(self._flat, self._other, strict=True):
            values, at = stretch["values"], stretch["at"]
            count = values.numel()
            cut = self._dice.randint(0, count) if target.is_floating_point() else count
            draws = values, audited[at : at + count]
            first, second = draws if other else reversed(draws)
            target[at : at + cut].copy_(first[:cut])
            target[at + cut : at + count].copy_(second[cut:])


class Side:
    """Candidate or reference: one call, and what is done to its memory before."""

    def __init__(
        self,
        call: Callable[[], object],
        poison: Callable[[], object] = lambda: None,
        steps: Sequence[tuple[bool, Callable[[], object]]] = (),
    ) -> None:
        """`steps` are the call in parts, each with whether it is a launch of the candidate's."""
        self.call, self.poison, self.steps = call, poison, steps
        self.delay = 0
        """Cycles to keep the GPU busy while the host enqueues one call."""

    def learn_delay(self) -> None:
        self.call()
        torch.cuda.synchronize()
        worst = 0.0
        for _ in range(2):
            start = time.perf_counter()
            self.call()
            worst = max(worst, time.perf_counter() - start)
            torch.cuda.synchronize()
        self.delay = int(_SLEEP_CYCLES_PER_US * min(1.5e6 * worst + 30.0, 20_000.0))


class Clock:
    """For one GPU."""

    def __init__(self, device: str) -> None:
        self._flush = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device=device)

    def rounds(
        self,
        sides: list[Side],
        inputs: Inputs,
        audit: Callable[[], None] = lambda: None,
        anew: bool = False,
        precision: float = timing.PRECISION,
    ) -> dict[str, Any]:
        """Medians (ms of GPU time) of rounds that alternate the sides: `{"rounds": [[...]], "calls": n}`.

        They end when half a 95 % interval is at most `precision` of its centre; where that may be coarse, a round
        has fewer calls, too.

        The GPU is kept busy while the host enqueues, so that what is clocked is the device's work and not the
        interpreter's that launches it, for both alike. `audit` takes the first side's outputs after one of its calls;
        `anew` restores all inputs before each call, for modules that change them.
        """
        inputs.restore()
        for side in sides:
            side.learn_delay()
        first = [statistics.median(self._clocked(side, inputs, anew, 2)) for side in sides]
        calls = max(1, min(_MOST_CALLS, math.ceil(_ROUND_MS / max(sum(first), 1e-3))))
        calls = min(calls, max(_LEAST_CALLS, math.ceil(calls * timing.PRECISION / precision)))
        least = _FEW_CALLS_ROUNDS if calls == 1 else _LEAST_ROUNDS
        audited = secrets.randbelow(least)
        rounds: list[list[float]] = []
        end = time.perf_counter() + _BUDGET_S
        while len(rounds) < _MOST_ROUNDS:
            if len(rounds) == audited:
                inputs.restore()
                self._clocked(sides[0], None, False, 1)
                audit()
            order = range(len(sides)) if len(rounds) % 2 == 0 else reversed(range(len(sides)))
            medians = [0.0] * len(sides)
            for index in order:
                medians[index] = statistics.median(self._clocked(sides[index], inputs, anew, calls))
            rounds.append(medians)
            if len(rounds) >= least and (_is_settled(rounds, precision) or time.perf_counter() > end):
                break
        return {"rounds": rounds, "calls": calls}

    def batch(self, side: Side, calls: int, delay: int) -> None:
        """`calls` flushed calls behind one delay in cycles, without any clock here: the judge's own is on it."""
        torch.cuda._sleep(delay)
        for _ in range(calls):
            self._flush.zero_()
            side.call()

    def batch_delay(self, sides: Sequence[Side], calls: int) -> tuple[int, float]:
        """Cycles in which the host can enqueue `calls` calls of any of the sides, however slow it is; and the milliseconds
        that they take at least."""
        wanted = calls * max(side.delay for side in sides)
        cycles = max(_LEAST_BATCH_DELAY, min(wanted, _MOST_BATCH_DELAY))
        return cycles, cycles / _SLEEP_CYCLES_PER_US / 1e3

    def share(self, side: Side) -> tuple[float, float]:
        """Milliseconds of a call in the candidate's launches, and in all: medians of a few calls."""
        own, whole = [], []
        for _ in range(_SHARE_CALLS):
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(side.steps) + 1)]
            self._flush.zero_()
            torch.cuda._sleep(side.delay)
            marks[0].record()
            for (_, step), mark in zip(side.steps, marks[1:], strict=True):
                step()
                mark.record()
            torch.cuda.synchronize()
            times = [before.elapsed_time(after) for before, after in itertools.pairwise(marks)]
            own.append(sum(t for t, (launch, _) in zip(times, side.steps, strict=True) if launch))
            whole.append(sum(times))
        return statistics.median(own), max(statistics.median(whole), 1e-6)

    def flush_ms(self, calls: int) -> float:
        """Milliseconds that a flush takes."""
        self._flush.zero_()
        return statistics.median(gpu_ms(self._flush.zero_) for _ in range(calls))

    def _clocked(self, side: Side, inputs: Inputs | None, anew: bool, calls: int) -> list[float]:
        pairs = []
        for _ in range(calls):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            if inputs is not None:
                if anew:
                    inputs.restore()
                inputs.freshen()
            side.poison()
            self._flush.zero_()
            torch.cuda._sleep(side.delay)
            start.record()
            side.call()
            end.record()
            pairs.append((start, end))
        torch.cuda.synchronize()
        return [max(start.elapsed_time(end), 1e-6) for start, end in pairs]


def _is_settled(rounds: list[list[float]], precision: float) -> bool:
    """Whether the interval of the ratio and that of the first side are narrow enough."""
    own = timing.geometric([entry[0] for entry in rounds])
    ratio = timing.geometric([entry[-1] / entry[0] for entry in rounds])
    finest = max(precision, _RESOLUTION_MS / own.centre)
    return max(ratio.half_width, own.half_width) <= finest


def gpu_ms(call: Callable[[], object]) -> float:
    """GPU milliseconds of one call, the host's launch time included."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)
