"""The golds through the judge on a GPU and through the cost model: are modelled times in the order of measured ones?

    python benchmarks/golds.py OUT.jsonl [--suite wright] [--workers 8]

Prints, per task, measured and modelled milliseconds of gold and eager, then Spearman's rank correlations.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from kernelwright import tasks
from kernelwright.records import Candidate, Verdict
from kernelwright.verify import VerifierPool


def ranks(values: list[float]) -> np.ndarray:
    order = np.argsort(values)
    out = np.empty(len(values))
    out[order] = np.arange(len(values))
    return out


def spearman(a: list[float], b: list[float]) -> float:
    """Rank correlation; ties are rare among times."""
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def judged(suite: list, backend: str, workers: int) -> tuple[list[Verdict], float]:
    pairs = [(task, Candidate(code=tasks.gold(task.id))) for task in suite]
    with VerifierPool(workers, backend) as pool:
        pool.verify(*pairs[0])
        start = time.perf_counter()
        return pool.verify_many(pairs), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--suite", default="wright")
    parser.add_argument("--workers", type=int, default=8)
    options = parser.parse_args()
    suite = list(tasks.load_suite(options.suite))
    measured, seconds = judged(suite, "cuda", options.workers)
    print(
        f"cuda: {len(suite)} verdicts in {seconds:.1f} s, {sum(v.correct for v in measured)} accepted",
        flush=True,
    )
    modelled, seconds = judged(suite, "interpret", options.workers)
    print(f"interpret: {seconds:.1f} s, {sum(v.correct for v in modelled)} accepted", flush=True)
    rows = []
    for task, real, model in zip(suite, measured, modelled, strict=True):
        row = {
            "task": task.id,
            "outcome": real.outcome,
            "detail": real.detail,
            "seconds": dict(real.evidence.seconds),
        }
        if real.timing and model.timing:
            row["gold"] = [real.timing.candidate_ms, model.timing.candidate_ms]
            row["eager"] = [real.timing.baseline_ms["eager"], model.timing.baseline_ms["eager"]]
            row["speedup"] = [real.timing.speedup(), model.timing.speedup()]
            row["interval"] = list(real.timing.speedup_ci["eager"])
        rows.append(row)
        numbers = {key: [round(x, 4) for x in row[key]] for key in ("gold", "eager", "speedup") if key in row}
        print(f"{task.id:36} {real.outcome:12} {model.outcome:12} {numbers} {real.detail[:160]}", flush=True)
    options.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    timed = [row for row in rows if "gold" in row]
    for key in ("gold", "eager", "speedup"):
        pairs = [row[key] for row in timed]
        rho = spearman([a for a, _ in pairs], [b for _, b in pairs])
        print(f"Spearman of {key}, measured against modelled, over {len(pairs)} tasks: {rho:.3f}")


if __name__ == "__main__":
    main()
