"""Which kernels compile for which GPU: every gold of the built-in tasks and every honest exhibit, by the judge's own compiler.

    python benchmarks/targets.py [--targets b200,l40s] [--museum] [--workers 2]

Judges each kernel once per target without a GPU, and counts by outcome: `correct` means compiled, assembled and correct. One line
per target, then each kernel that fails there with its reason. Does not measure speed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from kernelwright.hardware import TARGETS
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Task
from kernelwright.tasks import builtin
from kernelwright.verify import VerifierPool

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def kernels(museum: bool) -> list[tuple[Task, Candidate]]:
    """Tasks and kernels to judge."""
    found = [(task, Candidate(code=gold(task.id))) for task in builtin.load()]
    if museum:
        import museum as exhibits

        found += [
            (exhibits.task_of(one), Candidate(code=one.code))
            for one in exhibits.exhibits("honest", "interpret")
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--museum", action="store_true", help="the museum's honest kernels, too")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    judged = kernels(args.museum)
    for name in args.targets.split(","):
        with VerifierPool(target=name, workers=args.workers, backend="interpret") as pool:
            verdicts = pool.verify_many(judged)
        tally = Counter(verdict.outcome.value for verdict in verdicts)
        print(f"{name}: {tally['correct']} of {len(judged)}; {dict(tally)}", flush=True)
        for (task, _), verdict in zip(judged, verdicts, strict=True):
            if not verdict.correct:
                print(
                    f"  {task.id}: {verdict.outcome.value}: {verdict.detail.splitlines()[0][:200]}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
