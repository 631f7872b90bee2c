"""Exact arithmetic in isolation: how many honest kernels end `proven`, and its results on attacks.

    python benchmarks/proof.py museum                        # tests/honest and tests/hacks
    python benchmarks/proof.py golds                         # the built-in tasks' own kernels
    python benchmarks/proof.py inductor                      # the compiler rung's answers to the built-in tasks
    python benchmarks/proof.py attacks --folder DIR          # a folder as benchmarks/attacks.py takes it

Each kernel is traced at the first two small sizes and run in exact arithmetic there, without the judge's other
checks: an attack that ends `proven` equals its reference at those sizes. Prints a line for each kernel that is
not proven, then counts by group and by reason, and the median seconds per kernel, without and with preparing its task.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kernelwright import tasks
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Task
from kernelwright.verify.interpret.verification import InterpretedVerification
from kernelwright.verify.judge import Judge
from kernelwright.verify.protocol import protocol
from kernelwright.verify.sandbox.zygote import Zygote

_SIZES = 2


@dataclasses.dataclass(frozen=True)
class Item:
    group: str
    name: str
    task: Task
    code: str


class Proving(InterpretedVerification):
    """A verification that consists of that step alone."""

    def _funnel(self) -> None:
        self._read()
        shapes = self.judge.cases(self.task)[:_SIZES]
        self._load()
        self.device = self._summon("interpret")
        pairs = [(shape, self._small(shape, place)) for place, shape in enumerate(shapes)]
        self._prove([shape for shape, _ in pairs], [trace for _, trace in pairs])


def of_museum(args: argparse.Namespace) -> Iterator[Item]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import museum

    for folder in ("honest", "hacks"):
        for one in museum.exhibits(folder, "interpret"):
            if not one.endless:
                lines = ",".join(map(str, one.lines))
                group = "honest" if folder == "honest" else "line 39" if 39 in one.lines else "other attacks"
                yield Item(group, f"{one.path.stem} {lines}", museum.task_of(one), one.code)


def of_golds(args: argparse.Namespace) -> Iterator[Item]:
    for task in tasks.load_suite("wright"):
        yield Item("golds", task.id, task, gold(task.id))


def of_inductor(args: argparse.Namespace) -> Iterator[Item]:
    from kernelwright.policy.compiler import Compiler

    with Compiler("h200", 120.0) as compiler:
        for task in tasks.load_suite("wright"):
            found = compiler.module(task, "own")
            if found.code:
                yield Item("inductor", task.id, task, found.code)


def of_attacks(args: argparse.Namespace) -> Iterator[Item]:
    from attacks import read

    for one in read(args.folder, []):
        group = "honest" if one.expect == "accept" else f"class {one.name[0]}"
        yield Item(group, one.name, one.task, one.candidate.code)


SOURCES: dict[str, Callable[[argparse.Namespace], Iterator[Item]]] = {
    "museum": of_museum, "golds": of_golds, "inductor": of_inductor, "attacks": of_attacks,
}  # fmt: skip


def judged(judge: Judge, zygote: Zygote, item: Item) -> tuple[str, str, float]:
    """(status, reason, seconds in the device and the judge)."""
    try:
        verdict = Proving(judge, zygote, item.task, Candidate(code=item.code)).verdict()
    except (UserError, InfrastructureError) as error:
        return "no verification", f"{type(error).__name__}: {error}"[:200], 0.0
    found = verdict.evidence.proof
    if found is None:
        return "stopped before", f"{verdict.outcome}: {verdict.detail}", 0.0
    status = "differs" if found.differs else found.status
    return status, found.reason, verdict.evidence.seconds["proof"]


def kind_of(reason: str) -> str:
    """A reason without its numbers."""
    return reason.split("differs, or not in one form: ")[-1] if "not in one form" in reason else reason[:60]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", choices=SOURCES)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--names", default="", help="only names that contain this")
    options: Any = parser.parse_args()
    judge = Judge(protocol("strict"), "h200", secret=20261124, deadline_s=60.0, proofs=True)
    zygote = Zygote("h200")
    table: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    first, again = [], []
    for item in SOURCES[options.source](options):
        if options.names not in item.name:
            continue
        start = time.perf_counter()
        status, reason, seconds = judged(judge, zygote, item)
        table[item.group][status] += 1
        if status != "proven":
            reasons[kind_of(reason)] += 1
            took = time.perf_counter() - start
            print(
                f"{status:14} {item.group}: {item.name} [{item.task.id}] {took:.1f} s  {reason[:150]}",
                flush=True,
            )
        else:
            first.append(seconds)
            again.append(judged(judge, zygote, item)[2])
    for group, counts in sorted(table.items()):
        total = sum(counts.values())
        print(
            f"{group:16} {counts['proven']:4} of {total:4} proven ({counts['proven'] / total:.0%})  {dict(counts)}"
        )
    for reason, count in reasons.most_common(12):
        print(f"{count:5}  {reason}")
    if first:
        print(
            f"median {statistics.median(first) * 1e3:.0f} ms a proof, {statistics.median(again) * 1e3:.0f} ms again"
        )


if __name__ == "__main__":
    main()
