"""Search over a whole suite, from an evaluation: each task's fastest verified kernels, tuned, and the winner judged again.

    python benchmarks/search.py EVAL-RUN OUT.jsonl -s kernelbench:PATH/level1 [--verdicts 12] [--workers 14]

EVAL-RUN is what `kernelwright eval -n N` wrote: its samples are the best of n. What `kernelwright optimize` does with the
fastest of them (block sizes, warps and stages by hill climbing, at most `verdicts` variants a task, then a verification by another
judge with other secrets) is done for several tasks at once, so that the judge always has work. OUT gets each task's winner
with the verdict of its second verification, that of what it was climbed from, judged again at the same time (the evaluation's
clock was another day's), and every variant's time or outcome, and goes on where it stopped. Prints fast_p over all tasks,
geometric means over eager and over the faster of the baselines, and what tuning alone made of the kernels.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from kernelwright.cli import read
from kernelwright.metrics import fast_p, geometric_mean, geometric_mean_interval, share_interval
from kernelwright.progress import Bar
from kernelwright.records import FASTER, Candidate, Rollout, Task, Verdict, read_jsonl
from kernelwright.search.asks import verified
from kernelwright.search.tune import tune
from kernelwright.verify import VerifierPool

_AGAIN = 3
"""Kernels that are judged again, should the first be rejected then."""


def climbed(
    task: Task, first: Rollout, pool: VerifierPool, verdicts: int
) -> tuple[list[Rollout], list[Rollout]]:
    """(`first` and every variant of it that was accepted, the fastest first; all variants as they were judged)."""
    made = [first]
    left = verdicts

    def hear(variants: Sequence[Candidate]) -> list[Rollout]:
        nonlocal left
        variants = variants[:left]
        left -= len(variants)
        judged = [
            first.model_copy(update={"candidate": variant, "verdict": verdict})
            for variant, verdict in zip(
                variants, pool.verify_many([(task, v) for v in variants]), strict=True
            )
        ]
        made.extend(judged)
        return judged

    best = tune(first, hear)
    return [best, *(rollout for rollout in verified(made) if rollout is not best)], made[1:]


def searched(
    task: Task, samples: Sequence[Rollout], pool: VerifierPool, again: VerifierPool, verdicts: int
) -> dict[str, object]:
    """The row of a task: the fastest sample as it is judged now, the winner with its second verification, and what was tried."""
    row: dict[str, object] = {"task": task.id}
    row |= {"before": None, "verdict": None, "code": None, "from": None, "tried": []}
    right = verified(samples)
    if not right:
        return row
    before = again.submit(task, right[0].candidate)
    fastest, judged = climbed(task, right[0], pool, verdicts)
    for kernel in [*fastest, *right[1:]][:_AGAIN]:
        verdict = again.verify(task, kernel.candidate)
        if verdict.correct:
            row |= {"verdict": verdict.model_dump(mode="json"), "code": kernel.candidate.code}
            break
    return row | {
        "before": before.result().model_dump(mode="json"),
        "from": right[0].candidate.code,
        "tried": [
            {
                "variant": rollout.candidate.plan,
                "outcome": rollout.verdict.outcome,
                "ms": rollout.verdict.timing and rollout.verdict.timing.candidate_ms,
            }
            for rollout in judged
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("-s", "--suite", required=True)
    parser.add_argument("--verdicts", type=int, default=12)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--deadline", type=float, default=30.0)
    options = parser.parse_args()
    samples: dict[str, list[Rollout]] = {}
    for rollout in read_jsonl(options.run / "rollouts.jsonl", Rollout):
        samples.setdefault(rollout.task_id, []).append(rollout)
    tasks = [task for task in read.suite(options.suite) if task.id in samples]
    done = {row["task"] for row in map(json.loads, options.out.open())} if options.out.exists() else set()
    left = [task for task in tasks if task.id not in done]
    workers = options.workers or None
    with (
        VerifierPool(workers, deadline_s=options.deadline) as pool,
        VerifierPool(workers, deadline_s=options.deadline) as again,
        ThreadPoolExecutor(options.workers or 8) as threads,
        Bar("search", len(tasks), done=len(done)) as bar,
    ):
        found = [
            threads.submit(searched, task, samples[task.id], pool, again, options.verdicts) for task in left
        ]
        for future in as_completed(found):
            with options.out.open("a", encoding="utf-8") as out:
                out.write(json.dumps(future.result()) + "\n")
            bar.advance(1)
    report([json.loads(line) for line in options.out.open(encoding="utf-8")])


def report(rows: Sequence[dict[str, object]]) -> None:
    both = {
        kind: [Verdict.model_validate(row[kind]) if row[kind] else None for row in rows]
        for kind in ("before", "verdict")
    }
    print(
        f"{len(rows)} tasks, {sum(v is not None for v in both['verdict'])} with a kernel that stands two verifications"
    )
    for baseline, name in (("eager", "eager"), (FASTER, "the faster of the baselines")):
        for kind, label in (("before", "best of n"), ("verdict", "after tuning")):
            over = [verdict.speedup(baseline) if verdict else None for verdict in both[kind]]
            known = [[one] for one in over if one is not None]
            if not known:
                continue
            low, high = geometric_mean_interval(known)
            shares = ", ".join(f"fast_{p:g} {fast_p(over, p):.0%}" for p in (1.0, 1.2, 2.0))
            low1, high1 = share_interval([float(one is not None and one > 1) for one in over])
            mean = geometric_mean([one for [one] in known])
            print(
                f"over {name}, {label}: {mean:.3f} [{low:.3f}, {high:.3f}] over {len(known)} tasks; {shares} "
                f"(fast_1 [{low1:.0%}, {high1:.0%}])"
            )
    gains = [
        [old.timing.candidate_ms / new.timing.candidate_ms]
        for old, new in zip(both["before"], both["verdict"], strict=True)
        if old and new and old.timing and new.timing
    ]
    if gains:
        low, high = geometric_mean_interval(gains)
        print(
            f"tuning: {geometric_mean([one for [one] in gains]):.3f} times as fast [{low:.3f}, {high:.3f}], {len(gains)} tasks"
        )


if __name__ == "__main__":
    main()
