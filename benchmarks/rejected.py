"""What the judge rejected of our own golds, heard again: which are rejected whatever the secret, and for what numbers.

    python benchmarks/rejected.py CORPUS... [--secrets 4] [--outcomes wrong_value,low_precision,...] [--workers 2]

A corpus is what `kernelwright data make` wrote, or its parts. A kernel that falls under one secret of many is a tolerance that
leaves no room for luck, one that falls under each is wrong, or its judge is: read those.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from kernelwright.data.validate import Rejected
from kernelwright.records import Candidate, Example, read_jsonl
from kernelwright.verify import VerifierPool

NUMBERS = "wrong_value,wrong_on_shape,wrong_on_distribution,low_precision"


def rejected(corpora: list[Path], outcomes: set[str]) -> Iterator[Example]:
    """Each different kernel once."""
    seen = set()
    for corpus in corpora:
        for file in sorted(corpus.rglob("*rejected.jsonl")):
            for record in read_jsonl(file, Rejected):
                code = record.example.code
                if record.verdict.outcome.value in outcomes and code not in seen:
                    seen.add(code)
                    yield record.example


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpora", type=Path, nargs="+")
    parser.add_argument("--secrets", type=int, default=4)
    parser.add_argument("--outcomes", default=NUMBERS)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    examples = list(rejected(options.corpora, set(options.outcomes.split(","))))
    fallen: dict[int, list[str]] = defaultdict(list)
    for _ in range(options.secrets):
        with VerifierPool(options.workers) as pool:
            verdicts = pool.verify_many([(e.task, Candidate(code=e.code)) for e in examples])
        for place, verdict in enumerate(verdicts):
            if not verdict.correct:
                fallen[place].append(f"{verdict.outcome} {verdict.detail[:160]}")
    for place, reasons in sorted(fallen.items()):
        print(f"{examples[place].task.id}: {len(reasons)} of {options.secrets}, {reasons[0]}")
    print(f"{len(examples) - len(fallen)} of {len(examples)} accepted under all of {options.secrets} secrets")


if __name__ == "__main__":
    main()
