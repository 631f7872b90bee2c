"""What each stage of training adds on held-out tasks, over runs with different seeds.

    python benchmarks/stages.py RUN...

Front end over SFT: the difference in the share of correct samples, task by task. Mid-end over front end: the time of each
verified kernel that the mid-end was shown, over that of the kernel it handed on (its own if it was verified and faster, else the
one shown); times are modelled. Intervals are 95 %, by bootstrap over tasks; each seed has its own.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.evaluate import rollouts_of
from kernelwright.metrics import bootstrap_interval, geometric_mean, geometric_mean_interval, mean
from kernelwright.records import Rollout

ByTask = Mapping[str, Sequence[Rollout]]


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval and number of tasks."""

    value: float
    low: float
    high: float
    tasks: int

    def points(self) -> str:
        """As percentage points with a sign."""
        return f"{100 * self.value:+.1f} points [{100 * self.low:+.1f}, {100 * self.high:+.1f}], {self.tasks} tasks"

    def percent(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}], {self.tasks} tasks"


def average(values: Sequence[float]) -> Estimate:
    """The mean of one value per task."""
    return Estimate(mean(values), *bootstrap_interval(values, mean), len(values))


def ratio(groups: Sequence[Sequence[float]]) -> Estimate | None:
    """The geometric mean of all values; intervals resample whole groups, one per task. None without values."""
    values = [value for group in groups for value in group]
    return Estimate(geometric_mean(values), *geometric_mean_interval(groups), len(groups)) if values else None


def as_ratio(found: Estimate | None) -> str:
    if found is None:
        return "nothing to compare"
    return f"{found.value:.3f}x [{found.low:.3f}, {found.high:.3f}], {found.tasks} tasks"


def by_task(run: Path, stage: str) -> ByTask:
    """One stage's evaluation rollouts by task."""
    return rollouts_of(run / "eval" / stage / "rollouts.jsonl")


def correct(rollouts: Sequence[Rollout]) -> float:
    """The share of correct samples."""
    return mean([float(rollout.verdict.correct) for rollout in rollouts])


def times(rollouts: Sequence[Rollout]) -> list[float]:
    """Milliseconds of the correct samples, in the order of the samples."""
    return [r.verdict.timing.candidate_ms for r in rollouts if r.verdict.timing is not None]


def gains(before: ByTask, after: ByTask) -> list[float]:
    """Difference in the share of correct samples, one per task."""
    return [correct(after[task]) - correct(before[task]) for task in before]


def handed_on(given: ByTask, handed: ByTask) -> list[list[float]]:
    """Ratio of the time given to the time handed on, for every correct sample; a list for each task that has one."""
    return [
        [old / new for old, new in zip(times(given[task]), times(handed[task]), strict=True)]
        for task in given
        if times(given[task])
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+", type=Path)
    all_gains: list[float] = []
    all_ratios: list[list[float]] = []
    for run in parser.parse_args().runs:
        sft, front, mid = (by_task(run, stage) for stage in ("sft", "frontend", "midend"))
        gain, faster = gains(sft, front), handed_on(front, mid)
        all_gains += gain
        all_ratios += faster
        print(
            f"{run}: SFT {mean([correct(r) for r in sft.values()]):.1%}, front end "
            f"{mean([correct(r) for r in front.values()]):.1%} ({average(gain).points()}); "
            f"mid-end {as_ratio(ratio(faster))}"
        )
    print(
        f"all: front end over SFT {average(all_gains).points()}; mid-end over front end {as_ratio(ratio(all_ratios))}"
    )


if __name__ == "__main__":
    main()
