"""How much of a suite, or of sampled operator graphs, the Inductor teacher rewrites, and how much of that is right.

    python benchmarks/inductor.py --suite wright
    python benchmarks/inductor.py --graphs 100

Each rewritten module goes once before the strict judge on the interpreter. Prints a line per task that is not
accepted, then the table. `--json` keeps it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

from kernelwright import tasks
from kernelwright.data.config import CorpusConfig
from kernelwright.data.corpus import practice
from kernelwright.data.inductor import Workers, draft
from kernelwright.progress import Bar
from kernelwright.records import Candidate, Example, Task, Verdict
from kernelwright.tasks import load_suite
from kernelwright.tasks.probe import ReferenceProbe
from kernelwright.verify import VerifierPool


def sampled(count: int, seed: int) -> list[Task]:
    """Tasks on operator graphs of one to four operators, in every style."""
    config = CorpusConfig(
        seed=seed, practice_graphs=count, operators=(), lengths=(1, 2, 3, 4), ranks=(2, 3), wide=True
    )
    return list(practice(config, ()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--suite", default="wright")
    parser.add_argument("--graphs", type=int, default=0, help="sampled operator graphs instead of a suite")
    parser.add_argument("--limit", type=int, default=0, help="at most so many tasks, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="hearings at once")
    parser.add_argument("--deadline", type=float, default=30.0, help="seconds for one hearing")
    parser.add_argument("--raw", type=Path, help="folder for Inductor's own modules, to compare machines by")
    parser.add_argument("--keep", type=Path, help="folder for the reference and module of what is rejected")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = sampled(options.graphs, options.seed) if options.graphs else load_suite(options.suite)
    if options.limit:
        chosen = random.Random(options.seed).sample(chosen, min(options.limit, len(chosen)))
    examples: list[Example] = []
    skipped: Counter[str] = Counter()
    start = time.monotonic()
    with Workers() as workers, ReferenceProbe() as probe, Bar("inductor", len(chosen)) as bar:
        for task in chosen:
            task = tasks.small_shapes(task, probe)
            lesson = workers.teach(task)
            if options.raw:
                options.raw.mkdir(parents=True, exist_ok=True)
                (options.raw / f"{task.id.replace('/', '-')}.py").write_text(lesson.raw, "utf-8")
            found = draft(task, lesson)
            if isinstance(found, Example):
                examples.append(found)
            else:
                skipped[found.reason] += 1
                print(f"{task.id}: {found.reason}", file=sys.stderr)
            bar.advance()
    taught = time.monotonic() - start
    ended: Counter[str] = Counter()
    with (
        VerifierPool(options.workers, backend="interpret", deadline_s=options.deadline) as pool,
        Bar("judge", len(examples)) as bar,
    ):
        pairs = [(example.task, Candidate(code=example.code)) for example in examples]

        def note(index: int, verdict: Verdict) -> None:
            ended[verdict.outcome.value] += 1
            bar.advance(note=f"{ended['correct']} correct")
            if not verdict.correct:
                task = examples[index].task
                print(f"{task.id}: {verdict.outcome.value}: {verdict.detail}", file=sys.stderr, flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    name = task.id.replace("/", "-")
                    (options.keep / f"{name}.py").write_text(
                        f"{task.source}\n\n{examples[index].code}", "utf-8"
                    )

        pool.verify_many(pairs, note)
    right = ended.pop("correct", 0)
    count = len(examples)
    print(f"tasks      {len(chosen)}")
    print(f"rewritten  {count} ({count / len(chosen):.0%}), {taught / len(chosen):.2f} s a task")
    print(f"accepted   {right} ({right / max(1, count):.0%} of the rewritten)")
    for reason, number in [*ended.most_common(), *skipped.most_common()]:
        print(f"{number:5}  {reason}")
    if options.json:
        table = {"tasks": len(chosen), "rewritten": count, "accepted": right, **ended, **skipped}
        options.json.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
