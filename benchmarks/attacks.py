"""Judge a folder of attacks and honest kernels, and say which ended as expected.

    python benchmarks/attacks.py DIR                       # without a GPU
    python benchmarks/attacks.py DIR --backend cuda
    python benchmarks/attacks.py DIR a01 a07 b             # names that start with one of these

`DIR/index.json` maps a name to `{"expect": "reject" | "accept", "task": ..., "kernel": FILE}`, where the task is a
file of the folder in KernelBench form, or a built-in task. An attack that ends `unproven` is not accepted, and is
counted separately. The first letter of a name is its class; the table ends with totals by class. An outcome that is the
judge's own failure is never as expected.

For a machine with a GPU, copy the folder into the checkout first. Exit code 0 if every item ended as expected.
Does not check *why* an attack was rejected: read the details.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Backend, Candidate, Task, Verdict
from kernelwright.tasks import load_suite, small_shapes
from kernelwright.tasks.probe import ReferenceProbe
from kernelwright.verify import VerifierPool


@dataclasses.dataclass(frozen=True)
class Item:
    """One kernel of the folder and its expected outcome."""

    name: str
    expect: str
    """`reject` or `accept`."""
    task: Task
    candidate: Candidate

    def as_expected(self, verdict: Verdict) -> bool:
        if not verdict.outcome.judged:
            return False
        return verdict.correct is (self.expect == "accept")


def read(folder: Path, prefixes: Sequence[str]) -> list[Item]:
    """The items of a folder whose names start with one of `prefixes`; all without any. Raises UserError."""
    index = folder / "index.json"
    if not index.is_file():
        raise UserError(f"{folder} has no index.json: give a folder of attacks that has one")
    rows = {
        name: row
        for name, row in sorted(json.loads(index.read_text(encoding="utf-8")).items())
        if not prefixes or name.startswith(tuple(prefixes))
    }
    if not rows:
        raise UserError(f"no name in {index} starts with {', '.join(prefixes)}")
    items = []
    with ReferenceProbe() as probe:
        for name, row in rows.items():
            own = folder / row["task"]
            (task,) = load_suite(str(own) if own.is_file() else row["task"])
            if not any(size.startswith("small") for size in task.shapes):
                task = small_shapes(task, probe)
            code = (folder / row["kernel"]).read_text(encoding="utf-8")
            items.append(Item(name, row["expect"], task, Candidate(code=code)))
    return items


def judge(items: Sequence[Item], args: argparse.Namespace) -> list[tuple[Verdict, float]]:
    """Verdicts in the order of `items`, each with the seconds since the previous one came."""
    found: dict[int, tuple[Verdict, float]] = {}
    last = time.perf_counter()

    def note(index: int, verdict: Verdict) -> None:
        nonlocal last
        now = time.perf_counter()
        found[index], last = (verdict, now - last), now
        print(describe(items[index], *found[index]), flush=True)

    with VerifierPool(
        workers=args.workers,
        backend=args.backend,
        protocol="strict",
        deadline_s=args.deadline,
        compiled=False,
        sanitize=args.sanitize,
        secret=args.secret,
    ) as pool:
        pending = {pool.submit(item.task, item.candidate): index for index, item in enumerate(items)}
        for future in as_completed(pending):
            index = pending[future]
            try:
                note(index, future.result())
            except UserError as error:  # a broken task must not hide the verdicts on the others
                note(index, _broken(items[index], str(error), pool.backend))
    return [found[index] for index in range(len(items))]


def _broken(item: Item, why: str, backend: Backend) -> Verdict:
    return Verdict(
        task_id=item.task.id,
        outcome=Outcome.INFRASTRUCTURE_ERROR,
        gate=Gate.LOAD,
        detail=why,
        backend=backend,
        candidate_digest=item.candidate.digest,
    )


def describe(item: Item, verdict: Verdict, seconds: float) -> str:
    """One line of the table."""
    mark = "ok  " if item.as_expected(verdict) else "MISS"
    speedup = verdict.speedup()
    speed = f" {speedup:.2f}x" if speedup is not None else ""
    return (
        f"{mark} {item.name[:64]:64} {item.expect:6} {verdict.outcome}{speed} at {verdict.gate} {seconds:5.1f} s  "
        f"{verdict.detail[:300]}"
    )


def totals(items: Sequence[Item], verdicts: Sequence[Verdict]) -> list[str]:
    """By class and in total: attacks rejected, unproven and accepted, honest kernels accepted."""
    lines = [f"{'class':6} {'attacks':>7} {'rejected':>8} {'unproven':>8} {'missed':>6}   honest accepted"]
    for letter in [*sorted({item.name[0] for item in items}), "all"]:
        pairs = [
            (item, verdict)
            for item, verdict in zip(items, verdicts, strict=True)
            if letter in ("all", item.name[0])
        ]
        attacks = [(item, verdict) for item, verdict in pairs if item.expect == "reject"]
        honest = [verdict.correct for item, verdict in pairs if item.expect == "accept"]
        stopped = [verdict for item, verdict in attacks if item.as_expected(verdict)]
        unproven = sum(verdict.outcome == "unproven" for verdict in stopped)
        lines.append(
            f"{letter:6} {len(attacks):7} {len(stopped) - unproven:8} {unproven:8} "
            f"{len(attacks) - len(stopped):6}   {sum(honest)}/{len(honest)}"
        )
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line per item as its verdict comes, then the totals."""
    parser = argparse.ArgumentParser(description="Judge a folder of attacks and honest kernels.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="only names that start with one of these")
    parser.add_argument("--backend", choices=("interpret", "cuda"), default="interpret")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--deadline", type=float, default=60.0, metavar="S", help="a verdict's time limit")
    parser.add_argument(
        "--sanitize", action="store_true", help="watch accepted kernels with compute-sanitizer"
    )
    parser.add_argument("--secret", type=int, help="seed of all inputs; drawn if not given")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every verdict there")
    args = parser.parse_args(argv)
    try:
        items = read(args.folder, args.names)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    start = time.perf_counter()
    rows = judge(items, args)
    verdicts = [verdict for verdict, _ in rows]
    print("\n" + "\n".join(totals(items, verdicts)))
    good = sum(item.as_expected(verdict) for item, verdict in zip(items, verdicts, strict=True))
    print(f"as expected: {good}/{len(items)}, {args.backend}, {time.perf_counter() - start:.1f} s")
    if args.json:
        report = {
            item.name: {
                "expect": item.expect,
                "seconds": round(seconds, 2),
                **verdict.model_dump(mode="json"),
            }
            for item, (verdict, seconds) in zip(items, rows, strict=True)
        }
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if good == len(items) else 1


if __name__ == "__main__":
    sys.exit(main())
