"""Runs several training steps at once: the next ones are sampled while a step is judged and trained on.

Each step is a generator that yields whenever it waits for verdicts. Steps are advanced in turn, oldest first, so one
step's candidates are judged while others are sampled, turns and refills included. At most `ahead` steps are started
before the one being trained on. The order is fixed, so runs are reproducible. A checkpoint stores what the started
steps have drawn and sampled, since a resumed run has newer weights and could not sample it again; after a resume it
is replayed into the same generators, and judged once more.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from kernelwright.records import Completion
from kernelwright.rollouts import Rolling

T = TypeVar("T")


class Work:
    """What one step has drawn and sampled so far, and what of it is still to be replayed after a resume."""

    def __init__(self, entries: list[dict[str, Any]] | None = None) -> None:
        self.recorded = deque(entries or ())
        self.entries: list[dict[str, Any]] = []
        self.ages: list[tuple[int, int]] = []
        """(samples, the step whose weights wrote them)."""

    def draw(self, fresh: Callable[[], list[int]]) -> list[int]:
        """Indices of the asks of a round: replayed if recorded, else drawn by `fresh`."""
        drawn = self.recorded.popleft()["drawn"] if self.recorded and "drawn" in self.recorded[0] else fresh()
        self.entries.append({"drawn": drawn})
        return list(drawn)

    def say(self, rolling: Rolling, generate: Callable[[], None], now: int) -> None:
        """Replay recorded completions into `rolling`, else `generate` them. `now`: the step of the current weights."""
        entry = self.recorded[0] if self.recorded else {}
        if "said" in entry and {row for row, _, _ in entry["said"]} <= set(range(len(rolling.prompts))):
            self.recorded.popleft()
            now = entry["step"]
            for row, sample, completion in entry["said"]:
                rolling.take(row, sample, Completion.model_validate(completion))
        else:
            self.recorded.clear()
            generate()
        completions = [
            [row, sample, one.model_dump(mode="json")]
            for (row, sample), one in sorted(rolling.completions.items())
        ]
        self.entries.append({"said": completions, "step": now})
        self.ages.append((len(completions), now))

    def age(self, now: int) -> float:
        """Mean number of steps between the weights that sampled this step and those of step `now`."""
        total = sum(count for count, _ in self.ages)
        return sum(count * (now - then) for count, then in self.ages) / total if total else 0.0


@dataclass
class _Going(Generic[T]):
    work: Work
    steps: Generator[None, None, T]
    result: T | None = None

    def on(self) -> None:
        """Run to its next wait, or to its end."""
        try:
            next(self.steps)
        except StopIteration as end:
            self.result = end.value


class Steps(Generic[T]):
    """Starts and finishes steps. `begin(work, step)` makes a step's generator, which returns its result."""

    def __init__(
        self,
        begin: Callable[[Work, int], Generator[None, None, T]],
        *,
        ahead: int,
        last: int,
        saved: Path | None = None,
    ) -> None:
        """`last`: number of the last step. `saved`: a file written by `save`, if there is one."""
        self._begin, self.ahead, self.last = begin, ahead, last
        self.under_way: dict[int, _Going[T]] = {}
        self._recorded: dict[int, list[dict[str, Any]]] = {}
        if saved is not None and saved.exists():
            entries_of = json.loads(saved.read_text(encoding="utf-8"))
            self._recorded = {int(step): entries for step, entries in entries_of.items()}

    def finish(self, step: int) -> tuple[T, Work]:
        """The result of `step` and its record. Also starts up to `ahead` later steps."""
        for number in range(step, min(step + self.ahead, self.last) + 1):
            if number not in self.under_way:
                self._start(number)
        while self.under_way[step].result is None:
            for number in sorted(self.under_way):
                if self.under_way[number].result is None:
                    self.under_way[number].on()
                if self.under_way[step].result is not None:
                    break
        done = self.under_way.pop(step)
        assert done.result is not None
        return done.result, done.work

    def _start(self, number: int) -> None:
        """Start a step and replay it up to where it was saved."""
        work = Work(self._recorded.pop(number, None))
        going = _Going(work, self._begin(work, number))
        self.under_way[number] = going
        going.on()
        while work.recorded and going.result is None:
            going.on()

    def save(self, file: Path) -> None:
        """Save what the started steps have drawn and sampled."""
        if self.under_way:
            entries = {str(step): going.work.entries for step, going in self.under_way.items()}
            file.write_text(json.dumps(entries), encoding="utf-8")
