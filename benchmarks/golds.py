"""The golds through the judge on a GPU and through the cost model: do modelled times rank like measured ones?

    python benchmarks/golds.py OUT.jsonl [--suite wright] [--workers 8]
    python benchmarks/golds.py --interpret [--workers 2]

Prints, per task, measured and modelled milliseconds of gold and eager, then Spearman's rank correlations. With
`--interpret`, on a machine without a GPU: verdicts per second, CPU seconds, and how many golds each protocol accepts. Most
golds are written by the compiler from the task's graph, which is done and counted before.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
from ranking import spearman

from kernelwright import tasks
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Verdict
from kernelwright.verify import VerifierPool


def judged(suite: list, backend: str, workers: int, protocol: str = "strict") -> tuple[list[Verdict], float]:
    pairs = [(task, Candidate(code=gold(task.id))) for task in suite]
    with VerifierPool(workers, backend, protocol) as pool:
        pool.verify(*pairs[0])
        start = time.perf_counter()
        return pool.verify_many(pairs), time.perf_counter() - start


def _cpu_seconds() -> float:
    """CPU seconds of this process and its finished children, which are meaningful on a busy machine, unlike wall-clock time."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def without_gpu(suite: list, workers: int) -> None:
    """Throughput and acceptance under each protocol, with the reason for every refusal."""
    before = _cpu_seconds()
    for task in suite:
        gold(task.id)
    print(f"golds written: {(_cpu_seconds() - before) / len(suite):.2f} s of a core each")
    for protocol in ("strict", "kernelbench", "toronto"):
        before = _cpu_seconds()
        verdicts, seconds = judged(suite, "interpret", workers, protocol)
        accepted = sum(verdict.correct for verdict in verdicts)
        print(
            f"{protocol}: {accepted} of {len(suite)} accepted, {len(suite) / seconds:.2f} verdicts a second, "
            f"{(_cpu_seconds() - before) / len(suite):.2f} s of a core each, start included"
        )
        for verdict in verdicts:
            if not verdict.correct:
                print(f"  {verdict.task_id}: {verdict.outcome} {verdict.detail[:140]}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, nargs="?", default=Path("golds.jsonl"))
    parser.add_argument("--interpret", action="store_true")
    parser.add_argument("--suite", default="wright")
    parser.add_argument("--workers", type=int, default=8)
    args = parser.parse_args()
    suite = list(tasks.load_suite(args.suite))
    if args.interpret:
        without_gpu(suite, args.workers)
        return
    measured, seconds = judged(suite, "cuda", args.workers)
    print(
        f"cuda: {len(suite)} verdicts in {seconds:.1f} s, {sum(v.correct for v in measured)} accepted",
        flush=True,
    )
    modelled, seconds = judged(suite, "interpret", args.workers)
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
    args.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    timed = [row for row in rows if "gold" in row]
    for key in ("gold", "eager", "speedup"):
        pairs = [row[key] for row in timed]
        rho = spearman(*np.array(pairs).T)
        print(f"Spearman of {key}, measured against modelled, over {len(pairs)} tasks: {rho:.3f}")


if __name__ == "__main__":
    main()
