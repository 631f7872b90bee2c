"""The interface of every judge (local, servers, cluster): many candidates at once, equal ones judged once, results in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from typing import Self

from kernelwright.records import Candidate, Task, Verdict


class Pool(ABC):
    """Judges candidates concurrently; thread-safe. A context manager; an exception in its block aborts running verifications."""

    @abstractmethod
    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        """Start a verification; `.result()` is its verdict. Cancelling a future that has not started is free."""

    @abstractmethod
    def close(self, abort: bool = False) -> None:
        """End the pool. Waits for running verifications, or with `abort` cuts them off."""

    def verify(self, task: Task, candidate: Candidate) -> Verdict:
        """Wait for one verdict."""
        return self.submit(task, candidate).result()

    def verify_many(
        self,
        pairs: Sequence[tuple[Task, Candidate]],
        on_result: Callable[[int, Verdict], object] | None = None,
    ) -> list[Verdict]:
        """See the function `verify_many`."""
        return verify_many(self.submit, pairs, on_result)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.close(abort=kind is not None)


def verify_many(
    submit: Callable[[Task, Candidate], Future[Verdict]],
    pairs: Sequence[tuple[Task, Candidate]],
    on_result: Callable[[int, Verdict], object] | None = None,
) -> list[Verdict]:
    """Verdicts in the order of `pairs`; identical candidates for one task are judged once.

    `on_result(index, verdict)` is called as each is known. An exception of the judge cancels the rest and is raised.
    """
    futures: dict[tuple[str, str, str], Future[Verdict]] = {}
    where: dict[Future[Verdict], list[int]] = {}
    for index, (task, candidate) in enumerate(pairs):
        # Candidates without code never reach a worker; their problem distinguishes them.
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
