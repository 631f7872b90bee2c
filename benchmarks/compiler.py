"""How many tasks of a suite the compiler rung answers, and how many answers are correct; no model, no GPU.

    python benchmarks/compiler.py --suite wright
    python benchmarks/compiler.py --suite kernelbench:PATH/level2 --sample 20 --contractions auto
    python benchmarks/compiler.py --graphs 100                    # sampled operator graphs

The strict judge judges each answer once on the interpreter. Prints a line per task that is not accepted, then the
counts by reason. `--json` keeps one row per task: id, seconds, reason, outcome, detail, code.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from kernelwright import tasks
from kernelwright.data.problems import problem
from kernelwright.data.settings import CorpusSettings
from kernelwright.errors import UserError
from kernelwright.policy.compiler import Compiler
from kernelwright.records import Candidate, Task
from kernelwright.tasks import load_suite
from kernelwright.tasks.probe import ReferenceProbe
from kernelwright.verify import VerifierPool


def sampled_graphs(count: int, seed: int) -> list[Task]:
    """Tasks on random graphs, as in the practice tasks of reinforcement learning."""
    settings = CorpusSettings(seed=seed)
    return [problem(settings, number, practice=True).task for number in range(count)]


def compiled(suite: list[Task], args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each task, without a verdict."""
    rows = []
    with Compiler(args.target, args.seconds) as compiler:
        for task in suite:
            start = time.perf_counter()
            found = compiler.module(task, args.contractions)
            took = round(time.perf_counter() - start, 1)
            rows.append({"id": task.id, "seconds": took, "reason": found.reason, "code": found.code})
            if found.reason:
                print(f"{task.id}  {found.reason}  ({took} s)", flush=True)
    return rows


def judge(suite: list[Task], rows: list[dict[str, Any]], args: argparse.Namespace) -> None:
    """Add outcome and detail to the rows that have code."""
    given = [(task, row) for task, row in zip(suite, rows, strict=True) if row["code"]]
    with VerifierPool(args.workers, backend="interpret", deadline_s=args.deadline) as pool:
        verdicts = pool.verify_many([(task, Candidate(code=row["code"])) for task, row in given])
    for (task, row), verdict in zip(given, verdicts, strict=True):
        row |= {"correct": verdict.correct, "outcome": verdict.outcome.value, "detail": verdict.detail}
        if not verdict.correct:
            print(f"{task.id}  {verdict.outcome.value}: {verdict.detail[:300]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", default="wright")
    parser.add_argument("--graphs", type=int, default=0, help="sampled operator graphs instead of a suite")
    parser.add_argument("--sample", type=int, default=0, help="so many tasks of the suite, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--contractions", choices=("own", "auto"), default="own")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--seconds", type=float, default=100.0, help="limit for compiling one task")
    parser.add_argument("--deadline", type=float, default=240.0, help="limit for judging one task")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    try:
        suite = sampled_graphs(args.graphs, args.seed) if args.graphs else load_suite(args.suite)
    except UserError as error:
        sys.exit(str(error))
    if args.sample:
        suite = random.Random(args.seed).sample(suite, min(args.sample, len(suite)))
    with ReferenceProbe() as probe:
        suite = [tasks.small_shapes(task, probe) for task in suite]
    rows = compiled(suite, args)
    judge(suite, rows, args)
    right = sum(bool(row.get("correct")) for row in rows)
    reasons = Counter(row["reason"].split(":")[0] for row in rows if row["reason"])
    print(
        f"{right} of {len(rows)} right, {sum(bool(row['code']) for row in rows)} compiled; without: {dict(reasons)}"
    )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
