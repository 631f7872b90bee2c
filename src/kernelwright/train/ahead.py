"""Steps that are under way at once: the next ones are written while a step is judged and learned from.

Each step is a generator that stops wherever it waits for verdicts. They are taken in turn, oldest first, so that what
one is waiting for is judged while the others are written, turns and refills included; at most `ahead` steps are
begun before the one that is learned from. The order is fixed, so a run is the same again. What steps that are ahead
have said and drawn belongs to a checkpoint, for a resumed run could not write it again: its weights are newer. There
it is told to the same generator again, which has it judged once more.
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
    """What one step has drawn and said so far, and what of it is still to be told again after a resume."""

    def __init__(self, told: list[dict[str, Any]] | None = None) -> None:
        self.told = deque(told or ())
        self.entries: list[dict[str, Any]] = []
        self.ages: list[tuple[int, int]] = []
        """(samples, the step whose weights wrote them)."""

    def draw(self, fresh: Callable[[], list[int]]) -> list[int]:
        """Numbers of the asks of a round: as they were drawn before, else by `fresh`."""
        drawn = self.told.popleft()["drawn"] if self.told and "drawn" in self.told[0] else fresh()
        self.entries.append({"drawn": drawn})
        return list(drawn)

    def say(self, rolling: Rolling, generate: Callable[[], None], now: int) -> None:
        """Have `rolling` take what was said before, else `generate`. `now` is the step of the weights."""
        entry = self.told[0] if self.told else {}
        if "said" in entry and {row for row, _, _ in entry["said"]} <= set(range(len(rolling.prompts))):
            self.told.popleft()
            now = entry["step"]
            for row, sample, completion in entry["said"]:
                rolling.take(row, sample, Completion.model_validate(completion))
        else:
            self.told.clear()
            generate()
        said = [
            [row, sample, one.model_dump(mode="json")]
            for (row, sample), one in sorted(rolling.completions.items())
        ]
        self.entries.append({"said": said, "step": now})
        self.ages.append((len(said), now))

    def age(self, now: int) -> float:
        """Mean number of steps between the weights that wrote its samples and those of `now`."""
        total = sum(count for count, _ in self.ages)
        return sum(count * (now - then) for count, then in self.ages) / total if total else 0.0


@dataclass
class _Going(Generic[T]):
    work: Work
    steps: Generator[None, None, T]
    result: T | None = None

    def on(self) -> None:
        """To where it next waits, or to its end."""
        try:
            next(self.steps)
        except StopIteration as end:
            self.result = end.value


class Steps(Generic[T]):
    """Begins steps and finishes them. `begin(work, step)` makes a step's generator, which returns its result."""

    def __init__(
        self,
        begin: Callable[[Work, int], Generator[None, None, T]],
        *,
        ahead: int,
        last: int,
        saved: Path | None = None,
    ) -> None:
        """`last` is the last step there is; `saved` a file of `save`, if there is one."""
        self._begin, self.ahead, self.last = begin, ahead, last
        self.under_way: dict[int, _Going[T]] = {}
        self._told: dict[int, list[dict[str, Any]]] = {}
        if saved is not None and saved.exists():
            told = json.loads(saved.read_text(encoding="utf-8"))
            self._told = {int(step): entries for step, entries in told.items()}

    def finish(self, step: int) -> tuple[T, Work]:
        """The result of `step`, and its record; the steps after it are begun."""
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
        """Begin a step, and take it to where it was when it was saved."""
        work = Work(self._told.pop(number, None))
        going = _Going(work, self._begin(work, number))
        self.under_way[number] = going
        going.on()
        while work.told and going.result is None:
            going.on()

    def save(self, file: Path) -> None:
        """Keep what the steps that are under way have said."""
        if self.under_way:
            told = {str(step): going.work.entries for step, going in self.under_way.items()}
            file.write_text(json.dumps(told), encoding="utf-8")
