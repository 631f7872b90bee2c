"""A judge that needs no interpreter."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future

from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Candidate, Task, Timing, Verdict


class FakeJudge:
    """Accepts according to `rule`, and models a time from launches and warps. Counts its verifications.

    With `stop_after`, it is killed at that verification.
    """

    def __init__(self, rule: Callable[[str], Outcome] = lambda code: Outcome.CORRECT, stop_after: int = 0):
        self.rule, self.stop_after = rule, stop_after
        self.judged: list[tuple[Task, str]] = []

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        self.judged.append((task, candidate.code))
        if self.stop_after and len(self.judged) > self.stop_after:
            raise KeyboardInterrupt
        outcome = self.rule(candidate.code)
        future: Future[Verdict] = Future()
        timing = None
        if outcome is Outcome.CORRECT:
            ms = len(re.findall(r"num_warps=", candidate.code)) + candidate.code.count("for start in")
            ms += "num_warps=8" in candidate.code
            timing = Timing(
                kind="modelled",
                target="h200",
                candidate_ms=ms or 1,
                candidate_ci=(1, 1),
                baseline_ms={"eager": 2.0},
                speedup_ci={"eager": (1, 2)},
            )
        future.set_result(
            Verdict(task_id=task.id, outcome=outcome, gate=Gate.SMALL, detail="x", timing=timing)
        )
        return future
