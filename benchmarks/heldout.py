"""Tasks that measure a policy and never train one: compositions on operator graphs that every corpus holds out.

    python benchmarks/heldout.py OUT.jsonl [--lengths 2 3 4 5 6 7] [--seed 8701] [--count 128]

A graph's split hangs on its digest alone, whatever the seed, so no corpus made with the default shares trains on these.
Two of three tasks are of the family `fusion`, the others sampled graphs; each has another graph, and a kernel of our library
that the judge accepts. What it wrote is frozen in `benchmarks/heldout/`, so that figures of different days can be compared
when the library draws other problems: `short.jsonl` with the defaults, `long.jsonl` with `--lengths 5 6 7 8 --seed 8702`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelwright.data.bulk.config import BulkConfig
from kernelwright.data.bulk.problems import Problem, Skipped, problem
from kernelwright.progress import Bar
from kernelwright.records import Candidate, Task, write_jsonl
from kernelwright.verify import VerifierPool


def problems(seed: int, lengths: Sequence[int]) -> Iterator[Problem]:
    """Held-out problems, each of another graph, without end."""
    config = BulkConfig.parse(
        {"seed": seed, "names": "fusion", "lengths": list(lengths), "wordings": 1, "slower": 0}
    )
    seen: set[str] = set()
    number = 0
    while True:
        number += 1
        try:
            made = problem(config, "graphs" if number % 3 == 0 else "families", number)
        except Skipped:
            continue
        if made.split == "heldout" and made.graph not in seen and made.wordings[0].difficulty >= min(lengths):
            seen.add(made.graph)
            yield made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--lengths", type=int, nargs="+", default=[2, 3, 4, 5, 6, 7])
    parser.add_argument("--count", type=int, default=128)
    parser.add_argument("--seed", type=int, default=8701)
    args = parser.parse_args()
    tasks: list[Task] = []
    with VerifierPool(1, "interpret") as pool, Bar("heldout", args.count) as bar:
        for made in problems(args.seed, args.lengths):
            task = made.wordings[0]
            if pool.verify(task, Candidate(code=made.kernels[0].code)).correct:
                tasks.append(task.model_copy(update={"lowered": ""}))  # whoever reads them lowers them
                bar.advance(1)
            if len(tasks) == args.count:
                break
    write_jsonl(args.out, tasks)


if __name__ == "__main__":
    main()
