"""A judge that answers at once, or on demand, behind a real server on its own port."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
import uvicorn

from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.serve.app import Settings, create_app

RELU = Task(id="suite/relu", suite="suite", source="class Model: ...", shapes={"small": {"N": 4}})


def verdict(task: Task, candidate: Candidate, outcome: Outcome = Outcome.WRONG_VALUE) -> Verdict:
    return Verdict(task_id=task.id, outcome=outcome, gate=Gate.SMALL, candidate_digest=candidate.digest)


class FakePool:
    """Answers at once, or when released if it is held."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.held = False
        self.broken = False
        self.futures: list[tuple[Future[Verdict], Verdict]] = []

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        self.asked.append(candidate.code)
        future: Future[Verdict] = Future()
        outcome = Outcome.INFRASTRUCTURE_ERROR if self.broken else Outcome.WRONG_VALUE
        self.futures.append((future, verdict(task, candidate, outcome)))
        if not self.held:
            self.let_go()
        return future

    def let_go(self) -> None:
        self.held = False
        for future, answer in self.futures:
            if not future.done() and future.set_running_or_notify_cancel():
                future.set_result(answer)


class Served:
    """A server in a thread."""

    def __init__(self, pool: FakePool, settings: Settings) -> None:
        self.pool = pool
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.app = create_app(pool, [RELU], settings)
        config = uvicorn.Config(self.app, log_level="error", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listening]}, daemon=True)
        self.thread.start()
        wait_for(lambda: self.server.started)

    @property
    def jobs(self) -> Any:
        return self.app.state.service.jobs

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(10)


def wait_for(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Starts servers: `serve(pool=..., queue=2, ...)`."""
    started: list[Served] = []

    def start(pool: FakePool | None = None, **settings: Any) -> Served:
        judge = {"protocol": "strict", "backend": "interpret", "target": "h200"}
        started.append(Served(pool or FakePool(), replace(Settings(judge=judge), **settings)))
        return started[-1]

    yield start
    for one in started:
        one.pool.let_go()
        one.stop()
