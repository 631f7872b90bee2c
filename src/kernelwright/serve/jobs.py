"""Requests as jobs: bounded in number, idempotent by content, shared by all clients that ask, kept across a restart.

A job starts once, however many clients ask for it, and is cancelled if the last of them disconnects before it is judged. Runs
on the event loop's thread; verdicts arrive from the pool's threads.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kernelwright.errors import UserError, one_line
from kernelwright.outcomes import Outcome
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.rollouts import Verifier, unjudged
from kernelwright.serve.store import VerdictStore


class Full(Exception):
    """The queue is full; `scope` (`server` or `token`) says whose limit was reached."""

    def __init__(self, scope: str) -> None:
        super().__init__(scope)
        self.scope = scope


@dataclass
class Job:
    """One (task, candidate) being judged."""

    id: str
    caller: str
    future: asyncio.Future[Verdict]
    began: float
    waiting: int = 0
    """Number of requests waiting for it."""
    wanted: bool = False
    """Whether a client was told to ask again later: then it continues even if no request waits."""


@dataclass
class Tally:
    """Counts since the server started."""

    cached: int = 0
    refused: int = 0
    cancelled: int = 0


class Jobs:
    """At most `limit` jobs at once, and at most `per_caller` for one token."""

    def __init__(self, pool: Verifier, store: VerdictStore, salt: str, limit: int, per_caller: int) -> None:
        """`salt` names the judge's rules, so that verdicts under other rules have other identities."""
        self._pool, self._store, self._salt = pool, store, salt
        self.limit, self.per_caller = limit, per_caller
        self.running: dict[str, Job] = {}
        self.tally = Tally()
        self._free = asyncio.Event()
        self.on_verdict: Callable[[Verdict, float], None] = lambda verdict, seconds: None

    def identity(self, task: Task, candidate: Candidate) -> str:
        """24 hex digits of (judge, task, candidate)."""
        parts = (self._salt, task.id, task.digest, candidate.digest, str(candidate.problem), candidate.detail)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]

    def resume(self) -> None:
        """Start the jobs that an earlier process left unfinished."""
        for key, task, candidate in list(self._store.unfinished()):
            self._start(key, "", task, candidate).wanted = True

    def known(self, key: str) -> Verdict | None:
        """A verdict from the store."""
        found = self._store.get(key)
        if found is not None:
            self.tally.cached += 1
        return found

    def begin(self, key: str, caller: str, task: Task, candidate: Candidate) -> Job:
        """The job of that identity, started unless it is running. Raises Full."""
        if key in self.running:
            return self.running[key]
        if len(self.running) >= self.limit:
            self.tally.refused += 1
            raise Full("server")
        if caller and sum(job.caller == caller for job in self.running.values()) >= self.per_caller:
            self.tally.refused += 1
            raise Full("token")
        self._store.begin(key, task, candidate)
        return self._start(key, caller, task, candidate)

    async def begin_when_free(self, key: str, caller: str, task: Task, candidate: Candidate) -> Job:
        """Like `begin`, but waits for a free place: for streams, whose clients wait anyway."""
        while True:
            try:
                return self.begin(key, caller, task, candidate)
            except Full:
                self._free.clear()
                await self._free.wait()

    async def wait(self, job: Job, seconds: float, gone: Callable[[], Awaitable[bool]]) -> Verdict | None:
        """The verdict, or None if it takes longer than `seconds`. `gone()` says whether the client disconnected."""
        job.waiting += 1
        deadline = time.monotonic() + seconds
        try:
            while not job.future.done():
                remaining = deadline - time.monotonic()
                if remaining <= 0 or await gone():
                    break
                await asyncio.wait([job.future], timeout=min(remaining, 1.0))
            if job.future.done():
                return None if job.future.cancelled() else job.future.result()
            job.wanted = job.wanted or remaining <= 0
            return None
        finally:
            job.waiting -= 1
            if not job.waiting and not job.wanted and not job.future.done():
                self.cancel(job.id)

    def cancel(self, key: str) -> bool:
        """Cancel a job. A verification already running ends by itself. Returns whether there was such a job."""
        job = self.running.get(key)
        if job is None:
            return False
        self.tally.cancelled += 1
        job.future.cancel()
        return True

    def _start(self, key: str, caller: str, task: Task, candidate: Candidate) -> Job:
        loop = asyncio.get_running_loop()
        future = asyncio.wrap_future(self._pool.submit(task, candidate), loop=loop)
        job = Job(key, caller, loop.create_future(), time.monotonic())
        self.running[key] = job
        future.add_done_callback(lambda done: self._settle(job, task, candidate, done))
        job.future.add_done_callback(lambda done: future.cancel() if done.cancelled() else None)
        return job

    def _settle(self, job: Job, task: Task, candidate: Candidate, done: asyncio.Future[Verdict]) -> None:
        """Called on the event loop when a verdict arrives, the judge raises, or the job is cancelled."""
        self.running.pop(job.id, None)
        verdict = None if done.cancelled() else _verdict_of(done, task, candidate)
        kept = (
            verdict if verdict is not None and verdict.outcome is not Outcome.INFRASTRUCTURE_ERROR else None
        )
        self._store.end(job.id, kept)
        if verdict is not None:
            self.on_verdict(verdict, time.monotonic() - job.began)
            if not job.future.done():
                job.future.set_result(verdict)
        elif not job.future.done():
            job.future.cancel()
        self._free.set()


def _verdict_of(done: asyncio.Future[Verdict], task: Task, candidate: Candidate) -> Verdict:
    """The pool's verdict, or its exception as an infrastructure error, which excludes the sample."""
    error = done.exception()
    if error is None:
        return done.result()
    reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    return unjudged(task, candidate, one_line(reason, 300))
