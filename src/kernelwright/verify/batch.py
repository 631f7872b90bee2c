"""Many candidates at once over anything that can `submit` one: equal ones judged once, answers in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from typing import Any

from kernelwright.records import Candidate, Task, Verdict


def verify_many(
    submit: Callable[[Task, Candidate], Future[Verdict]],
    pairs: Sequence[tuple[Task, Candidate]],
    on_result: Callable[[int, Verdict], Any] | None = None,
) -> list[Verdict]:
    """Verdicts in the order of `pairs`; identical candidates for one task are judged once.

    `on_result(index, verdict)` is called as each is known. What a judge raises ends it, and cancels the rest.
    """
    futures: dict[tuple[str, str, str], Future[Verdict]] = {}
    where: dict[Future[Verdict], list[int]] = {}
    for index, (task, candidate) in enumerate(pairs):
        # A candidate without code is told apart by its problem; it never reaches a worker.
        key = (task.id, task.digest, f"{candidate.digest}{candidate.problem or ''}{candidate.detail}")
        if key not in futures:
            futures[key] = submit(task, candidate)
        where.setdefault(futures[key], []).append(index)
    verdicts: list[Verdict | None] = [None] * len(pairs)
    try:
        for future in as_completed(where):
            verdict = future.result()
            for index in where[future]:
                verdicts[index] = verdict
                if on_result is not None:
                    on_result(index, verdict)
    except BaseException:
        for future in where:
            future.cancel()
        raise
    return [verdict for verdict in verdicts if verdict is not None]
