"""Kill a run with SIGKILL at random moments, resume it, and compare all its results with an uninterrupted run's.

    python benchmarks/resume.py [--kills 10] [--seed 0] [--recipe recipes/laptop.toml] [--out DIR]
        [--data DIR] [KEY=VALUE]...

Runs the real command and the real verifier: data, then every stage. By default the laptop recipe with few steps;
KEY=VALUE settings override those. With `--data`, a run's data folder, kills happen only in training. Exit
code 0 if every resumed run has the data, losses, rewards, rollouts and weights of the uninterrupted one. `--out`
keeps the uninterrupted run for more kills. Does not test a power cut: after a kill, written files persist.
If verifications time out on a loaded machine, two runs differ even without a kill, and the output says so.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from kernelwright.runs import RunFolder

RECIPE = Path(__file__).parents[1] / "recipes" / "laptop.toml"
SHORT = (
    "sft.steps=60", "sft.save_every=20", "frontend.steps=4", "frontend.save_every=1", "frontend.prompts=2",
    "midend.steps=3", "midend.save_every=2", "midend.prompts=2", "data.graphs=24", "data.practice=12",
    "data.heldout=0.2",
)  # fmt: skip


def command(recipe: Path, settings: list[str], out: Path) -> list[str]:
    train = [sys.executable, "-m", "kernelwright", "train", str(recipe), *settings]
    return [*train, "--out", str(out), "--no-evaluate", "--resume"]


def whole(arguments: list[str]) -> float:
    """Run to the end; returns the seconds it took. On failure, exits with the end of its stderr."""
    began = time.perf_counter()
    made = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if made.returncode:
        sys.exit(f"{' '.join(arguments)}\nexit code {made.returncode}\n{made.stderr[-2000:]}")
    return time.perf_counter() - began


def killed(arguments: list[str], after: float) -> bool:
    """Start, wait `after` seconds, kill it and its children. False if it was done before."""
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


def reached(out: Path) -> tuple[str, str]:
    """The part of the run that was killed, and its progress."""
    if not out.exists() or not (run := RunFolder(out)).file("config.json").exists():
        return "start", ""
    config = run.read_json("config.json") or {}
    if not config["data"]["examples"] and not run.done("data"):
        return "data", f"{len(run.lines('data/accepted.jsonl'))} examples accepted"
    unfinished = [stage for stage in config["stages"] if not run.done(stage)]
    if not unfinished:
        return "end", ""
    steps = [line["step"] for line in run.lines("curves.jsonl") if line["stage"] == unfinished[0]]
    return unfinished[0], f"after step {max(steps, default=0)}"


def losses(out: Path) -> list[dict[str, Any]]:
    """The log of each step, without times."""
    lines = RunFolder(out).lines("curves.jsonl")
    for line in lines:
        line.pop("seconds", None)
        line.pop("rates", None)
        line["trl"] = {key: value for key, value in line["trl"].items() if "time" not in key}
    return lines


def rollouts(out: Path) -> list[dict[str, Any]]:
    """Prompts, completions, verdicts and rewards, without times. Leaves out evidence, which depends on the judge's secret inputs."""
    lines = RunFolder(out).lines("rollouts.jsonl")
    for line in lines:
        line.pop("seconds")
        verdict = line.pop("verdict")
        line["decided"] = verdict["outcome"], verdict["gate"], verdict["timing"]
    return lines


def digests(out: Path) -> dict[str, str]:
    """Hashes of the data and of each stage's weights."""
    names = ("data/examples.jsonl", "data/tasks.jsonl", "stages/*/checkpoint/*.safetensors")
    files = sorted(path for name in names for path in out.glob(name))
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def timeouts(out: Path) -> int:
    """Number of verifications that timed out: these depend on the machine's load, so a resumed run cannot reproduce them."""
    run = RunFolder(out)
    verdicts = [
        row["verdict"] for name in ("data/rejected.jsonl", "rollouts.jsonl") for row in run.lines(name)
    ]
    return sum(verdict["outcome"] == "timeout" for verdict in verdicts)


def made(out: Path) -> dict[str, Any]:
    return {"losses": losses(out), "rollouts": rollouts(out), "files": digests(out)}


def different(found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Empty if both runs are equal; else what differs and where it begins."""
    for kind, wanted in expected.items():
        if isinstance(wanted, dict):
            names = [name for name in {**wanted, **found[kind]} if wanted.get(name) != found[kind].get(name)]
            if names:
                return f"{kind} differ: {', '.join(sorted(names))}"
        elif found[kind] != wanted:
            pairs = enumerate(zip(found[kind], wanted, strict=False))
            first = next((n for n, (one, two) in pairs if one != two), min(len(found[kind]), len(wanted)))
            return f"{kind} differ from number {first} on, {len(found[kind])} of {len(wanted)}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", type=Path, help="a run's data folder, instead of making one")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    args = parser.parse_args()
    home = args.out or Path(tempfile.mkdtemp(prefix="resume-"))
    settings = [*(SHORT if args.recipe == RECIPE else ()), *args.settings]
    if args.data is not None:
        settings += [f'data.{name}="{args.data / name}.jsonl"' for name in ("examples", "tasks")]
        settings.append(f'data.tokenizer="{args.data / "tokenizer"}"')
    reference = home / "reference"
    seconds = whole(command(args.recipe, settings, reference))
    # An earlier call's run is skipped; its parts' times are recorded.
    seconds = max(seconds, sum((RunFolder(reference).read_json("seconds.json") or {}).values()))
    expected = made(reference)
    print(
        f"uninterrupted: {seconds:.0f} s, {len(expected['losses'])} lines of curves, "
        f"{len(expected['rollouts'])} rollouts, {len(expected['files'])} files",
        flush=True,
    )
    chance, places, bad = random.Random(args.seed), Counter[str](), 0
    for number in range(1, args.kills + 1):
        out = home / f"killed-{number}"
        moment = chance.uniform(0.02, 0.98) * seconds
        while not killed(command(args.recipe, settings, out), moment):
            shutil.rmtree(out)  # this run finished before the kill
            moment = chance.uniform(0.02, 0.98) * seconds
        part, where = reached(out)
        places[part] += 1
        whole(command(args.recipe, settings, out))
        how = different(made(out), expected)
        if how and (late := timeouts(out)) != timeouts(reference):
            how += f" ({late} verifications ran out of time, {timeouts(reference)} in the uninterrupted run)"
        bad += bool(how)
        print(f"kill {number}: after {moment:.1f} s, {part} {where}: {how or 'same'}", flush=True)
        if not how:
            shutil.rmtree(out)
    print(
        f"{args.kills - bad} of {args.kills} resumed runs are the uninterrupted one; kills fell into "
        + ", ".join(f"{part} {count}" for part, count in places.items())
    )
    if args.out is None and not bad:
        shutil.rmtree(home)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
