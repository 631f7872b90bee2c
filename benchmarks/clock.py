"""Is the cost model's order the clock's? Rank correlation of modelled and measured times over kernels judged on a GPU.

    python benchmarks/clock.py FILE.jsonl... [--show 10]

Reads files whose lines hold a `verdict`: the rollouts of `kernelwright eval --backend cuda`. Every verdict of a GPU that has a clock's times carries what the model says of the same launches. A kernel counts
once. Prints Spearman's correlation for kernels, for eager and for speedups, with 95 % intervals (bootstrap over kernels),
the middle ratio of modelled to measured time, and the kernels where the two differ most.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelwright.records import Verdict


@dataclass(frozen=True)
class Both:
    """Milliseconds (modelled, measured) of one kernel and of the reference that it answers."""

    task: str
    kernel: tuple[float, float]
    eager: tuple[float, float]

    @property
    def speedup(self) -> tuple[float, float]:
        return self.eager[0] / self.kernel[0], self.eager[1] / self.kernel[1]


def spearman(pairs: Sequence[tuple[float, float]]) -> float:
    """Rank correlation; ties are rare among times."""
    one, other = (np.argsort(np.argsort([pair[side] for pair in pairs])) for side in (0, 1))
    return float(np.corrcoef(one, other)[0, 1])


def interval(pairs: Sequence[tuple[float, float]], draws: int = 1000) -> tuple[float, float]:
    """95 %, bootstrap."""
    rng = np.random.default_rng(0)
    found = [spearman([pairs[i] for i in rng.integers(0, len(pairs), len(pairs))]) for _ in range(draws)]
    low, high = np.percentile(found, (2.5, 97.5))
    return float(low), float(high)


def read(paths: Sequence[Path]) -> list[Both]:
    """Each different kernel that was clocked and modelled."""
    found: dict[tuple[str, str], Both] = {}
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                verdict = Verdict.model_validate(json.loads(line)["verdict"])
                timing, cost, eager = verdict.timing, verdict.evidence.cost, verdict.evidence.reference_cost
                if timing is None or timing.kind != "measured" or cost is None or eager is None:
                    continue
                found[verdict.task_id, verdict.candidate_digest] = Both(
                    verdict.task_id,
                    (cost.ms, timing.candidate_ms),
                    (eager.ms, timing.baseline_ms["eager"]),
                )
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--show", type=int, default=10, help="kernels to show that differ most")
    options = parser.parse_args()
    found = read(options.files)
    if len(found) < 3:
        raise SystemExit(f"{len(found)} kernels with both times; judge more on a GPU")
    print(f"{len(found)} kernels of {len({one.task for one in found})} tasks")
    for name, pairs in {
        "kernel": [one.kernel for one in found],
        "eager": [one.eager for one in found],
        "speedup": [one.speedup for one in found],
    }.items():
        low, high = interval(pairs)
        ratio = float(np.median([modelled / measured for modelled, measured in pairs]))
        print(
            f"{name:8} Spearman {spearman(pairs):.3f} [{low:.3f}, {high:.3f}]; modelled / measured {ratio:.2f}"
        )
    found.sort(key=lambda one: -abs(np.log(one.kernel[0] / one.kernel[1])))
    for one in found[: options.show]:
        print(
            f"  {one.task}: kernel {one.kernel[0]:.4f} modelled, {one.kernel[1]:.4f} measured; "
            f"eager {one.eager[0]:.4f}, {one.eager[1]:.4f}"
        )


if __name__ == "__main__":
    main()
