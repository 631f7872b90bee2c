"""Kill a training run with SIGKILL at random moments, resume it, and compare every loss with an uninterrupted run.

    python benchmarks/resume.py [--kills 10] [--seed 0] [--recipe recipes/laptop.toml] [--out DIR]
        [--data DIR] [KEY=VALUE]...

Runs the real command and the real verifier. By default the laptop recipe with few steps; settings given as KEY=VALUE
come after those. Exit code 0 when every resumed run has the losses, rewards and rollouts of the uninterrupted one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kernelwright.runs import RunFolder

RECIPE = Path(__file__).parents[1] / "recipes" / "laptop.toml"
SHORT = (
    "sft.steps=60", "sft.save_every=20", "frontend.steps=4", "frontend.save_every=1", "frontend.prompts=2",
    "midend.steps=3", "midend.save_every=2", "midend.prompts=2", "data.train_graphs=24", "data.practice_graphs=12",
    "data.heldout_graphs=4", "data.golds=4",
)  # fmt: skip


def command(recipe: Path, settings: list[str], out: Path) -> list[str]:
    train = [sys.executable, "-m", "kernelwright", "train", str(recipe), *settings]
    return [*train, "--out", str(out), "--no-evaluate", "--resume"]


def whole(arguments: list[str]) -> float:
    """Run to the end; seconds it took. Its last words are shown when it fails."""
    began = time.perf_counter()
    made = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if made.returncode:
        sys.exit(f"{' '.join(arguments)}\nexit code {made.returncode}\n{made.stderr[-2000:]}")
    return time.perf_counter() - began


def killed(arguments: list[str], after: float) -> bool:
    """Start, wait `after` seconds, kill with everything it started. False when it was done before."""
    process = subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(timeout=after)
        return False
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


def reached(out: Path) -> str:
    """Stage and step of the last line of the curves."""
    lines = RunFolder(out).lines("curves.jsonl")
    return f"{lines[-1]['stage']} {lines[-1]['step']}" if lines else "before the first step"


def losses(out: Path) -> list[dict[str, Any]]:
    """What each step did, without how long it took."""
    lines = RunFolder(out).lines("curves.jsonl")
    for line in lines:
        line.pop("seconds", None)
        line.pop("rates", None)
        line["trl"] = {key: value for key, value in line["trl"].items() if "time" not in key}
    return lines


def texts(out: Path) -> list[tuple[Any, ...]]:
    rows = RunFolder(out).lines("rollouts.jsonl")
    return [(r["stage"], r["step"], r["group"], r["turn"], r["completion"]["text"]) for r in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", type=Path, help="a run's data folder, instead of making one")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    asked = parser.parse_args()
    home = asked.out or Path(tempfile.mkdtemp(prefix="resume-"))
    settings = [*(SHORT if asked.recipe == RECIPE else ()), *asked.settings]
    data = asked.data or home / "data" / "data"
    if asked.data is None:
        whole(command(asked.recipe, settings, home / "data"))
    # From here on the data are there, so that moments fall into training.
    settings += [f'data.{name}="{data / name}.jsonl"' for name in ("examples", "tasks")]
    settings.append(f'data.tokenizer="{data / "tokenizer"}"')
    reference = home / "reference"
    seconds = whole(command(asked.recipe, settings, reference))
    expected = losses(reference), texts(reference)
    print(
        f"uninterrupted: {seconds:.0f} s, {len(expected[0])} steps, {len(expected[1])} rollouts", flush=True
    )
    chance, bad = random.Random(asked.seed), 0
    for number in range(1, asked.kills + 1):
        out, moment = home / f"killed-{number}", chance.uniform(0.02, 0.98) * seconds
        hit = killed(command(asked.recipe, settings, out), moment)
        where = reached(out) if hit and out.exists() else "done" if not hit else "before the first step"
        whole(command(asked.recipe, settings, out))
        same = (losses(out), texts(out)) == expected
        bad += not same
        print(f"kill {number}: after {moment:.1f} s ({where}): {'same' if same else 'DIFFERENT'}", flush=True)
        if same:
            shutil.rmtree(out)
    print(f"{asked.kills - bad} of {asked.kills} resumed runs are the uninterrupted one")
    if asked.out is None and not bad:
        shutil.rmtree(home)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
