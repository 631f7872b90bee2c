"""Thousands of verdicts with one hostile candidate in ten: none lost, none stuck, nothing leaks, honest ones unmoved.

    python benchmarks/soak.py [--backend interpret|cuda] [--verdicts 2000] [--workers 2]

The hostile ones are the museum's exhibits of denial (line 36) and of the verdict channel (lines 29 to 35).
"""

import argparse
import os
import random
import sys
import time
from pathlib import Path

import psutil

from kernelwright import tasks
from kernelwright.records import Candidate
from kernelwright.verify import VerifierPool

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import museum

DEADLINE_S = 5.0
LINES = {29, 30, 31, 32, 33, 34, 35, 36}


def usage() -> tuple[int, int, int]:
    """(MiB of this process and all below it, its file descriptors, processes below it)."""
    me = psutil.Process()
    below = me.children(recursive=True)
    memory = me.memory_info().rss
    for child in below:
        try:
            memory += child.memory_info().rss - child.memory_info().shared
        except psutil.Error:
            continue
    return memory >> 20, me.num_fds(), len(below)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="interpret", choices=("interpret", "cuda"))
    parser.add_argument("--verdicts", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    hostile = [item for item in museum.exhibits("hacks", options.backend) if LINES & set(item.lines)]
    suite = {task.id: task for task in tasks.load_suite("wright")}
    quick = [task for task in suite.values() if task.family not in ("conv", "attention", "matmul")]
    dice = random.Random(0)
    pairs, honest = [], []
    for number in range(options.verdicts):
        if number % 10 == 0:
            item = dice.choice(hostile)
            pairs.append((suite[item.task_id], Candidate(code=f"{item.path.read_text()}\n# {number}\n")))
        else:
            task = dice.choice(quick)
            honest.append(number)
            pairs.append((task, Candidate(code=f"{tasks.gold(task.id)}\n# {number}\n")))
    marks: list[tuple[int, int, int]] = []
    done = 0

    def heard(index: int, verdict: object) -> None:
        nonlocal done
        done += 1
        if done % max(options.verdicts // 10, 1) == 0:
            marks.append(usage())
            print(
                f"{done} verdicts, {marks[-1][0]} MiB, {marks[-1][1]} descriptors, {marks[-1][2]} processes",
                flush=True,
            )

    with VerifierPool(options.workers, options.backend, deadline_s=DEADLINE_S) as pool:
        pool.verify(suite["wright/relu"], Candidate(code=tasks.gold("wright/relu")))
        start = time.perf_counter()
        verdicts = pool.verify_many(pairs, on_result=heard)
        seconds = time.perf_counter() - start
    spoiled = [verdicts[n] for n in honest if not verdicts[n].correct]
    passed = [verdicts[n] for n in range(0, options.verdicts, 10) if verdicts[n].correct]
    print(
        f"{len(verdicts)} of {options.verdicts} verdicts in {seconds:.0f} s ({len(verdicts) / seconds:.1f} a second); "
        f"honest ones not accepted: {len(spoiled)}; hostile ones accepted: {len(passed)}; "
        f"left behind: {usage()[2]} processes, descriptors {marks[0][1]} -> {marks[-1][1]}, MiB {marks[0][0]} -> {marks[-1][0]}"
    )
    for verdict in (*spoiled[:5], *passed[:5]):
        print(f"  {verdict.task_id}: {verdict.outcome} {verdict.detail[:200]}")


if __name__ == "__main__":
    main()
