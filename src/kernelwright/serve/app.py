"""The judge's HTTP routes. OpenAPI is at `/openapi.json`, a page to try it at `/docs`.

    POST   /v1/verify          one candidate; waits up to `wait_s`, then 202 with the id
    POST   /v1/verify/stream   many; one line of JSON per verdict, as they arrive
    GET    /v1/verdicts/ID     a verdict by id; 202 until it is known
    DELETE /v1/verdicts/ID     cancel
    GET    /v1/tasks           names of the server's tasks; /v1/tasks/NAME: one
    GET    /v1/health, /metrics

A task sent with a request is untrusted Python unless it is a graph. The judge executes references, so the server refuses
such tasks unless started with `allow_source`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from pydantic import BaseModel, ConfigDict, Field

from kernelwright import __version__, candidates
from kernelwright.graph.printed import is_printed
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.rollouts import Verifier
from kernelwright.serve.guard import Guard
from kernelwright.serve.jobs import Full, Job, Jobs
from kernelwright.serve.store import VerdictStore
from kernelwright.verify.remote import VerifyAnswer, VerifyRequest

_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60)
_AT_ONCE = 16
"""Most jobs of one stream that run at once."""


@dataclass(frozen=True)
class Settings:
    """Settings of a server."""

    tokens: tuple[str, ...] = ()
    """Accepted tokens; if there are none, everybody who can reach the port is accepted."""
    queue: int = 256
    """Most requests judged or waiting at once; more get 429."""
    per_token: int = 128
    """The same for one token."""
    largest_body: int = 4 << 20
    """Largest request body in bytes."""
    allow_source: bool = False
    """Accept tasks that are Python text. The judge executes them, so only for clients you trust."""
    store: str = ":memory:"
    """SQLite file of verdicts and unfinished requests."""
    judge: Mapping[str, str] = field(default_factory=dict)
    """The judge's protocol, backend and target, which are part of every verdict's identity."""


class StreamRequest(BaseModel):
    """Body of `POST /v1/verify/stream`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    requests: tuple[VerifyRequest, ...] = Field(min_length=1, max_length=1024)


class StreamLine(BaseModel):
    """One line of a stream's answer."""

    index: int
    """Index of the request that it answers."""
    answer: VerifyAnswer | None = None
    error: str = ""
    """Why there is no answer, if the request was refused."""


class Refused(HTTPException):
    """A request that the server refuses; carries the HTTP status."""


def create_app(pool: Verifier, tasks: Sequence[Task], settings: Settings = Settings()) -> FastAPI:
    """The application around a pool, which the caller closes. Raises UserError for a file that is not a store."""
    service = _Service(pool, tasks, settings)

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        service.open()
        yield
        service.store.close()

    app = FastAPI(title="Kernelwright's judge", version=__version__, lifespan=life)
    app.add_middleware(Guard, tokens=settings.tokens, largest=settings.largest_body)
    app.add_exception_handler(RequestValidationError, _describe_error)
    app.state.service = service
    app.post("/v1/verify", response_model=VerifyAnswer)(service.verify)
    app.post("/v1/verify/stream")(service.stream)
    app.get("/v1/verdicts/{key}", response_model=VerifyAnswer)(service.verdict)
    app.delete("/v1/verdicts/{key}")(service.cancel)
    app.get("/v1/tasks")(service.names)
    app.get("/v1/tasks/{name:path}", response_model=Task)(service.task)
    app.get("/v1/health")(service.health)
    app.get("/metrics")(service.metrics)
    return app


class _Service:
    """The routes and their shared state."""

    def __init__(self, pool: Verifier, tasks: Sequence[Task], settings: Settings) -> None:
        self.settings, self._pool = settings, pool
        self._tasks = {task.id: task for task in tasks}
        self._trusted = {task.digest for task in tasks}
        self.store = VerdictStore(settings.store)
        self._registry = CollectorRegistry()
        self._verdicts = Counter("kernelwright_verdicts", "Verdicts", ["outcome"], registry=self._registry)
        self._seconds = Histogram(
            "kernelwright_verdict_seconds",
            "From request to verdict",
            buckets=_BUCKETS,
            registry=self._registry,
        )
        for name, about, count in (
            ("queue", "Requests judged or waiting", lambda: len(self.jobs.running)),
            ("refused", "Requests refused for a full queue", lambda: self.jobs.tally.refused),
            ("cached", "Answers from the store", lambda: self.jobs.tally.cached),
        ):
            Gauge(f"kernelwright_{name}", about, registry=self._registry).set_function(count)

    def open(self) -> None:
        salt = "/".join(f"{name}={value}" for name, value in sorted(self.settings.judge.items()))
        self.jobs = Jobs(self._pool, self.store, salt, self.settings.queue, self.settings.per_token)
        self.jobs.on_verdict = self._count
        self.jobs.resume()

    def _count(self, verdict: Verdict, seconds: float) -> None:
        self._verdicts.labels(verdict.outcome.value).inc()
        self._seconds.observe(seconds)

    async def verify(self, body: VerifyRequest, request: Request) -> Response:
        """Judge one candidate for one task. 429 with Retry-After if the queue is full; repeating a request costs nothing."""
        task, candidate = self._read(body)
        key = self.jobs.identity(task, candidate)
        known = self.jobs.known(key)
        if known is not None:
            return _answer(VerifyAnswer(id=key, verdict=known, cached=True))
        try:
            job = self.jobs.begin(key, request.state.caller, task, candidate)
        except Full as full:
            whose = "this server's" if full.scope == "server" else "this token's"
            return JSONResponse(
                {"detail": f"{whose} queue is full: try again"}, status_code=429, headers={"Retry-After": "1"}
            )
        return _answer(await self._wait(job, body.wait_s, request.is_disconnected))

    async def stream(self, body: StreamRequest, request: Request) -> StreamingResponse:
        """Judge many candidates. One line per candidate, in the order in which verdicts arrive."""
        return StreamingResponse(self._lines(body, request), media_type="application/x-ndjson")

    async def _lines(self, body: StreamRequest, request: Request) -> AsyncIterator[bytes]:
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(index: int) -> StreamLine:
            async with places:
                try:
                    task, candidate = self._read(body.requests[index])
                except HTTPException as refused:
                    return StreamLine(index=index, error=str(refused.detail))
                key = self.jobs.identity(task, candidate)
                known = self.jobs.known(key)
                if known is not None:
                    return StreamLine(index=index, answer=VerifyAnswer(id=key, verdict=known, cached=True))
                job = await self.jobs.begin_when_free(key, request.state.caller, task, candidate)
                answer = await self._wait(job, body.requests[index].wait_s, request.is_disconnected)
                return StreamLine(index=index, answer=answer)

        waiting = [asyncio.ensure_future(one(index)) for index in range(len(body.requests))]
        try:
            for done in asyncio.as_completed(waiting):
                yield (await done).model_dump_json().encode() + b"\n"
        finally:
            for future in waiting:
                future.cancel()

    async def _wait(self, job: Job, seconds: float, gone: Callable[[], Awaitable[bool]]) -> VerifyAnswer:
        return VerifyAnswer(id=job.id, verdict=await self.jobs.wait(job, seconds, gone))

    async def verdict(self, key: str) -> Response:
        """A verdict by its id: 200; 202 while it is being judged; 404 if nobody asked for it."""
        known = self.jobs.known(key)
        if known is None and key not in self.jobs.running:
            raise Refused(404, f"no verdict {key[:40]}: POST /v1/verify asks for one")
        return _answer(VerifyAnswer(id=key, verdict=known, cached=known is not None))

    async def cancel(self, key: str) -> dict[str, bool]:
        """Cancel a request for everybody who waits for it."""
        return {"cancelled": self.jobs.cancel(key)}

    async def names(self) -> list[dict[str, Any]]:
        """The tasks that clients can name."""
        return [{"id": t.id, "family": t.family, "difficulty": t.difficulty} for t in self._tasks.values()]

    async def task(self, name: str) -> Task:
        """One task, with its reference's source."""
        if name not in self._tasks:
            raise Refused(404, f"no task {name[:80]}: GET /v1/tasks lists them")
        return self._tasks[name]

    async def health(self) -> dict[str, Any]:
        """Status, version, judge and queue length."""
        return {
            "status": "ok",
            "version": __version__,
            "judge": dict(self.settings.judge),
            "queue": len(self.jobs.running),
            "limit": self.settings.queue,
            "tasks": len(self._tasks),
            "takes_source": self.settings.allow_source,
        }

    async def metrics(self) -> Response:
        """Metrics for Prometheus."""
        return PlainTextResponse(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    def _read(self, body: VerifyRequest) -> tuple[Task, Candidate]:
        """The task and the candidate of a request. Raises Refused."""
        candidate = body.candidate
        if candidate is None:
            if not body.completion:
                raise Refused(422, "no candidate: give `candidate` or `completion`")
            candidate = candidates.parse(body.completion)
        if body.task is None:
            if body.task_id not in self._tasks:
                raise Refused(
                    404, f"no task {body.task_id[:80]!r} here: GET /v1/tasks lists them, or send `task`"
                )
            return self._tasks[body.task_id], candidate
        if self.settings.allow_source or body.task.digest in self._trusted or is_printed(body.task):
            return body.task, candidate
        raise Refused(
            403,
            "this server does not execute task sources of clients: name a task_id, send a graph's task, or start it with "
            "--allow-source",
        )


async def _describe_error(request: Request, error: Exception) -> Response:
    """Report an invalid body in one line, without echoing it: it may not even be JSON."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "body"
    return JSONResponse({"detail": f"{where}: {first['msg']}"}, status_code=422)


def _answer(answer: VerifyAnswer) -> Response:
    return Response(
        answer.model_dump_json(),
        status_code=202 if answer.verdict is None else 200,
        media_type="application/json",
    )
