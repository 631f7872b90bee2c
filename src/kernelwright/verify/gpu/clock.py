"""The device process's clock: candidate and reference in turn, every call on fresh inputs, with a flushed L2.

Only the candidate's kernels run here, none of its Python, so the times are genuine; but a kernel might detect that it
is being timed and behave differently. So before each call, untimed, we poison the memory that the call allocates (as in
every other call), restore what it keeps between calls, mix each input anew from two draws never used before, and flush
the L2. One call at a secret moment gets one draw unmixed; its output goes to the judge.
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
"""Written before each timed call; several times the size of any L2."""
_SLEEP_CYCLES_PER_US = 2000
"""`torch.cuda._sleep` counts cycles; we assume that a GPU runs at most this many in a microsecond."""
_LEAST_BATCH_DELAY, _MOST_BATCH_DELAY = (_SLEEP_CYCLES_PER_US * us for us in (4_000, 200_000))
_BUDGET_S = 0.4
"""Rounds end when the interval is narrow enough, or after this long."""
_LEAST_ROUNDS, _MOST_ROUNDS = 6, 40
_FEW_CALLS_ROUNDS = 8
"""Minimum of rounds when a round is a single call."""
_ROUND_MS = 2.0
_MOST_CALLS, _LEAST_CALLS = 20, 5
"""A round has as many calls as fit in `_ROUND_MS`; fewer at a coarser precision, but at least five if they are short."""
_SHARE_CALLS = 5
_RESOLUTION_MS = 1.5e-4
"""A half interval no wider than the resolution of CUDA events is narrow enough."""


class Inputs:
    """The input memory that candidate and reference both read, and the draws it is refreshed from."""

    def __init__(
        self, bound: list[torch.Tensor], audited: list[torch.Tensor], other: list[dict[str, Any]]
    ) -> None:
        """`bound`: the tensors that kernels read; `audited`: one draw of them; `other`: per input a part of a second draw,
        `values`, and its offset `at` (elements from the start of the memory). Neither draw was used before.
        """
        self._bound, self._audited = bound, audited
        self._flat = [(flat(tensor), flat(source)) for tensor, source in zip(bound, audited, strict=True)]
        self._other = other
        self._dice = random.Random(secrets.randbits(64))

    def restore(self) -> None:
        """Set the inputs to the audited draw, unmixed."""
        for tensor, source in zip(self._bound, self._audited, strict=True):
            tensor.copy_(source)

    def freshen(self) -> None:
        """Set values that almost surely differ from those of every earlier call.

        Each floating-point input takes one draw up to a random element and the other from there on, so structure that
        both draws share (a triangle, a range) stays. Integers may depend on each other, so all come from one draw.
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
    """Candidate or reference: one call, and how its memory is prepared before."""

    def __init__(
        self,
        call: Callable[[], object],
        poison: Callable[[], object] = lambda: None,
        steps: Sequence[tuple[bool, Callable[[], object]]] = (),
    ) -> None:
        """`steps` are the parts of the call, each with whether it launches a kernel of the candidate."""
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
    """Times calls on one GPU."""

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

        Rounds end when half a 95 % interval is at most `precision` of its centre; a coarse precision also means fewer
        calls a round.

        A delay keeps the GPU busy while the host enqueues, so for both sides we time the GPU's work and not Python's
        launching. `audit` reads the first side's outputs after one of its calls; `anew` restores all inputs before each
        call, for modules that change them.
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
        """`calls` calls, each after a flush, behind one delay in cycles. The judge times them from outside."""
        torch.cuda._sleep(delay)
        for _ in range(calls):
            self._flush.zero_()
            side.call()

    def batch_delay(self, sides: Sequence[Side], calls: int) -> tuple[int, float]:
        """Cycles enough for the host to enqueue `calls` calls of either side, and the least milliseconds they take."""
        wanted = calls * max(side.delay for side in sides)
        cycles = max(_LEAST_BATCH_DELAY, min(wanted, _MOST_BATCH_DELAY))
        return cycles, cycles / _SLEEP_CYCLES_PER_US / 1e3

    def share(self, side: Side) -> tuple[float, float]:
        """Milliseconds of a call spent in the candidate's kernels, and in all: medians of a few calls."""
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
    """Whether the intervals of the ratio and of the first side's time are both narrow enough."""
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
