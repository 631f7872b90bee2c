"""What a search may spend, and a judge that spends it: verdicts and seconds.

Every candidate is heard once: one that differs from an earlier one in nothing but layout and comments shares its
verdict, and costs nothing. Not guaranteed: that a search ends on the second, for hearings under way are waited for.
"""

from __future__ import annotations

import ast
import hashlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager

from kernelwright.outcomes import Gate, Outcome
from kernelwright.parsing import parse
from kernelwright.records import Candidate, Rollout, Task, Verdict
from kernelwright.rollouts import Judge, Verifier


class Budget:
    """At most `verdicts` hearings and `seconds` of wall clock; 0 is no limit."""

    def __init__(
        self, verdicts: int = 0, seconds: float = 0.0, spent_verdicts: int = 0, spent_seconds: float = 0.0
    ) -> None:
        """What an earlier process has spent counts."""
        self.verdicts, self.seconds = verdicts, seconds
        self.spent = spent_verdicts
        self._began = time.monotonic() - spent_seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.monotonic() - self._began

    def room(self, share: float = 1.0) -> int:
        """Hearings that `share` of the budget leaves; 0 when its time has passed."""
        if self.over(share):
            return 0
        return max(0, round(share * self.verdicts) - self.spent) if self.verdicts else 1 << 30

    def over(self, share: float = 1.0) -> bool:
        """Whether `share` of the time has passed."""
        return bool(self.seconds) and self.elapsed >= share * self.seconds

    def seconds_left(self, share: float = 1.0) -> float | None:
        """Seconds until `share` of the time has passed; None without a limit."""
        return max(0.0, share * self.seconds - self.elapsed) if self.seconds else None


class Hearings(Judge):
    """A judge that stops at the end of a budget; `watch` is told of each verdict.

    What is not heard any more gets a verdict that says so, and `kept` leaves it out.
    """

    def __init__(
        self, pool: Verifier, budget: Budget, watch: Callable[[Verdict], object] = lambda verdict: None
    ) -> None:
        super().__init__(pool)
        self.budget, self.watch = budget, watch
        self.share = 1.0
        """Of the budget, up to where hearings are granted now; of its time only once something is verified."""
        self.verified = 0
        self._forms: dict[str, tuple[Future[Verdict], str]] = {}
        self._out: set[Future[Verdict]] = set()
        self._refused: set[str] = set()
        self._granting = threading.Lock()

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        form = f"{task.digest}:{form_of(candidate)}"
        with self._granting:
            known = self._forms.get(form)
            if known is None:
                if candidate.problem is None and not self._granted():
                    return self._refuse(task, candidate)
                self.budget.spent += candidate.problem is None
                self._refused.discard(candidate.digest)
                future = super().submit(task, candidate)
                self._forms[form] = future, candidate.digest
                self._out.add(future)
            else:
                future = known[0]
        if known is None:
            future.add_done_callback(self._heard)
        return future

    def until(self, share: float) -> AbstractContextManager[None]:
        """Within the block, hearings are granted up to `share` of the budget; those not begun by then are called off."""
        return _Until(self, share)

    def kept(self, rollouts: list[Rollout]) -> list[Rollout]:
        """The rollouts that were heard."""
        return [rollout for rollout in rollouts if rollout.candidate.digest not in self._refused]

    def call_off(self) -> None:
        """Cancel what has not begun, once there is no time left for it."""
        if not self._late():
            return
        with self._granting:
            for form, (future, digest) in list(self._forms.items()):
                if future in self._out and future.cancel():
                    self.budget.spent -= 1
                    self._refused.add(digest)
                    del self._forms[form]

    def _late(self) -> bool:
        return self.budget.over(self.share if self.verified else 1.0)

    def _granted(self) -> bool:
        """Without a verified kernel there is nothing to keep time for."""
        verdicts, spent = self.budget.verdicts, self.budget.spent
        return not self._late() and (not verdicts or spent < round(self.share * verdicts))

    def _refuse(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        self._refused.add(candidate.digest)
        future: Future[Verdict] = Future()
        future.set_result(
            Verdict(
                task_id=task.id,
                outcome=Outcome.INFRASTRUCTURE_ERROR,
                gate=Gate.PARSE,
                detail="not heard: the budget was spent",
                candidate_digest=candidate.digest,
            )
        )
        return future

    def _heard(self, future: Future[Verdict]) -> None:
        self._out.discard(future)
        if not future.cancelled() and future.exception() is None:
            verdict = future.result()
            self.verified += verdict.correct
            self.watch(verdict)
            self.call_off()


class _Until:
    def __init__(self, hearings: Hearings, share: float) -> None:
        self.hearings, self.share = hearings, share
        self._timers: list[threading.Timer] = []

    def __enter__(self) -> None:
        self.hearings.share = self.share
        for share in sorted({self.share, 1.0}):
            left = self.hearings.budget.seconds_left(share)
            if left is not None:
                timer = threading.Timer(left + 0.01, self.hearings.call_off)
                timer.daemon = True
                timer.start()
                self._timers.append(timer)

    def __exit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()


def form_of(candidate: Candidate) -> str:
    """The same for two codes that are one program but for layout and comments."""
    try:
        body = ast.dump(parse(candidate.code)) if candidate.problem is None else ""
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        body = candidate.code
    return hashlib.sha256(f"{candidate.problem}:{body}".encode("utf-8", "surrogatepass")).hexdigest()
