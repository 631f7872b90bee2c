"""Thousands of verdicts with one hostile candidate in ten: none lost or stuck, no leaks, honest candidates unaffected.

    python benchmarks/soak.py [--backend interpret|cuda] [--verdicts 2000] [--workers 2] [--deadline 10]

The hostile ones are the museum's exhibits of the verdict channel (lines 29 to 35) and of denial (36 to 38); the honest
ones are golds, first judged by a pool of their own. Linux only. Exit code 1 if anything is not as expected.
Under `--backend cuda` a verdict's numbers depend on the clock, so only outcome and number of cases are compared; GPU memory
is also measured.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernelwright import tasks
from kernelwright.hardware import cores
from kernelwright.outcomes import Outcome
from kernelwright.policy.gold import gold
from kernelwright.progress import Bar
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.verify import VerifierPool

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import museum

LINES = set(range(29, 39))
HONEST = 24
"""Golds to choose from."""
SLACK_S = 2.0
"""Margin over twice the deadline (a machine's failure is retried), after which a verdict counts as stuck."""
PRICE_SPREAD = 0.1
SECRET = 20_240_711
MARKS = 40


def children(pid: int) -> list[int]:
    """Living descendants of a process."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rsplit(")", 1)[1].split()
            if fields[0] != "Z":
                parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, frontier = [], [pid]
    while frontier:
        below = parents.get(frontier.pop(), [])
        found += below
        frontier += below
    return found


def private_mib(pid: int) -> float:
    """Anonymous memory of a process in MiB; 0 if it has just ended."""
    with contextlib.suppress(OSError, IndexError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
    return 0.0


def gpu_mib() -> float:
    """Used memory of the first GPU in MiB, by any process."""
    import torch

    free, total = torch.cuda.mem_get_info(0)
    return (total - free) / (1 << 20)


def slope(points: list[tuple[float, float]]) -> float:
    """Least-squares slope, y per x."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


class Gauges:
    """Resources of the judge and its zygote, read periodically; short-lived workers are not counted."""

    def __init__(self, pool: VerifierPool) -> None:
        self._pool = pool
        self.readings: list[tuple[int, dict[str, float]]] = []

    def read(self, done: int) -> None:
        zygote = self._pool._zygote
        pid = zygote._process.pid if zygote is not None else 0
        reading = {
            "judge MiB": private_mib(os.getpid()),
            "zygote MiB": private_mib(pid),
            "descriptors": float(len(os.listdir("/proc/self/fd"))),
            "threads": float(threading.active_count()),
        }
        if self._pool.backend == "cuda":
            reading["GPU MiB"] = gpu_mib()
        self.readings.append((done, reading))

    def table(self) -> list[str]:
        """A line per gauge: first and last value, and the slope over the second half, when all caches are full."""
        later = self.readings[len(self.readings) // 2 :]
        lines = []
        for name in self.readings[0][1]:
            rise = slope([(float(done), reading[name]) for done, reading in later])
            first, last = self.readings[0][1][name], self.readings[-1][1][name]
            lines.append(f"  {name:<12} {first:8.0f} -> {last:8.0f}   {1000 * rise:+8.1f} per 1,000 verdicts")
        return lines


def differs(verdict: Verdict, alone: Verdict) -> bool:
    """Whether values differ that must not depend on other verifications. A modelled price may vary, since it samples programs."""
    if (verdict.outcome, verdict.evidence.cases) != (alone.outcome, alone.evidence.cases):
        return True
    if verdict.timing is None or alone.timing is None or verdict.backend == "cuda":
        return (verdict.timing is None) != (alone.timing is None)
    price = verdict.timing.candidate_ms / alone.timing.candidate_ms
    return verdict.evidence.worst_error != alone.evidence.worst_error or abs(price - 1.0) > PRICE_SPREAD


def mixture(
    count: int, backend: str
) -> tuple[list[tuple[Task, Candidate, museum.Exhibit | None]], list[Task]]:
    """(candidates to submit, the honest ones' tasks). A comment makes every candidate unique."""
    hostile = [item for item in museum.exhibits("hacks", backend) if LINES & set(item.lines)]
    quick = [t for t in tasks.load_suite("wright") if t.family not in ("conv", "attention", "matmul")]
    dice = random.Random(0)
    chosen = dice.sample(quick, min(HONEST, len(quick)))
    dice.shuffle(hostile)
    attackers = itertools.cycle(hostile)
    pairs: list[tuple[Task, Candidate, museum.Exhibit | None]] = []
    for number in range(count):
        if number % 10 == 5:
            item = next(attackers)
            pairs.append((museum.task_of(item), Candidate(code=f"{item.code}\n# {number}\n"), item))
        else:
            task = dice.choice(chosen)
            pairs.append((task, Candidate(code=f"{gold(task.id)}\n# {number}\n"), None))
    return pairs, chosen


def _how(outcomes: Iterable[Outcome]) -> str:
    counts = Counter(outcomes).most_common(4)
    return f" ({', '.join(f'{count} {outcome}' for outcome, count in counts)})" if counts else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="A long run of the verifier with hostile candidates in it.")
    parser.add_argument("--backend", default="interpret", choices=("interpret", "cuda"))
    parser.add_argument("--verdicts", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds of one verification")
    args = parser.parse_args()
    below = set(children(os.getpid()))
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        tempfile.tempdir = scratch
        code = soak(args, below, Path(scratch))
        tempfile.tempdir = None
    return code


def soak(args: argparse.Namespace, below: set[int], scratch: Path) -> int:
    """Run and report; 1 if anything is wrong."""
    pairs, chosen = mixture(args.verdicts, args.backend)
    golds = {task.id: (task, Candidate(code=gold(task.id))) for task in chosen}
    with VerifierPool(1, args.backend, deadline_s=60.0, secret=SECRET, compiled=False) as pool:
        alone = {name: pool.verify(*pair) for name, pair in golds.items()}

    seconds: dict[int, float] = {}
    outcomes: dict[int, Outcome] = {}
    details: dict[int, str] = {}
    """Details of unexpected verdicts. Whole verdicts are not kept: their memory would look like a leak."""
    moved: list[int] = []
    passed: list[int] = []
    otherwise: list[int] = []
    crashed: list[str] = []
    every = max(1, args.verdicts // MARKS)
    guard = threading.Lock()
    with VerifierPool(
        args.workers, args.backend, deadline_s=args.deadline, secret=SECRET, compiled=False
    ) as pool:
        for pair in golds.values():
            pool.verify(*pair)
        gauges = Gauges(pool)
        gauges.read(0)

        def hear(number: int) -> None:
            task, candidate, item = pairs[number]
            began = time.perf_counter()
            try:
                verdict = pool.verify(task, candidate)
            except Exception as error:
                with guard:
                    crashed.append(f"{number}: {type(error).__name__}: {error}")
                return
            with guard:
                seconds[number] = time.perf_counter() - began
                outcomes[number] = verdict.outcome
                bar.advance(1)
                if item is None:
                    wrong = moved if differs(verdict, alone[task.id]) else None
                else:
                    wrong = None if item.as_expected(verdict) else passed if verdict.correct else otherwise
                if wrong is not None:
                    wrong.append(number)
                if wrong is not None or not verdict.outcome.judged:
                    details[number] = verdict.detail[:160]
                if len(outcomes) % every == 0:
                    gauges.read(len(outcomes))

        start = time.perf_counter()
        with Bar("soak", args.verdicts) as bar, ThreadPoolExecutor(args.workers) as threads:
            list(threads.map(hear, range(args.verdicts)))
        total = time.perf_counter() - start
    time.sleep(1.0)
    orphans = set(children(os.getpid())) - below
    # The lock of a GPU stays, since another pool may hold it.
    folders = [p.name for p in scratch.glob("kernelwright-*") if not p.name.startswith("kernelwright-gpu")]

    limit = 2 * args.deadline + SLACK_S
    hostile = [item.name for n, (_, _, item) in enumerate(pairs) if item is not None and n in outcomes]
    stuck = [n for n, took in seconds.items() if took > limit]
    machine = [n for n, outcome in outcomes.items() if not outcome.judged]
    lost = args.verdicts - len(outcomes)
    longest = max(seconds, key=seconds.__getitem__, default=-1)

    print(
        f"{len(outcomes)} of {args.verdicts} verdicts on {args.backend} with {args.workers} workers in {total:.0f} s: "
        f"{len(outcomes) / total:.1f} a second, {len(hostile)} of them on {len(set(hostile))} hostile exhibits"
    )
    rows = {
        "lost": lost,
        f"stuck (over {limit:.0f} s; the longest took {seconds.get(longest, 0.0):.1f} s)": len(stuck),
        f"honest, not the verdict that it had alone{_how(outcomes[n] for n in moved)}": len(moved),
        "hostile, accepted": len(passed),
        "hostile, for another reason than the museum expects": len(otherwise),
        "the machine's failures": len(machine),
        "processes left": len(orphans),
        "folders left": len(folders),
    }
    for name, number in rows.items():
        print(f"  {number:5d}  {name}")
    print("\n".join(gauges.table()))
    for line in crashed[:5]:
        print(f"  lost {line}")
    for number in dict.fromkeys((*moved[:5], *passed[:10], *otherwise[:10], *machine[:5])):
        task, _, item = pairs[number]
        name = item.name if item is not None else f"the gold, alone {alone[task.id].outcome}"
        print(f"  {task.id} ({name}): {outcomes[number]} {details[number]}")
    return int(bool(lost or stuck or moved or passed or orphans or folders))


if __name__ == "__main__":
    sys.exit(main())
