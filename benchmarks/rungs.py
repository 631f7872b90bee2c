"""Evaluates rungs of the ladder on a random part of KernelBench, many tasks at once, until time is up.

    python benchmarks/rungs.py PATH [--seconds 400] [--jobs 24] [--levels 1,2,3] [--rungs compiler,library,model,ladder] [--json OUT]

PATH holds level1/ ... Each task goes to all rungs before the next task, each by `kernelwright eval` in a process of its
own, bf16, strict, on the interpreter; levels alternate, tasks are drawn at random. Runs still going when time is up are killed and
not counted. Failures are counted by the verdict's outcome; messages are not kept. KernelBench is used for measurement only.
"""

from __future__ import annotations

import argparse
import contextlib
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


def asked(given: argparse.Namespace, level: int, number: int, rung: str, until: float) -> dict[str, Any]:
    """The row of one task: `outcome` and seconds of the search; "cut" if time ran out."""
    row: dict[str, Any] = {"level": level, "id": number, "rung": rung}
    began, left = time.monotonic(), until - time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "kernelwright", "eval", "-s", f"kernelbench:{given.path}/level{level}/{number}", "-p", rung,
                   "-o", folder + "/run", "--precision", "bf16", "--backend", "interpret", "--seconds", str(given.search),
                   "--contractions", "auto", "--target", "h100", "--workers", "1"]  # fmt: skip
        try:
            ended(command, max(1.0, min(left, LIMIT_S)))
            [line] = (Path(folder) / "run" / "rollouts.jsonl").read_text().splitlines()
            verdict = json.loads(line)["verdict"]
            row |= {"right": verdict["outcome"] == "correct", "outcome": verdict["outcome"]}
        except subprocess.TimeoutExpired:
            row["outcome"] = "cut" if left < LIMIT_S else "timeout"
        except (OSError, ValueError):
            row["outcome"] = "crash"
    return row | {"seconds": round(time.monotonic() - began, 1)}


def ended(command: list[str], limit_s: float) -> None:
    """Wait for a command, then kill whatever is left of it and its children. Raises TimeoutExpired."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(limit_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def told(rows: list[dict[str, Any]]) -> str:
    """Correct and evaluated tasks by level and rung, then failures by outcome."""
    cells: dict[tuple[int, str], Counter[str]] = {}
    for row in rows:
        cells.setdefault((row["level"], row["rung"]), Counter())[row["outcome"]] += 1
    lines = [f"{'level':>5} {'rung':10}{'right':>7}{'asked':>7}   otherwise"]
    for (level, rung), found in sorted(cells.items()):
        right, count = found.pop("correct", 0), sum(found.values())
        lines.append(f"{level:5} {rung:10}{right:7}{right + count:7}   {dict(found.most_common())}")
    return "\n".join(lines)


def main() -> None:
    reader = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    reader.add_argument("path", type=Path)
    for name, default in (("seconds", 400.0), ("search", 45.0)):
        reader.add_argument(f"--{name}", type=float, default=default)
    for name, number in (("jobs", 24), ("seed", 1)):
        reader.add_argument(f"--{name}", type=int, default=number)
    reader.add_argument("--levels", default="1,2,3")
    reader.add_argument("--rungs", default="compiler,library,model,ladder")
    reader.add_argument("--json", type=Path)
    given = reader.parse_args()
    until = time.monotonic() + given.seconds
    left = order(given.path, [int(n) for n in given.levels.split(",")], given.rungs.split(","), given.seed)[
        ::-1
    ]
    rows: list[dict[str, Any]] = []
    lock = threading.Lock()

    def work() -> None:
        while time.monotonic() < until:
            with lock:
                if not left:
                    return
                ask = left.pop()
            row = asked(given, *ask, until)
            with lock:
                if row["outcome"] != "cut":
                    rows.append(row)
                if given.json:
                    given.json.write_text(json.dumps(rows) + "\n")

    threads = [threading.Thread(target=work) for _ in range(given.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(told(rows))


if __name__ == "__main__":
    main()
