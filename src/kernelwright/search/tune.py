"""The last rung: the library's schedules of the graph, the predicted fastest first; then hill climbing over the knobs of
the best kernel so far. Every variant is judged like any other candidate.

A step changes one knob up or down, or a block size together with the warps that work on it. Steps are tried a few at a
time; once one is faster, climbing continues from there, first in the same direction. If no step is faster, it continues
from the fastest variants close to the top, since a better tile is often two steps away and the first of them slightly
slower (a product's 128 x 64 x 32 to 128 x 128 x 64). Ends when a few of those lead nowhere, or with the budget.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kernelwright.graph import Graph
from kernelwright.records import Candidate, Timing, Verdict
from kernelwright.rollouts import faster
from kernelwright.search.cache import Answer, Rung, faster_of
from kernelwright.search.knobs import STAGES, WARPS, Knob, knobs, neighbours, set_knobs
from kernelwright.search.rung import CannotWrite, Climb
from kernelwright.synth.library import schedules_of
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import Program
from kernelwright.synth.ranking import rank_schedules
from kernelwright.synth.to_triton import print_triton

_SCHEDULES = 12
"""Schedules of the library to try: the fastest of these was within a few per cent of the fastest of all (docs/runs/ranking.md)."""
_DEAD_BAND = 0.01
"""Smallest relative gain in modelled time that counts."""
_ASIDE = 3
"""Most variants close to the top to continue from in a row."""
_SLACK = 1.1
"""How much slower than the top those may be. One that is exactly as fast is skipped: its knob does not matter."""
Values = Mapping[str, int]


class Judged(Protocol):
    """A kernel with its verdict, such as a rollout."""

    @property
    def candidate(self) -> Candidate: ...

    @property
    def verdict(self) -> Verdict: ...


J = TypeVar("J", bound=Judged)


@dataclass(frozen=True)
class Variant:
    """A kernel with its verdict."""

    candidate: Candidate
    verdict: Verdict


class TuneRung:
    """Tries schedules, then climbs from the best verified kernel."""

    name: Rung = "tune"

    def __init__(self, target: str = "h200", precision: str = "ieee", at_once: int = 4) -> None:
        self.target, self.precision, self.at_once = target, precision, at_once

    def climb(self, climb: Climb) -> None:
        best = self._of_the_library(climb) or climb.best
        if best is None:
            raise CannotWrite("there is no verified kernel to tune")

        def judge(variants: Sequence[Candidate]) -> list[Variant]:
            verdicts = climb.judge([one.code for one in variants]) if climb.left > 0 else []
            return [Variant(one, v) for one, v in zip(variants, verdicts, strict=False) if v is not None]

        first = Variant(Candidate(code=best.code), best.verdict)
        if not knobs(best.code, _launch_options(first)):
            raise CannotWrite("the kernel has no block size, warps or stages that can be changed")
        tune(first, judge, self.at_once)

    def _of_the_library(self, climb: Climb) -> Answer | None:
        """The fastest of the most promising library schedules and the best known kernel; None if there is none."""
        best = climb.best
        texts = itertools.islice(print_kernels(climb.graph, self.target, self.precision), _SCHEDULES)
        while climb.left > 0 and (some := list(itertools.islice(texts, self.at_once))):
            for code, verdict in zip(some, climb.judge(some), strict=True):
                if verdict is not None and verdict.correct:
                    made = Answer(graph=climb.graph.digest, rung="tune", code=code, verdict=verdict)
                    best = faster_of(best, made)
        return best


def print_kernels(graph: Graph, target: str, precision: str) -> Iterator[str]:
    """The library's kernels for a graph, the predicted fastest first; none if no nest fits."""
    try:
        schedules = schedules_of(graph, target, precision)
        ordered = rank_schedules(graph, schedules, target) if schedules else []
    except Unsupported:
        return
    for schedule in ordered:
        with contextlib.suppress(Unsupported):
            yield print_triton(Program(graph=graph, schedule=schedule))


def tune(best: J, judge: Callable[[Sequence[Candidate]], list[J]], at_once: int = 4) -> J:
    """The fastest variant of `best` that climbing finds; `best` itself if none is faster or it is untimed.

    `judge` returns the variants that it judged, none once the budget is spent.
    """
    base = best.candidate.code
    launched = _launch_options(best)
    found = knobs(base, launched)
    if not found or best.verdict.timing is None:
        return best
    here: Values = {knob.name: knob.value for knob in found}
    tried, towards = {_key(here)}, ""
    queue: list[tuple[float, Values]] = []  # correct variants that are not the top, to continue from
    aside = 0
    while aside <= _ASIDE:
        climbed = False
        steps = [step for step in _around(found, here) if _key(step[1]) not in tried]
        steps.sort(key=lambda step: step[0] != towards)
        for start in range(0, len(steps), at_once):
            some = {_plan(found, values): (move, values) for move, values in steps[start : start + at_once]}
            tried |= {_key(values) for _, values in some.values()}
            judged = judge([_variant(base, found, values, launched) for _, values in some.values()])
            if not judged:
                return best
            right = sorted((r for r in judged if r.verdict.correct), key=milliseconds)
            climbed = bool(right) and worth_it(right[0].verdict.timing, best.verdict.timing)
            queue += [(milliseconds(r), some[r.candidate.plan][1]) for r in right[climbed:]]
            if climbed:
                best, (towards, here), aside = right[0], some[right[0].candidate.plan], 0
                break
        if not climbed:
            top = milliseconds(best)
            queue = sorted((one for one in queue if abs(one[0] - top) > 1e-3 * top), key=lambda one: one[0])
            if not queue or queue[0][0] > _SLACK * top:
                break
            (_, here), towards, aside = queue.pop(0), "", aside + 1
    return best


def worth_it(new: Timing | None, old: Timing | None) -> bool:
    """Whether `new` is faster; in modelled times by more than the model can resolve, so that climbing does not follow rounding."""
    if new is None or old is None or not faster(new, old):
        return False
    return new.kind == "measured" or new.candidate_ms < (1 - _DEAD_BAND) * old.candidate_ms


def milliseconds(rollout: Judged) -> float:
    """Time of a verified kernel; infinite if untimed."""
    timing = rollout.verdict.timing
    return float("inf") if timing is None else timing.candidate_ms


def _around(found: Sequence[Knob], here: Values) -> Iterator[tuple[str, dict[str, int]]]:
    """(direction, values) one step away."""
    blocks = [knob for knob in found if knob.kind == "block"]
    for knob in found:
        for value in neighbours(knob.kind, here[knob.name]):
            yield _towards((knob.name,), value > here[knob.name]), {**here, knob.name: value}
    for block in blocks:
        for warps in (knob for knob in found if knob.kind == WARPS):
            for size in neighbours("block", here[block.name]):
                for count in neighbours(WARPS, here[warps.name]):
                    up = size > here[block.name]
                    if up == (count > here[warps.name]):
                        names = (block.name, warps.name)
                        yield _towards(names, up), {**here, block.name: size, warps.name: count}


def _towards(names: tuple[str, ...], up: bool) -> str:
    return f"{'+' if up else '-'} {' '.join(names)}"


def _launch_options(rollout: Judged) -> dict[str, dict[str, int]]:
    """Options that each kernel was launched with, if all its launches agree."""
    seen: dict[str, set[tuple[int, int]]] = {}
    for launch in rollout.verdict.evidence.launches:
        seen.setdefault(launch.kernel, set()).add((launch.num_warps, launch.num_stages))
    return {
        kernel: {WARPS: warps, STAGES: stages}
        for kernel, options in seen.items()
        if len(options) == 1
        for warps, stages in options
    }


def _variant(
    base: str, found: Sequence[Knob], values: Values, launched: Mapping[str, Mapping[str, int]]
) -> Candidate:
    code = set_knobs(base, _changes(found, values), launched)
    return Candidate(plan=_plan(found, values), code=code)


def _plan(found: Sequence[Knob], values: Values) -> str:
    """Identifies a variant of the kernel by its changed knobs."""
    changed = _changes(found, values).items()
    return ", ".join(f"{name} = {value}" for name, value in changed) or "as it was"


def _changes(found: Sequence[Knob], values: Values) -> dict[str, int]:
    return {knob.name: values[knob.name] for knob in found if values[knob.name] != knob.value}


def _key(values: Values) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(values.items()))
