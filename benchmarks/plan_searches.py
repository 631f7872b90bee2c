"""Searches over a graph's schedules at an equal budget of judged kernels, replayed on a recorded table without judging.

    race = Race(plans, schedules, us, modelled)        one graph: the time of each schedule, None if it failed
    tried = SEARCHES["evolve"](race, 32, random.Random(0))      indices in the order in which they were judged
    best_after(race, tried, 4)                         the best time of the first four, over the best of the table

A search sees the times of what it has judged and the cost model's estimates of everything, and nothing else. The first
schedule of a race is the library's.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Schedule = dict[str, Any]
BUDGETS = (1, 4, 8, 16, 32)
_POPULATION = 6
_MUTATION = 0.25


@dataclass(frozen=True)
class Race:
    """A graph's schedules with their times in microseconds; None: it was rejected, or does not fit the target."""

    name: str
    plans: Sequence[str]
    schedules: Sequence[Schedule]
    us: Sequence[float | None]
    modelled: Sequence[float]
    """The cost model's estimates; infinite if it refuses a schedule."""
    sampled: Sequence[Sequence[str]] = field(default=())
    """Plans that a policy sampled for the graph, a row per seed."""

    @property
    def best_us(self) -> float:
        return min(one for one in self.us if one is not None)

    def time(self, index: int) -> float:
        """The time that a judge would report: infinite for a kernel that fails or is not in the table."""
        found = self.us[index] if index >= 0 else None
        return math.inf if found is None else found


Search = Callable[[Race, int, random.Random], list[int]]


def best_after(race: Race, tried: Sequence[int], budget: int) -> float:
    """The best of the first `budget` times over the table's best, at least 1.0; infinite if none ran."""
    return min((race.time(index) for index in tried[:budget]), default=math.inf) / race.best_us


def at_random(race: Race, budget: int, chance: random.Random) -> list[int]:
    """Legal schedules in random order."""
    return chance.sample(range(len(race.us)), min(budget, len(race.us)))


def ranked(race: Race, budget: int, chance: random.Random) -> list[int]:
    """Twice as many random legal schedules as the budget, of which the cost model's favourites are judged."""
    drawn = at_random(race, 2 * budget, chance)
    return sorted(drawn, key=lambda index: race.modelled[index])[:budget]


def model_first(race: Race, budget: int, chance: random.Random) -> list[int]:
    """All legal schedules in the order of the cost model."""
    order = at_random(race, len(race.us), chance)
    return sorted(order, key=lambda index: race.modelled[index])[:budget]


def tune(race: Race, budget: int, chance: random.Random) -> list[int]:
    """From the library's schedule: repeatedly judge the untried one nearest to the best so far."""
    tried, best = [0], 0
    while len(tried) < min(budget, len(race.us)):
        untried = at_random(race, len(race.us), chance)
        untried = [index for index in untried if index not in tried]
        step = min(untried, key=lambda index: distance(race.schedules[best], race.schedules[index]))
        tried.append(step)
        if race.time(step) < race.time(best):
            best = step
    return tried


def evolve(race: Race, budget: int, chance: random.Random) -> list[int]:
    """Crossover of two good schedules' decisions, some of them mutated at random; the nearest legal one is judged."""
    tried = [0, *(one for one in at_random(race, _POPULATION, chance) if one)][: min(budget, _POPULATION)]
    while len(tried) < min(budget, len(race.us)):
        ranked_so_far = sorted(tried, key=race.time)[:_POPULATION]
        first, second = chance.choice(ranked_so_far), chance.choice(ranked_so_far)
        child = dict(race.schedules[first])
        for name in child:
            if name in race.schedules[second] and chance.random() < 0.5:
                child[name] = race.schedules[second][name]
            if chance.random() < _MUTATION:
                other = race.schedules[chance.randrange(len(race.us))]
                child[name] = other.get(name, child[name])
        untried = [index for index in at_random(race, len(race.us), chance) if index not in tried]
        tried.append(min(untried, key=lambda index: distance(child, race.schedules[index])))
    return tried


def policy(race: Race, budget: int, chance: random.Random) -> list[int]:
    """Plans that a policy sampled, in order; repeated plans are judged once, and plans not in the table count as failed."""
    rows = race.sampled
    plans = rows[chance.randrange(len(rows))] if rows else ()
    places = {plan: index for index, plan in enumerate(race.plans)}
    return [places.get(plan, -1) for plan in dict.fromkeys(plans)][:budget]


SEARCHES: dict[str, Search] = {
    "random": at_random,
    "random, ranked by the cost model": ranked,
    "cost model alone": model_first,
    "tune from the library's": tune,
    "evolution": evolve,
    "policy": policy,
}


def distance(one: Schedule, other: Schedule) -> float:
    """Number of differing decisions, sizes in doublings; another nest is far away."""
    if one.get("nest") != other.get("nest"):
        return 100.0
    return sum(_apart(one[name], other.get(name)) for name in one)


def _apart(one: Any, other: Any) -> float:
    if one == other:
        return 0.0
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return sum(_apart(a, b) for a, b in zip(one, other, strict=False))
    numbers = isinstance(one, int) and isinstance(other, int) and not isinstance(one, bool)
    return min(2.0, 0.5 * abs(math.log2(max(one, 1) / max(other, 1)))) if numbers else 1.0
