"""Faults in the library's kernels before the judge without a GPU: how many it accepts, and what they changed.

    python benchmarks/survivors.py OUT.jsonl [--problems 420] [--seed 17001] [--workers 2]

`kernelwright mutants` plants faults in the built-in golds, which were written for the built-in sizes; here it is the kernels
that `data make` draws, whose tiles are those of full sizes. One fault a problem. OUT gets a line for each that is accepted: the
task, the kernel, the mutant and their difference. Read them: some change nothing (a mask where nothing is outside).
"""

from __future__ import annotations

import argparse
import difflib
import json
from collections import Counter
from pathlib import Path

from kernelwright.data.bulk.config import BulkConfig
from kernelwright.data.bulk.problems import Problem, Skipped, problem
from kernelwright.metrics import share_interval
from kernelwright.progress import Bar
from kernelwright.records import Candidate
from kernelwright.verify import VerifierPool


def drawn(seed: int, count: int) -> list[Problem]:
    """Problems of the training split with a fault each."""
    config = BulkConfig(seed=seed, practice=0, wordings=1, slower=0.0, faults=1.0)
    found = []
    for number in range(count):
        try:
            made = problem(config, "families", number)
        except Skipped:
            continue
        found += [made] * bool(made.mutants)
    return found


def difference(kernel: str, mutant: str) -> str:
    lines = difflib.unified_diff(kernel.splitlines(), mutant.splitlines(), lineterm="", n=1)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--problems", type=int, default=420)
    parser.add_argument("--seed", type=int, default=17001)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--deadline", type=float, default=40.0, help="seconds a hearing may take")
    options = parser.parse_args()
    made = drawn(options.seed, options.problems)
    outcomes: Counter[str] = Counter()
    with (
        VerifierPool(options.workers, backend="interpret", deadline_s=options.deadline) as pool,
        Bar("judge", len(made)) as bar,
        options.out.open("w", encoding="utf-8") as out,
    ):
        heard = [pool.submit(one.wordings[0], Candidate(code=one.mutants[0])) for one in made]
        for one, future in zip(made, heard, strict=True):
            verdict = future.result()
            outcomes[verdict.outcome.value] += 1
            bar.advance(1)
            if verdict.correct:
                kernel, mutant = one.kernels[0].code, one.mutants[0]
                row = {"kernel": kernel, "mutant": mutant, "difference": difference(kernel, mutant)}
                out.write(json.dumps({"task": one.wordings[0].model_dump(mode="json"), **row}) + "\n")
    passed = outcomes["correct"]
    low, high = share_interval([1.0] * passed + [0.0] * (len(made) - passed))
    print(f"{passed} of {len(made)} mutants accepted: {passed / len(made):.1%} [{low:.1%}, {high:.1%}]")
    print(", ".join(f"{name} {count}" for name, count in outcomes.most_common()))


if __name__ == "__main__":
    main()
