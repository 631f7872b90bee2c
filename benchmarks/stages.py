"""What each stage of training adds on held-out tasks, over runs with different seeds.

    python benchmarks/stages.py RUN...

Front end over SFT: the difference in the share of correct samples, task by task. Mid-end over front end: the ratio of
modelled times, of every verified kernel that the mid-end was shown, to what it handed on (its own kernel where that was
verified and faster, else what it was given). Intervals are 95 %, by bootstrap over tasks; every seed has its own.
"""

import argparse
from collections import defaultdict
from pathlib import Path

from kernelwright.metrics import bootstrap_interval, geometric_mean, geometric_mean_interval, mean
from kernelwright.records import Rollout, read_jsonl


def by_task(run: Path, stage: str) -> dict[str, list[Rollout]]:
    """The evaluation's rollouts of one stage."""
    found: dict[str, list[Rollout]] = defaultdict(list)
    for rollout in read_jsonl(run / "eval" / stage / "rollouts.jsonl", Rollout):
        found[rollout.task_id].append(rollout)
    return found


def correct(rollouts: list[Rollout]) -> float:
    return mean([float(rollout.verdict.correct) for rollout in rollouts])


def times(rollouts: list[Rollout]) -> list[float]:
    """Milliseconds of the correct samples, in the order of the samples."""
    return [r.verdict.timing.candidate_ms for r in rollouts if r.verdict.timing is not None]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+", type=Path)
    gains: list[float] = []
    ratios: list[list[float]] = []
    for run in parser.parse_args().runs:
        sft, front, mid = (by_task(run, stage) for stage in ("sft", "frontend", "midend"))
        gain = [correct(front[task]) - correct(sft[task]) for task in sft]
        faster = [
            [given / handed for given, handed in zip(times(front[task]), times(mid[task]), strict=True)]
            for task in front
            if times(front[task])
        ]
        gains += gain
        ratios += faster
        print(
            f"{run}: SFT {mean([correct(r) for r in sft.values()]):.1%}, front end "
            f"{mean([correct(r) for r in front.values()]):.1%} ({_difference(gain)}); mid-end {_ratio(faster)}"
        )
    print(f"all: front end over SFT {_difference(gains)}; mid-end over front end {_ratio(ratios)}")


def _difference(gain: list[float]) -> str:
    low, high = bootstrap_interval(gain, mean)
    return f"{100 * mean(gain):+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}], {len(gain)} tasks"


def _ratio(groups: list[list[float]]) -> str:
    low, high = geometric_mean_interval(groups)
    centre = geometric_mean([value for group in groups for value in group])
    return f"{centre:.3f}x [{low:.3f}, {high:.3f}], {len(groups)} tasks"


if __name__ == "__main__":
    main()
