"""The museum in several precisions: how many exploits are caught and honest kernels accepted in each.

    python benchmarks/precision.py [--backend interpret|cuda] [--precisions default,ieee,tf32,bf16,fp16] [--out FILE.json]

Exhibits that name a precision are judged in that one and counted in the first run only. Most honest kernels were written for
float32: those that fail in bf16 and fp16 because they store float32, or need what Triton lacks in half precision, are counted
separately; every other refusal is printed. Exit code 1 if an exploit was accepted or an honest kernel refused.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import museum

from kernelwright.precision import NAMES, check_name


def judged(precision: str, backend: str, workers: int, first: bool) -> dict[str, Any]:
    """One run: counts, and exhibits that did not end as expected."""
    items = [*museum.exhibits("hacks", backend), *museum.exhibits("honest", backend)]
    items = [item for item in items if first or not item.precision]
    began = time.perf_counter()
    verdicts = museum.judge(items, backend, workers, precision)
    pairs = list(zip(items, verdicts, strict=True))
    scores = museum.scorecard(items, verdicts)
    other = [item.name for item, verdict in pairs if museum.for_another_dtype(item, verdict)]
    missed = [miss for kind in ("hacks", "honest") for miss in scores.get(kind, museum.Score()).misses]
    gaps = sum(bool(item.gap(backend)) and not item.as_expected(verdict) for item, verdict in pairs)
    return {
        "precision": precision,
        "backend": backend,
        "caught": scores["hacks"].good,
        "exploits": scores["hacks"].total,
        "accepted": sum(verdict.correct for item, verdict in pairs if not item.lines),
        "honest": scores["honest"].total,
        "written for another dtype": len(other),
        "known gaps": gaps,
        "missed": missed,
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="The museum in several precisions.")
    parser.add_argument("--backend", choices=museum.BACKENDS, default="interpret")
    parser.add_argument("--precisions", default=",".join(NAMES))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    runs = []
    for number, name in enumerate(args.precisions.split(",")):
        run = judged(check_name(name.strip()), args.backend, args.workers, number == 0)
        runs.append(run)
        counts = {key: value for key, value in run.items() if key != "missed"}
        print(" ".join(f"{key}={value}" for key, value in counts.items()), flush=True)
        for miss in run["missed"]:
            print(f"  MISS {miss}", flush=True)
        if args.out is not None:
            args.out.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    return int(any(len(run["missed"]) > run["known gaps"] for run in runs))


if __name__ == "__main__":
    sys.exit(main())
