"""Chooses what a step asks: shuffled, by difficulty or by success rate, over a mixture of families.

A draw depends only on the seed, the step and the rollouts of earlier steps. A resumed run reads those from its log and
asks what the uninterrupted run would have asked.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from kernelwright.errors import UserError
from kernelwright.records import Rollout
from kernelwright.train.prompts import Ask

Kind = Literal["shuffle", "difficulty", "success"]
FLOOR = 0.1
"""Weight of a task that always or never succeeds, relative to 1 at a success rate of one half; above 0, so none is dropped."""


class Curriculum:
    """Draws the asks of each step. `shuffle` without weights goes through all asks in random order, then again in another.

    Otherwise a step's asks are drawn at random without repeats (unless there are too few), weighted by their family's
    weight. `success` also weights by 4 p (1 - p) with p = (successes + 1) / (samples + 2) so far. `difficulty` starts
    with the easiest quarter and reaches all asks at half of `steps`. `difficulties` gives each band its share, such as
    `{"1": 0.6, "2-4": 0.3, "5+": 0.1}`; each draw first picks a band.
    """

    def __init__(
        self,
        asks: Sequence[Ask],
        seed: int,
        *,
        kind: Kind = "shuffle",
        weights: Mapping[str, float] | None = None,
        difficulties: Mapping[str, float] | None = None,
        steps: int = 1,
    ) -> None:
        """Raises UserError if weights or difficulties leave nothing to ask."""
        assert asks
        self.asks, self.seed, self.kind, self.steps = list(asks), seed, kind, steps
        self._families = [(weights or {}).get(ask.task.family, 1.0) for ask in asks]
        self._bands = [
            (share, [i for i, ask in enumerate(asks) if _within(ask.task.difficulty, band)])
            for band, share in (difficulties or {"0+": 1.0}).items()
            if share
        ]
        self._mixed = bool(weights or difficulties) or kind != "shuffle"
        self._seen: dict[str, tuple[int, int]] = {}
        self._ordered = sorted(range(len(asks)), key=lambda i: (asks[i].task.difficulty, i))
        if not any(self._families):
            families = ", ".join(sorted({ask.task.family or "(none)" for ask in asks}))
            raise UserError(f"weights are 0 for every family ({families}); raise one")
        if not self._bands or not all(any(self._families[i] for i in band) for _, band in self._bands):
            there = ", ".join(str(each) for each in sorted({ask.task.difficulty for ask in asks}))
            raise UserError(f"difficulties names some that no task has (tasks have {there}); leave them out")

    def observe(self, rollouts: Iterable[Rollout]) -> None:
        """Count successes. Rollouts without a fair verdict are ignored."""
        for rollout in rollouts:
            if rollout.verdict.outcome.judged:
                good, seen = self._seen.get(rollout.task_id, (0, 0))
                self._seen[rollout.task_id] = good + rollout.verdict.correct, seen + 1

    def success(self, ask: Ask) -> float:
        """Estimated success rate of the ask's task; one half if it was never asked."""
        good, seen = self._seen.get(ask.task.id, (0, 0))
        return (good + 1) / (seen + 2)

    def draw(self, step: int, count: int) -> list[Ask]:
        """The `count` asks of step `step` (from 0)."""
        if self._mixed:
            return self._sample(step, count, random.Random(f"{self.seed}/mixed/{step}"))
        return [self._at(step * count + i) for i in range(count)]

    def more(self, step: int, again: int, count: int) -> list[Ask]:
        """Other asks of a step, to replace those that taught nothing, in round `again` (from 1)."""
        return self._sample(step, count, random.Random(f"{self.seed}/{step}/more/{again}"))

    def _sample(self, step: int, count: int, chance: random.Random) -> list[Ask]:
        """Weighted sampling without repeats: the largest u ** (1 / weight) (Efraimidis and Spirakis 2006)."""
        weights = self._weights(step)
        keys = [math.log(1.0 - chance.random()) / weight if weight > 0 else -math.inf for weight in weights]
        orders = [
            sorted((i for i in band if keys[i] > -math.inf), key=lambda i: keys[i], reverse=True)
            for _, band in self._bands
        ]
        shares = [share for share, _ in self._bands]
        chosen = chance.choices(range(len(shares)), shares, k=count) if len(shares) > 1 else [0] * count
        counts: Counter[int] = Counter()
        drawn = []
        for band in chosen:
            drawn.append(self.asks[orders[band][counts[band] % len(orders[band])]])
            counts[band] += 1
        return drawn

    def drawn(self, task_ids: Iterable[str]) -> dict[str, dict[str, int]]:
        """How often each family and difficulty was asked, given the task ids of the asks."""
        tasks = {ask.task.id: ask.task for ask in self.asks}
        known = [tasks[task_id] for task_id in task_ids if task_id in tasks]
        return {
            "family": dict(sorted(Counter(task.family for task in known).items())),
            "difficulty": {str(k): n for k, n in sorted(Counter(task.difficulty for task in known).items())},
        }

    def _weights(self, step: int) -> list[float]:
        weights = list(self._families)
        if self.kind == "success":
            for i, ask in enumerate(self.asks):
                p = self.success(ask)
                weights[i] *= FLOOR + (1 - FLOOR) * 4 * p * (1 - p)
        if self.kind == "difficulty":
            hardest = self._hardest(step)
            kept = [
                w if a.task.difficulty <= hardest else 0.0 for w, a in zip(weights, self.asks, strict=True)
            ]
            weights = kept if any(kept) else weights
        return weights

    def _hardest(self, step: int) -> int:
        """The greatest difficulty that step `step` may ask: that of the last ask in its share of the ordered asks."""
        share = min(1.0, 0.25 + 0.75 * step / max(1.0, self.steps / 2))
        last = self._ordered[math.ceil(share * len(self._ordered)) - 1]
        return self.asks[last].task.difficulty

    def _at(self, position: int) -> Ask:
        round_, place = divmod(position, len(self.asks))
        order = list(range(len(self.asks)))
        random.Random(f"{self.seed}/{round_}").shuffle(order)
        return self.asks[order[place]]


def _within(difficulty: int, band: str) -> bool:
    """Whether a difficulty is in a band: `3`, `2-4` or `5+`."""
    low, dash, high = band.rstrip("+").partition("-")
    if band.endswith("+"):
        return difficulty >= int(low)
    return int(low) <= difficulty <= int(high if dash else low)
