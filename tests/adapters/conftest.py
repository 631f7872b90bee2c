"""One judge for all adapters' tests, and a dead one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from kernelwright.adapters import grading
from kernelwright.errors import InfrastructureError
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.rollouts import Judge
from kernelwright.verify import VerifierPool


class DeadJudge:
    """A server that does not come back."""

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        future: Future[Verdict] = Future()
        future.set_exception(InfrastructureError("the judge did not answer"))
        return future


@pytest.fixture(scope="session")
def pool() -> Iterator[VerifierPool]:
    with VerifierPool(2, backend="interpret", kept=True) as pool:
        yield pool


@pytest.fixture
def grader(pool: VerifierPool, monkeypatch: pytest.MonkeyPatch) -> grading.Grader:
    """The local judge, as every adapter's default."""
    made = grading.Grader(Judge(pool))
    _use(made, monkeypatch)
    return made


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead judge, as every adapter's default."""
    _use(grading.Grader(DeadJudge()), monkeypatch)


def _use(made: grading.Grader, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name, module in list(sys.modules.items()):
        if name.startswith("kernelwright.adapters.") and hasattr(module, "default_grader"):
            monkeypatch.setattr(module, "default_grader", lambda preset="wright": made)
