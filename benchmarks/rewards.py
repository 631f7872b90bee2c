"""Rewards side by side: the same weights after SFT, the same tasks and seeds, only what a token is paid differs.

    python benchmarks/rewards.py OUT [KEY=VALUE]... [--seeds 0 1 2 | --from RUN...] [--rewards NAME...] [--recipe FILE]
        [--report]

`hierarchical` pays plan tokens for speed and code tokens for correctness (`wright`, segments apart); `uniform` pays every
token the sum of the same two numbers; `toronto` is that report's reward, one number, with its advantage r - mean(r) but
not its rates; `tritonrl` its own two numbers with alpha 0.1; `autotriton` correctness only. Of a seed, data and SFT are
made once, or taken from whole runs of the recipe (`--from`), whose seeds these then are. KEY=VALUE are settings of the
recipe, for every run. What is done is passed over, so the same command goes on; `--report` only reads. Writes
OUT/rewards.json; what is not done is left out and named.

A difference between two rewards is taken task by task, and so is its 95 % interval (bootstrap over tasks). Intervals
say nothing of another training run with the same reward: see how far the seeds are apart for that.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages import ByTask, Estimate, as_ratio, average, by_task, correct, gains, handed_on, ratio, times

from kernelwright.metrics import geometric_mean, mean
from kernelwright.records import Rollout
from kernelwright.runs import RunFolder

RECIPE = Path(__file__).parents[1] / "recipes" / "laptop.toml"
STAGES = ("frontend", "midend")
SEEDS, COMPARED = (0, 1, 2), ("hierarchical", "uniform", "toronto")
REWARDS: dict[str, tuple[str, ...]] = {
    "hierarchical": ("reward=wright", "credit=hierarchical"),
    "uniform": ("reward=wright", "credit=uniform"),
    "toronto": ("reward=toronto-{stage}", "credit=uniform", "scale=none"),
    "tritonrl": ("reward=tritonrl", "credit=hierarchical", "alpha=0.1"),
    "autotriton": ("reward=autotriton", "credit=uniform"),
}
"""What each changes in both stages' tables."""


def train(recipe: Path, out: Path, settings: Sequence[str]) -> None:
    """One run with its evaluations, or the rest of it. Its progress goes to stderr; exits where it fails."""
    command = [sys.executable, "-m", "kernelwright", "train", str(recipe), *settings]
    made = subprocess.run([*command, "--out", str(out), "--resume"], stdout=sys.stderr, check=False)
    if made.returncode:
        sys.exit(f"exit code {made.returncode}: {' '.join(command)}")


def start(recipe: Path, out: Path, seed: int, settings: Sequence[str]) -> Path:
    """Data and SFT of a seed, which all its rewards share."""
    if not RunFolder(out).done("eval/sft"):
        train(recipe, out, [*settings, f"seed={seed}", 'stages=["sft"]'])
    return out


def reinforce(recipe: Path, out: Path, seed: int, name: str, shared: Path, settings: Sequence[str]) -> None:
    """Both stages with one reward, from the data and SFT of the run `shared`."""
    if RunFolder(out).done("eval/midend"):
        return
    data = [f'data.{kind}="{shared}/data/{kind}.jsonl"' for kind in ("examples", "tasks")]
    base = ['model.init="pretrained"', f'model.base="{shared}/stages/sft/checkpoint"']
    changed = [f"{stage}.{setting.format(stage=stage)}" for stage in STAGES for setting in REWARDS[name]]
    train(recipe, out, [*settings, f"seed={seed}", 'stages=["frontend", "midend"]', *data, *base, *changed])


def config(run: Path) -> dict[str, Any]:
    """The recipe of a run. Exits where there is no run."""
    return RunFolder(run).read_json("config.json") or sys.exit(f"{run} holds no run")


@dataclasses.dataclass(frozen=True)
class Run:
    """The evaluations of one seed and reward."""

    sft: ByTask
    front: ByTask
    mid: ByTask | None
    """None where the mid-end is still to be trained or evaluated."""


def read(out: Path) -> Run | None:
    """None where not even the front end is done."""
    if not (out.is_dir() and (run := RunFolder(out)).done("eval/frontend")):
        return None
    shared = Path(config(out)["model"]["base"]).parents[2]
    mid = by_task(out, "midend") if run.done("eval/midend") else None
    return Run(by_task(shared, "sft"), by_task(out, "frontend"), mid)


def fast(rollouts: Sequence[Rollout]) -> float:
    """The share of samples that are correct and faster than eager (fast_1)."""
    return mean([float((rollout.verdict.speedup() or 0.0) > 1.0) for rollout in rollouts])


def alone(runs: Sequence[Run]) -> dict[str, Estimate | None]:
    """What one reward reached, over the tasks of all `runs`; the last two of those whose mid-end is done."""
    whole = [(run.front, run.mid) for run in runs if run.mid is not None]
    return {
        "correct": average([correct(r) for run in runs for r in run.front.values()]),
        "over_sft": average([gain for run in runs for gain in gains(run.sft, run.front)]),
        "midend_gain": ratio([group for front, mid in whole for group in handed_on(front, mid)]),
        "fast_1": average([fast(r) for _, mid in whole for r in mid.values()]) if whole else None,
    }


def between(pairs: Sequence[tuple[Run, Run]]) -> dict[str, Estimate | None]:
    """The first reward against the second, task by task, over all `pairs`: each is one seed's.

    `speed` is over tasks that both solve, after the mid-end: the second's modelled time over the first's.
    """
    whole = [(one.mid, two.mid) for one, two in pairs if one.mid is not None and two.mid is not None]
    speeds = [
        [geometric_mean(times(two[task])) / geometric_mean(times(one[task]))]
        for one, two in whole
        for task in one
        if times(one[task]) and times(two[task])
    ]
    faster = [fast(one[task]) - fast(two[task]) for one, two in whole for task in one]
    return {
        "correct": average([gain for one, two in pairs for gain in gains(two.front, one.front)]),
        "fast_1": average(faster) if faster else None,
        "speed": ratio(speeds),
    }


def table(seeds: dict[int, dict[str, Run]]) -> dict[str, Any]:
    """Every reward alone and every pair of them, over the seeds that both have."""
    names = list(dict.fromkeys(name for runs in seeds.values() for name in runs))
    pairs = {
        (one, two): [(runs[one], runs[two]) for runs in seeds.values() if one in runs and two in runs]
        for one, two in itertools.combinations(names, 2)
    }
    return {
        "seeds": {name: [seed for seed, runs in seeds.items() if name in runs] for name in names},
        "alone": {name: alone([runs[name] for runs in seeds.values() if name in runs]) for name in names},
        "between": {f"{one} - {two}": between(found) for (one, two), found in pairs.items() if found},
    }


def show(title: str, found: dict[str, Any]) -> None:
    print(f"\n{title}")
    for name, row in found["alone"].items():
        print(
            f"  {name} (seeds {', '.join(map(str, found['seeds'][name]))}): front end {row['correct'].percent()}; "
            f"over SFT {row['over_sft'].points()}; "
            + (
                f"mid-end {as_ratio(row['midend_gain'])}; then fast_1 {row['fast_1'].percent()}"
                if row["fast_1"]
                else "mid-end not done"
            )
        )
    for name, row in found["between"].items():
        print(
            f"  {name}: correct {row['correct'].points()}"
            + (f"; fast_1 {row['fast_1'].points()}; speed {as_ratio(row['speed'])}" if row["fast_1"] else "")
        )


def plain(found: Any) -> Any:
    """Estimates as tables, for JSON."""
    if isinstance(found, Estimate):
        return dataclasses.asdict(found)
    return {key: plain(value) for key, value in found.items()} if isinstance(found, dict) else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--rewards", nargs="+", default=COMPARED, choices=REWARDS)
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument(
        "--from", dest="start", type=Path, nargs="+", default=[], metavar="RUN", help="in place of --seeds"
    )
    parser.add_argument("--report", action="store_true", help="train nothing")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    asked = parser.parse_intermixed_args()
    out = asked.out.resolve()
    given = {config(run)["seed"]: run.resolve() for run in asked.start}
    seeds = list(given or asked.seeds)
    if not asked.report:
        for seed in seeds:
            home = out / f"seed-{seed}"
            shared = given.get(seed) or start(asked.recipe, home / "sft", seed, asked.settings)
            for name in asked.rewards:
                reinforce(asked.recipe, home / name, seed, name, shared, asked.settings)
    done = {
        seed: {name: run for name in asked.rewards if (run := read(out / f"seed-{seed}" / name))}
        for seed in seeds
    }
    left = [
        f"{name} of seed {seed}"
        for seed, runs in done.items()
        for name in asked.rewards
        if name not in runs or runs[name].mid is None
    ]
    if left:
        print(f"not done, or not to the end: {', '.join(left)}")
    done = {seed: runs for seed, runs in done.items() if runs}
    tables = {f"seed {seed}": table({seed: runs}) for seed, runs in done.items()} | {"all": table(done)}
    for title, found in tables.items():
        show(title, found)
    RunFolder(out).write_json("rewards.json", plain(tables))


if __name__ == "__main__":
    main()
