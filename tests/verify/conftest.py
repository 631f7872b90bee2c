"""One pool for the whole museum: verifications run while the tests wait for them in turn."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from museum import DEADLINE_S, ENDLESS_DEADLINE_S, Exhibit, task_of

from kernelwright.records import Candidate, Verdict
from kernelwright.verify import VerifierPool

_GAPS = Path(__file__).with_name("known_gaps.txt")
_DISTRIBUTED = "PYTEST_XDIST_WORKER" in os.environ


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests listed in `known_gaps.txt` (`file::test  reason` per line) must fail until they are fixed and removed from it."""
    listed = [line.split(maxsplit=1) for line in _GAPS.read_text().splitlines() if line and line[0] != "#"]
    gaps = {name: reason for name, reason in listed}
    for item in items:
        reason = gaps.get(f"{item.path.name}::{item.name}")
        if reason is not None and item.path.parent == _GAPS.parent:
            item.add_marker(pytest.mark.xfail(strict=False, reason=reason))


@pytest.fixture(scope="session")
def pool() -> Iterator[VerifierPool]:
    """The interpreter under the strict protocol; one worker per test process when tests are distributed."""
    workers = 1 if _DISTRIBUTED else 2
    with VerifierPool(workers, "interpret", deadline_s=DEADLINE_S, kept=True) as pool:
        yield pool


@pytest.fixture(scope="session")
def impatient_pool() -> Iterator[VerifierPool]:
    """For candidates that never end by themselves."""
    with VerifierPool(workers=1, backend="interpret", deadline_s=ENDLESS_DEADLINE_S, kept=True) as pool:
        yield pool


@pytest.fixture(scope="session")
def verdict_of(
    pool: VerifierPool, impatient_pool: VerifierPool, request: pytest.FixtureRequest
) -> Callable[[Exhibit], Verdict]:
    """The verdict on an exhibit. In a single process, all collected exhibits are submitted at once."""
    futures: dict[Exhibit, Future[Verdict]] = {}

    def submit(exhibit: Exhibit) -> Future[Verdict]:
        if exhibit not in futures:
            chosen = impatient_pool if exhibit.endless else pool
            futures[exhibit] = chosen.submit(task_of(exhibit), Candidate(code=exhibit.code))
        return futures[exhibit]

    if not _DISTRIBUTED:
        for item in request.session.items:
            exhibit = getattr(getattr(item, "callspec", None), "params", {}).get("exhibit")
            if isinstance(exhibit, Exhibit):
                submit(exhibit)
    return lambda exhibit: submit(exhibit).result()
