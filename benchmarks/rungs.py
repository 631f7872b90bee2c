"""Evaluates rungs of the ladder on a random part of KernelBench, many tasks at once, until time is up.

    python benchmarks/rungs.py PATH [--seconds 400] [--jobs 24] [--levels 1,2,3] [--rungs compiler,library,model,ladder] [--json OUT]
        [--backend interpret|cuda] [--precision bf16,default] [--contractions auto] [--known EARLIER.json]... [--report]

PATH holds level1/ ... Each task goes to all rungs in all precisions before the next task, strict and by the benchmark's own protocol
from one execution; levels alternate, tasks are drawn at random. `--batch` tasks share one process of `kernelwright eval`, and all
processes one server, which judges on all GPUs. Runs still going when time is up are killed and not counted; what EARLIER.json has is
not run again, and is counted. Failures are counted by the verdict's outcome; messages are not kept. On a GPU the table also has
speed over the faster of eager and torch.compile, with a failure as 1x; `used` counts slower kernels as 1x, too, since `optimize`
keeps the module then. KernelBench is used for measurement only.
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
from spread import TOKEN, served

from kernelwright.metrics import fast_p, geometric_mean, geometric_mean_interval
from kernelwright.records import Verdict
from kernelwright.tasks import kernelbench
from kernelwright.verify.remote import TOKEN_VARIABLE

PROTOCOLS = "strict,kernelbench"

LIMIT_S = 240.0
"""Time limit of one task, startup and verdicts included."""
Batch = tuple[str, str, int, tuple[int, ...]]
"""Precision, rung, level, ids of tasks."""


def order(given: argparse.Namespace) -> list[Batch]:
    """All batches in the order of evaluation."""
    drawn = []
    for level in map(int, given.levels.split(",")):
        names = [task.id.rpartition("/")[2] for task in kernelbench.load(f"{given.path}/level{level}")]
        numbers = [int(name.partition("_")[0]) for name in names]
        random.Random(given.seed + level).shuffle(numbers)
        parts = range(0, len(numbers), given.batch)
        drawn.append([(level, tuple(numbers[at : at + given.batch])) for at in parts])
    ways = list(itertools.product(given.precision.split(","), given.rungs.split(",")))
    return [(*way, *tasks) for turn in zip_longest(*drawn) for tasks in turn if tasks for way in ways]


def evaluate(given: argparse.Namespace, batch: Batch, judge: str, until: float) -> list[dict[str, Any]]:
    """The rows of the tasks that were evaluated, each with `outcome` and the speed by protocol; a single task that took too long or
    left no row is one as well."""
    precision, rung, level, ids = batch
    limit = min(LIMIT_S * len(ids), until - time.monotonic())
    lost = "crash"
    with tempfile.TemporaryDirectory() as folder:
        names = ",".join(map(str, ids))
        command = [sys.executable, "-m", "kernelwright", "eval", "-s", f"kernelbench:{given.path}/level{level}/{names}", "-p", rung,
                   "-o", folder + "/run", "--precision", precision, "--backend", given.backend, "--seconds", str(given.search),
                   "--contractions", given.contractions, "--target", "h100", "--protocol", PROTOCOLS, "--judge", judge]  # fmt: skip
        try:
            run(command, max(1.0, limit))
        except subprocess.TimeoutExpired:
            lost = "timeout"
        written = Path(folder) / "run" / "rollouts.jsonl"
        lines = [json.loads(line) for line in written.read_text().splitlines()] if written.exists() else []
    rows = []
    for line in lines:
        number = int(line["task_id"].rpartition("/")[2].partition("_")[0])
        verdict = Verdict.model_validate(line["verdict"])
        rows.append(
            {"id": number, "outcome": verdict.outcome.value, "seconds": line["seconds"]["total"]}
            | speeds(verdict)
        )
    if not rows and len(ids) == 1 and time.monotonic() < until:
        rows = [{"id": ids[0], "outcome": lost}]
    return [{"level": level, "rung": rung, "setting": setting(given, precision)} | row for row in rows]


def setting(given: argparse.Namespace, precision: str) -> str:
    """What rows must share to be counted together."""
    return f"{precision}, {given.contractions}, {given.backend}"


def speeds(verdict: Verdict) -> dict[str, Any]:
    """Whether the benchmark's protocol accepts it, and the speed over the faster baseline where each does."""
    found: dict[str, Any] = {}
    for one in (verdict, *verdict.beside):
        speed = one.speedup("faster") if one.correct and one.timing is not None else None
        found |= {one.protocol: one.correct, f"{one.protocol}_x": speed}
    return found


def run(command: list[str], limit_s: float) -> None:
    """Wait for a command, then kill whatever is left of it and its children. Raises TimeoutExpired."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, TOKEN_VARIABLE: TOKEN},
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
                used = geometric_mean([max(one, 1.0) for one in x])
                text += f"  {geometric_mean(x):.3f}x [{ends[0]:.3f}, {ends[1]:.3f}], fast_1 {fast:.0%}, used {used:.3f}x"
            lines.append(text)
        otherwise = Counter(row["outcome"] for row in found if row["outcome"] != "correct")
        lines.append(f"    otherwise {dict(otherwise.most_common())}")
    return "\n".join(lines)


def key_of(row: dict[str, Any]) -> tuple[str, int, str]:
    return row["setting"], row["level"], row["rung"]


def measure(given: argparse.Namespace, rows: list[dict[str, Any]], judge: str) -> None:
    """Append rows for what is not known yet, writing all to `given.json` as they come."""
    until = time.monotonic() + given.seconds
    known = {(row["setting"], row["rung"], row["level"], row["id"]) for row in rows}
    left: list[Batch] = []
    for precision, rung, level, ids in reversed(order(given)):
        rest = tuple(one for one in ids if (setting(given, precision), rung, level, one) not in known)
        if rest:
            left.append((precision, rung, level, rest))
    lock = threading.Lock()

    def work() -> None:
        while time.monotonic() < until:
            with lock:
                if not left:
                    return
                batch = left.pop()
            found = evaluate(given, batch, judge, until)
            with lock:
                rows.extend(found)
                # A process that ended early leaves tasks; each gets a process of its own.
                left.extend((*batch[:3], (one,)) for one in set(batch[3]) - {row["id"] for row in found})
                if given.json:
                    given.json.write_text(json.dumps(rows) + "\n")

    threads = [threading.Thread(target=work) for _ in range(given.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    reader = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    reader.add_argument("path", type=Path)
    for name, default in (("seconds", 400.0), ("search", 100.0)):
        reader.add_argument(f"--{name}", type=float, default=default)
    for name, number in (("jobs", 12), ("workers", 20), ("batch", 5), ("seed", 1)):
        reader.add_argument(f"--{name}", type=int, default=number)
    reader.add_argument("--levels", default="1,2,3")
    reader.add_argument("--rungs", default="compiler,library,model,ladder")
    reader.add_argument("--backend", default="interpret")
    reader.add_argument("--precision", default="bf16", help="one or several")
    reader.add_argument("--contractions", default="auto")
    reader.add_argument("--json", type=Path)
    reader.add_argument("--known", type=Path, action="append", default=[])
    reader.add_argument("--report", action="store_true")
    given = reader.parse_args()
    rows = [row for path in given.known for row in json.loads(path.read_text())]
    if not given.report:
        with served("--backend", given.backend, "--target", "h100", "--workers", str(given.workers), "--protocol", PROTOCOLS,
                    "--deadline-s", str(max(60.0, given.search)), "--allow-source") as judge:  # fmt: skip
            measure(given, rows, judge)
    print(table(rows))


if __name__ == "__main__":
    main()
