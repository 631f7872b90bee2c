"""Evaluates rungs of the ladder on a random part of KernelBench, many tasks at once, until time is up.

    python benchmarks/rungs.py PATH [--seconds 400] [--jobs 24] [--levels 1,2,3] [--rungs compiler,library,model,ladder] [--json OUT]
        [--backend interpret|cuda] [--precision bf16] [--contractions auto] [--known EARLIER.json]... [--report]

PATH holds level1/ ... Each task goes to all rungs before the next task, each by `kernelwright eval` in a process of its
own, strict and by the benchmark's own protocol from one execution; levels alternate, tasks are drawn at random. With several
GPUs, processes take turns on them. Runs still going when time is up are killed and not counted; what EARLIER.json has is not
run again, and is counted. Failures are counted by the verdict's outcome; messages are not kept. On a GPU the table also has
speed over the faster of eager and torch.compile, with a failure as 1x. KernelBench is used for measurement only.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import Any

from field.intervals import exact

from kernelwright.metrics import fast_p, geometric_mean, geometric_mean_interval
from kernelwright.records import Verdict
from kernelwright.tasks import kernelbench

LIMIT_S = 240.0
"""Time limit of one process, startup and verdicts included."""


def order(path: Path, levels: list[int], rungs: list[str], seed: int) -> list[tuple[int, int, str]]:
    """(level, id, rung) in the order of evaluation."""
    drawn = []
    for level in levels:
        names = [task.id.rpartition("/")[2] for task in kernelbench.load(f"{path}/level{level}")]
        numbers = [int(name.partition("_")[0]) for name in names]
        random.Random(seed + level).shuffle(numbers)
        drawn.append([(level, number) for number in numbers])
    return [(*task, rung) for turn in zip_longest(*drawn) for task in turn if task for rung in rungs]


def evaluate(
    given: argparse.Namespace, level: int, number: int, rung: str, until: float, gpu: int
) -> dict[str, Any]:
    """The row of one task: `outcome`, the speed by protocol and seconds; "cut" if time ran out."""
    row: dict[str, Any] = {"level": level, "id": number, "rung": rung, "setting": setting(given)}
    began, left = time.monotonic(), until - time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "kernelwright", "eval", "-s", f"kernelbench:{given.path}/level{level}/{number}", "-p", rung,
                   "-o", folder + "/run", "--precision", given.precision, "--backend", given.backend, "--seconds", str(given.search),
                   "--contractions", given.contractions, "--target", "h100", "--workers", str(given.workers),
                   "--protocol", "strict,kernelbench"]  # fmt: skip
        try:
            run(command, max(1.0, min(left, LIMIT_S)), gpu)
            [line] = (Path(folder) / "run" / "rollouts.jsonl").read_text().splitlines()
            verdict = Verdict.model_validate(json.loads(line)["verdict"])
            row |= {"outcome": verdict.outcome.value} | speeds(verdict)
        except subprocess.TimeoutExpired:
            row["outcome"] = "cut" if left < LIMIT_S else "timeout"
        except (OSError, ValueError):
            row["outcome"] = "crash"
    return row | {"seconds": round(time.monotonic() - began, 1)}


def setting(given: argparse.Namespace) -> str:
    """What rows must share to be counted together."""
    return f"{given.precision}, {given.contractions}, {given.backend}"


def speeds(verdict: Verdict) -> dict[str, Any]:
    """Whether the benchmark's protocol accepts it, and the speed over the faster baseline where each does."""
    found: dict[str, Any] = {}
    for one in (verdict, *verdict.beside):
        speed = one.speedup("faster") if one.correct and one.timing is not None else None
        found |= {one.protocol: one.correct, f"{one.protocol}_x": speed}
    return found


def run(command: list[str], limit_s: float, gpu: int) -> None:
    """Wait for a command, then kill whatever is left of it and its children. Raises TimeoutExpired."""
    seen = {"CUDA_VISIBLE_DEVICES": str(gpu)} if gpu >= 0 else {}
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **seen},
    )
    try:
        process.wait(limit_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def table(rows: list[dict[str, Any]]) -> str:
    """Correct and evaluated tasks by level and rung, their speed if there was a GPU, then failures by outcome."""
    lines = []
    for key, cell in itertools.groupby(sorted(rows, key=key_of), key_of):
        found = list(cell)
        setting, level, rung = key
        for name in ("strict", "kernelbench"):
            right, count = sum(bool(row.get(name)) for row in found), len(found)
            low, high = exact(right, count)
            text = f"{setting}  level {level} {rung:9}{name:12}{right:4} of {count:4}, {right / count:.1%} [{low:.1%}, {high:.1%}]"
            if "cuda" in setting:
                x = [row.get(f"{name}_x") or 1.0 for row in found]
                fast = fast_p([row.get(f"{name}_x") for row in found], 1.0)
                ends = geometric_mean_interval([[one] for one in x]) if len(x) > 1 else x * 2
                text += f"  {geometric_mean(x):.3f}x [{ends[0]:.3f}, {ends[1]:.3f}], fast_1 {fast:.0%}"
            lines.append(text)
        otherwise = Counter(row["outcome"] for row in found if row["outcome"] != "correct")
        lines.append(f"    otherwise {dict(otherwise.most_common())}")
    return "\n".join(lines)


def key_of(row: dict[str, Any]) -> tuple[str, int, str]:
    return row["setting"], row["level"], row["rung"]


def measure(given: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Append rows for what is not known yet, writing all to `given.json` as they come."""
    until = time.monotonic() + given.seconds
    known = {(row["level"], row["id"], row["rung"]) for row in rows if row["setting"] == setting(given)}
    levels = [int(n) for n in given.levels.split(",")]
    left = [one for one in order(given.path, levels, given.rungs.split(","), given.seed) if one not in known]
    left.reverse()
    lock = threading.Lock()

    def work(place: int) -> None:
        while time.monotonic() < until:
            with lock:
                if not left:
                    return
                ask = left.pop()
            row = evaluate(given, *ask, until, place % given.gpus if given.gpus else -1)
            with lock:
                if row["outcome"] != "cut":
                    rows.append(row)
                if given.json:
                    given.json.write_text(json.dumps(rows) + "\n")

    threads = [threading.Thread(target=work, args=(place,)) for place in range(given.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    reader = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    reader.add_argument("path", type=Path)
    for name, default in (("seconds", 400.0), ("search", 45.0)):
        reader.add_argument(f"--{name}", type=float, default=default)
    for name, number in (("jobs", 24), ("seed", 1), ("workers", 1), ("gpus", 0)):
        reader.add_argument(f"--{name}", type=int, default=number)
    reader.add_argument("--levels", default="1,2,3")
    reader.add_argument("--rungs", default="compiler,library,model,ladder")
    reader.add_argument("--backend", default="interpret")
    reader.add_argument("--precision", default="bf16")
    reader.add_argument("--contractions", default="auto")
    reader.add_argument("--json", type=Path)
    reader.add_argument("--known", type=Path, action="append", default=[])
    reader.add_argument("--report", action="store_true")
    given = reader.parse_args()
    rows = [row for path in given.known for row in json.loads(path.read_text())]
    if not given.report:
        measure(given, rows)
    print(table(rows))


if __name__ == "__main__":
    main()
