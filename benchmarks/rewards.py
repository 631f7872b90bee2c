"""Compares rewards, and what else a recipe decides: the same tasks and seeds, the same weights after SFT unless SFT itself differs.

    python benchmarks/rewards.py OUT [KEY=VALUE]... [--seeds 0,1,2] [--rewards NAME,...] [--recipe FILE] [--jobs N] [--seconds S]
        [--report]

`hierarchical` rewards plan tokens for speed and code tokens for correctness (`wright`, separate segments); `uniform` gives every
token the sum of the two; `code` rewards code only; `flat` has no rules: all failures get the same. `one` is
`hierarchical` as a single stage with the steps of both; `plan` asks only for plans from the start, and the printer writes the code.
`toronto` is that report's reward, one number, with its advantage r - mean(r) but not its rates; `toronto-0` is the same with 0 instead
of -10 for a failure; `tritonrl` has its own two numbers with alpha 0.1; `autotriton` rewards correctness only. `plan-thought`, `plan-blind`, `plan-known` and `plan-lora-R` are `plan` with one change:
reasons before the plan; prompts without the profile of the kernel to improve; prompts with two other kernels of the graph and
their times in reinforcement (`midend.contrast`, of what `plan` judged with the same seed, for which it waits); adapters of rank R instead of all weights, after the same SFT. If `verify.archive` names
an archive, its verdicts are replayed (`kernelwright archive add ARCHIVE OUT/seed-*/*`); `verify.recorded="modelled"` judges nothing else.

All seeds share the first one's corpus, and all rewards of a seed its SFT (except those of plans, which share another, and those that
change it). N runs train at once,
each with its own `verify.workers` workers; its output is in OUT/seed-S/NAME.log. KEY=VALUE are recipe settings for every
run. After S seconds, unfinished runs are stopped. The same command resumes, skipping finished work; `--report` only
reads. OUT/rewards.json is rewritten whenever a run ends; unfinished runs are left out and named.

A run takes about 400 CPU seconds on a server core, 900 on a loaded laptop's.

A difference between two rewards is computed task by task, with a 95 % interval (bootstrap over tasks). Intervals
do not cover variation between training runs with the same reward: compare the seeds for that.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from stages import ByTask, Estimate, as_ratio, average, by_task, correct, gains, handed_on, ratio, times

from kernelwright.config import Recipe, load_recipe
from kernelwright.metrics import geometric_mean, mean
from kernelwright.records import Rollout
from kernelwright.runs import RunFolder

RECIPE = Path(__file__).parents[1] / "recipes" / "laptop.toml"
PAID = Path(__file__).with_name("paid.py").resolve()
STAGES = ("frontend", "midend")
SEEDS = (0, 1, 2)
FAREWELL_S = 20.0
_PLAN = ("reward=wright", "credit=hierarchical", "answer=plan", "judge=model")
REWARDS: dict[str, tuple[str, ...]] = {
    "hierarchical": ("reward=wright", "credit=hierarchical"),
    "uniform": ("reward=wright", "credit=uniform", "grouping=samples"),
    "code": ("reward=wright", "credit=hierarchical", "alpha=0.0"),
    "flat": (f"reward={PAID}:wright", "credit=hierarchical"),
    "one": ("reward=wright", "credit=hierarchical"),
    "plan": _PLAN,
    "plan-thought": (*_PLAN, "max_tokens=400"),
    "plan-blind": _PLAN,
    "plan-known": (*_PLAN, "contrast=2"),
    "plan-lora-4": _PLAN,
    "plan-lora-16": _PLAN,
    "plan-lora-64": _PLAN,
    "toronto": ("reward=toronto-{stage}", "credit=uniform", "grouping=samples", "scale=none"),
    "toronto-0": (f"reward={PAID}:toronto_{{stage}}", "credit=uniform", "grouping=samples", "scale=none"),
    "tritonrl": ("reward=tritonrl", "credit=hierarchical", "alpha=0.1"),
    "autotriton": ("reward=autotriton", "credit=uniform", "grouping=samples"),
}
"""Settings that each reward changes in both stages' tables."""
COMPARED = ("hierarchical", "uniform", "code", "flat", "one", "plan", "toronto", "toronto-0")
_OF_SFT: dict[str, tuple[str, ...]] = {
    "plan-thought": ("data.think=true",),
    "plan-blind": ("data.profile=false",),
}
"""Settings of those rewards that have an SFT of their own, for all stages."""
_FULL = ("frontend.judge=interpret", "frontend.judged=1.0")
"""Every sample is judged, since rewards depend on time."""


class Runs:
    """Training runs as processes, several at once, until time is up. Thread-safe."""

    def __init__(self, recipe: Path, settings: Sequence[str], seconds: float) -> None:
        """`seconds` 0: no limit."""
        self.recipe, self.settings = recipe, settings
        self._end = time.monotonic() + seconds if seconds else None
        self._lock = threading.Lock()

    def train(self, out: Path, settings: Sequence[str]) -> bool:
        """Start or resume one run with its evaluations; False if it failed or was stopped. Its own settings take precedence."""
        seconds = None if self._end is None else self._end - time.monotonic()
        if seconds is not None and seconds <= 0:
            return False
        out.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "kernelwright", "train", str(self.recipe), *self.settings, *settings]
        with (out.parent / f"{out.name}.log").open("a") as log:
            made = subprocess.Popen(
                [*command, "--out", str(out), "--resume"], stdout=log, stderr=log, start_new_session=True
            )
            try:
                failed = made.wait(seconds)
            except subprocess.TimeoutExpired:
                return self._stop(made)
        if failed:
            self.say(f"{out}: exit code {failed}, see {out.name}.log")
        return not failed

    def _stop(self, process: subprocess.Popen[bytes]) -> bool:
        """Interrupt like Ctrl-C, so that the run can be resumed; its last checkpoint is complete in any case."""
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return False

    def say(self, line: str) -> None:
        with self._lock:
            print(line, flush=True)


def make_data(recipe: Recipe, out: Path, jobs: int) -> list[str]:
    """Make the corpus that all runs share; returns the settings that name it."""
    from kernelwright.data import CorpusSettings, build

    build(CorpusSettings.of(recipe.data, recipe.seed), out, workers=jobs)
    names = {"examples": "examples.jsonl", "tasks": "tasks.jsonl", "tokenizer": "tokenizer"}
    return [f'data.{key}="{out / name}"' for key, name in names.items()]


def sft_of(name: str) -> str:
    """The name of the SFT that a reward starts from."""
    return "sft-" + (name if name in _OF_SFT else "plan") if name.startswith("plan") else "sft"


def whole(name: str) -> tuple[str, ...]:
    """Settings of a reward for SFT and all later stages."""
    return ("data.answer=plan", *_OF_SFT.get(name, ())) if name.startswith("plan") else ()


def start(runs: Runs, home: Path, seed: int, name: str, data: Sequence[str]) -> Path | None:
    """The SFT that a reward of a seed starts from; None if it is not done."""
    out = home / sft_of(name)
    settings = [*data, *whole(name), f"seed={seed}", 'stages=["sft"]']
    done = RunFolder(out).done("eval/sft") or runs.train(out, settings)
    return out if done else None


def known(home: Path) -> Path:
    """An archive of all that the run `plan` of a seed judged."""
    path, run = home / "known.jsonl", home / "plan"
    if not path.exists():
        subprocess.run(
            [sys.executable, "-m", "kernelwright", "archive", "add", str(path), str(run)], check=True
        )
    return path


def reinforce(
    runs: Runs,
    recipe: Recipe,
    home: Path,
    seed: int,
    name: str,
    shared: Path,
    data: Sequence[str],
    plan: Future[bool] | None = None,
) -> bool:
    """Train both stages with one reward, from the SFT of the run `shared`. Returns whether they are done. `plan`: the run of that
    name, for which `plan-known` waits."""
    stages: tuple[str, ...] = ("frontend",) if name == "one" else STAGES
    if RunFolder(home / name).done(f"eval/{stages[-1]}"):
        return True
    named = ", ".join(f'"{stage}"' for stage in stages)
    base = ['model.init="pretrained"', f'model.base="{shared}/stages/sft/checkpoint"', f"stages=[{named}]"]
    changed = [f"{stage}.{setting.format(stage=stage)}" for stage in stages for setting in REWARDS[name]]
    if name == "one":
        changed.append(f"frontend.steps={recipe.frontend.steps + recipe.midend.steps}")
    if "-lora-" in name:
        changed.append(f"lora.rank={name.rpartition('-')[2]}")
    if name == "plan-known":
        if plan is not None and not (home / "known.jsonl").exists() and not plan.result():
            return False
        changed.append(f'verify.archive="{known(home)}"')
    return runs.train(home / name, [*data, *base, f"seed={seed}", *_FULL, *changed, *whole(name)])


def config(run: Path) -> dict[str, Any]:
    """The recipe of a run. Exits if there is no run."""
    return RunFolder(run).read_json("config.json") or sys.exit(f"{run} holds no run")


@dataclasses.dataclass(frozen=True)
class Run:
    """The evaluations of one seed and reward."""

    sft: ByTask
    front: ByTask
    mid: ByTask | None
    """None if the mid-end is not done, or if there is none."""
    last: ByTask | None
    """The final result; None until all stages are done."""


def read(out: Path) -> Run | None:
    """The evaluations of a run; None until the front end is done."""
    if not (out.is_dir() and (run := RunFolder(out)).done("eval/frontend")):
        return None
    shared = Path(config(out)["model"]["base"]).parents[2]
    mid = by_task(out, "midend") if run.done("eval/midend") else None
    front = by_task(out, "frontend")
    return Run(by_task(shared, "sft"), front, mid, mid if "midend" in config(out)["stages"] else front)


def fast(rollouts: Sequence[Rollout]) -> float:
    """The share of samples that are correct and faster than eager (fast_1)."""
    return mean([float((rollout.verdict.speedup() or 0.0) > 1.0) for rollout in rollouts])


def faster(before: ByTask, after: ByTask) -> list[list[float]]:
    """Modelled time before over after, one for each task that both solve."""
    both = [task for task in before if task in after and times(before[task]) and times(after[task])]
    return [[geometric_mean(times(before[task])) / geometric_mean(times(after[task]))] for task in both]


def alone(runs: Sequence[Run]) -> dict[str, Estimate | None]:
    """Results of one reward, over the tasks of all `runs`; the last two only over finished runs."""
    handed = [(run.front, run.mid) for run in runs if run.mid is not None]
    whole = [run.last for run in runs if run.last is not None]
    return {
        "correct": average([correct(r) for run in runs for r in run.front.values()]),
        "over_sft": average([gain for run in runs for gain in gains(run.sft, run.front)]),
        "faster": ratio([change for run in runs for change in faster(run.sft, run.front)]),
        "midend_gain": ratio([group for front, mid in handed for group in handed_on(front, mid)]),
        "fast_1": average([fast(r) for last in whole for r in last.values()]) if whole else None,
    }


def between(pairs: Sequence[tuple[Run, Run]]) -> dict[str, Estimate | None]:
    """Compares the first reward with the second, task by task, over all `pairs`, one per seed.

    `faster` is over tasks that both solve after the front end, `speed` in the end: the second's modelled time over the first's.
    """
    whole = [(one.last, two.last) for one, two in pairs if one.last is not None and two.last is not None]
    fast_1 = [fast(one[task]) - fast(two[task]) for one, two in whole for task in one]
    return {
        "correct": average([gain for one, two in pairs for gain in gains(two.front, one.front)]),
        "faster": ratio([change for one, two in pairs for change in faster(two.front, one.front)]),
        "fast_1": average(fast_1) if fast_1 else None,
        "speed": ratio([change for one, two in whole for change in faster(two, one)]),
    }


def table(seeds: dict[int, dict[str, Run]]) -> dict[str, Any]:
    """Every reward alone and every pair of them, over the seeds that have both."""
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
            f"over SFT {row['over_sft'].points()}, {as_ratio(row['faster'])}; "
            + (
                f"mid-end {as_ratio(row['midend_gain'])}; then fast_1 {row['fast_1'].percent()}"
                if row["fast_1"]
                else "mid-end not done"
            )
        )
    for name, row in found["between"].items():
        print(
            f"  {name}: front end {row['correct'].points()}, {as_ratio(row['faster'])}"
            + (f"; fast_1 {row['fast_1'].points()}; speed {as_ratio(row['speed'])}" if row["fast_1"] else "")
        )


def plain(found: Any) -> Any:
    """Estimates as tables, for JSON."""
    if isinstance(found, Estimate):
        return dataclasses.asdict(found)
    return {key: plain(value) for key, value in found.items()} if isinstance(found, dict) else found


def report(out: Path, seeds: Sequence[int], names: Sequence[str]) -> dict[str, Any]:
    """Tables of all results so far, by seed and overall; also written to OUT/rewards.json."""
    done = {
        seed: {name: run for name in names if (run := read(out / f"seed-{seed}" / name))} for seed in seeds
    }
    done = {seed: runs for seed, runs in done.items() if runs}
    tables = {f"seed {seed}": table({seed: runs}) for seed, runs in done.items()} | {"all": table(done)}
    unfinished = [
        f"{name} of seed {seed}"
        for seed in seeds
        for name in names
        if (run := done.get(seed, {}).get(name)) is None or run.last is None
    ]
    RunFolder(out).write_json("rewards.json", {**plain(tables), "left": unfinished})
    return {**tables, "left": unfinished}


def work(args: argparse.Namespace, out: Path) -> None:
    """Train all unfinished runs, N at once."""
    recipe = load_recipe(args.recipe, args.settings)
    runs = Runs(args.recipe, args.settings, args.seconds)
    data = make_data(recipe, out / "data", args.jobs)
    with ThreadPoolExecutor(args.jobs) as threads:

        def begin(seed: int, name: str) -> Future[Path | None]:
            return threads.submit(start, runs, out / f"seed-{seed}", seed, name, data)

        named = {sft: [n for n in args.rewards if sft_of(n) == sft] for sft in map(sft_of, args.rewards)}
        shared = {begin(seed, names[0]): (seed, names) for seed in args.seeds for names in named.values()}
        trained: dict[Future[bool], str] = {}
        plans: dict[int, Future[bool]] = {}
        for future in as_completed(shared):
            seed, names = shared[future]
            for name in sorted(names, key="plan-known".__eq__) if (base := future.result()) else ():
                home = out / f"seed-{seed}"
                run = threads.submit(reinforce, runs, recipe, home, seed, name, base, data, plans.get(seed))
                trained[run] = f"{name} of seed {seed}"
                if name == "plan":
                    plans[seed] = run
        for made in as_completed(trained):
            runs.say(f"{trained[made]}: {'done' if made.result() else 'not done'}")
            report(out, args.seeds, args.rewards)


def _seeds(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if wrong := [name for name in names if name not in REWARDS]:
        raise argparse.ArgumentTypeError(f"no reward {wrong[0]!r}: {', '.join(REWARDS)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=_seeds, default=SEEDS)
    parser.add_argument("--rewards", type=_names, default=COMPARED, help=",".join(REWARDS))
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--seconds", type=float, default=0.0, help="0: for as long as it takes")
    parser.add_argument("--report", action="store_true", help="train nothing")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    args = parser.parse_intermixed_args()
    out = args.out.resolve()
    if not args.report:
        work(args, out)
    found = report(out, args.seeds, args.rewards)
    if unfinished := found.pop("left"):
        print(f"not done, or not to the end: {', '.join(unfinished)}")
    for title, one in found.items():
        show(title, one)


if __name__ == "__main__":
    main()
