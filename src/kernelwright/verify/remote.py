"""A client of `kernelwright serve` with the pool's interface: judges over HTTP.

    with RemotePool("http://judge-1:8040,http://judge-2:8040", token="...") as pool:
        verdict = pool.verify(task, candidate)

Requests are idempotent by content, so a request whose answer was lost is sent again, to the next server if there are
several. If a server is full, we wait. If no server answers in time, we raise InfrastructureError, which a rollout records
as the judge's failure, never as the candidate's.

Does not guarantee that servers run the same version: `describe` returns each one's.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernelwright.errors import InfrastructureError, UserError
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.verify.batch import Pool

if TYPE_CHECKING:
    import httpx

TOKEN_VARIABLE = "KERNELWRIGHT_TOKEN"
_CONNECTIONS = 64
_LONGEST_PAUSE_S = 5.0


class VerifyRequest(BaseModel):
    """Body of `POST /v1/verify`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    task: Task | None = None
    """The task, if it is a graph or the server accepts task sources; else None."""
    task_id: str = ""
    """Name of a task that the server knows, such as `wright/relu`, if `task` is not given."""
    candidate: Candidate | None = None
    completion: str = ""
    """A model's answer to parse the candidate from, if `candidate` is not given."""
    wait_s: float = Field(default=60.0, ge=0, le=600)
    """Seconds to wait for the verdict; then the answer is 202 with an id to ask for later."""


class VerifyAnswer(BaseModel):
    """Answer of `POST /v1/verify` and `GET /v1/verdicts/ID`."""

    id: str
    """Identity of (judge, task, candidate)."""
    verdict: Verdict | None = None
    """None until it is known."""
    cached: bool = False
    """Whether it was known before this request."""


class RemotePool(Pool):
    """Judges candidates on servers; thread-safe. Replaces `VerifierPool` unless the caller shares its GPU with the judge.

    `urls` are separated by commas. `token` defaults to the environment's KERNELWRIGHT_TOKEN. After `patience_s` seconds
    without a verdict the judge counts as failed. Raises UserError for a malformed address, a wrong token, or a task that
    the server refuses.
    """

    gpus: tuple[()] = ()
    backend = "remote"

    def __init__(
        self, urls: str, token: str | None = None, *, patience_s: float = 600.0, workers: int = _CONNECTIONS
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise UserError("--judge http://... needs httpx: pip install 'kernelwright[serve]'") from None
        self.urls = [url.strip().rstrip("/") for url in urls.split(",") if url.strip()]
        wrong = [url for url in self.urls if not url.startswith(("http://", "https://"))]
        if wrong or not self.urls:
            raise UserError(f"judge address {urls!r}: give http://HOST:PORT, several with commas between")
        token = os.environ.get(TOKEN_VARIABLE, "") if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        limits = httpx.Limits(max_connections=workers, max_keepalive_connections=workers)
        self._http: httpx.Client = httpx.Client(headers=headers, limits=limits, timeout=30.0, trust_env=False)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="remote-judge")
        self._turn = itertools.count()
        self._closed = threading.Event()
        self.patience_s = patience_s

    def describe(self) -> list[dict[str, Any]]:
        """Each server's version, backend, protocol and target. Raises InfrastructureError."""
        import httpx

        try:
            return [self._http.get(f"{url}/v1/health").raise_for_status().json() for url in self.urls]
        except httpx.HTTPError as error:
            raise InfrastructureError(f"the judge does not answer: {_reason(error)}") from None

    def reach(self) -> None:
        """Raises InfrastructureError if no server answers, so that a wrong address is reported at once."""
        import httpx

        reason = ""
        for url in self.urls:
            try:
                self._http.get(f"{url}/v1/health", timeout=10.0)
                return
            except httpx.HTTPError as error:
                reason = f"{url}: {_reason(error)}"
        raise InfrastructureError(
            f"no judge answers at {reason}; start one with kernelwright serve, or fix --judge"
        )

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        """Ask for a verdict; cancelling a future that has not started is free."""
        return self._threads.submit(self._ask, task, candidate)

    def close(self, abort: bool = False) -> None:
        """End the pool. Waits for open requests, or with `abort` abandons them."""
        if abort:
            self._closed.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._http.close()

    def _ask(self, task: Task, candidate: Candidate) -> Verdict:
        """One verdict, tried on all servers until `patience_s` has passed."""
        body = VerifyRequest(task=task, candidate=candidate, wait_s=25.0).model_dump_json().encode()
        began, first, pause, reason = time.monotonic(), next(self._turn), 0.05, "no server was asked"
        for turn in itertools.count(first):
            if self._closed.is_set() or time.monotonic() - began > self.patience_s:
                break
            answer, reason, wait = self._try(self.urls[turn % len(self.urls)], body, candidate)
            if answer is not None:
                return answer
            if wait is None and (turn - first + 1) % len(self.urls):
                continue  # try the next server at once
            self._closed.wait(min(wait or pause, _LONGEST_PAUSE_S))
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        raise InfrastructureError(f"the judge did not answer in {self.patience_s:g} s: {reason}")

    def _try(self, url: str, body: bytes, candidate: Candidate) -> tuple[Verdict | None, str, float | None]:
        """(verdict or None, why none, seconds to wait or None if the server does not answer properly)."""
        import httpx

        try:
            response = self._http.post(
                f"{url}/v1/verify", content=body, headers={"Content-Type": "application/json"}, timeout=40.0
            )
        except httpx.HTTPError as error:
            return None, f"{url}: {_reason(error)}", None
        if response.status_code in (401, 403, 404, 413, 422):
            raise UserError(f"{url} refuses the request ({response.status_code}): {_detail(response)}")
        if response.status_code in (429, 503):
            return None, f"{url} is full", float(response.headers.get("Retry-After", "1"))
        if response.status_code == 202:
            return None, f"{url} is still judging", 0.01
        if response.status_code != 200:
            return None, f"{url}: status {response.status_code}: {_detail(response)}", None
        try:
            verdict = VerifyAnswer.model_validate_json(response.content).verdict
        except ValidationError as error:
            return None, f"{url} answers in another form ({error.error_count()} errors)", None
        if verdict is not None and verdict.candidate_digest not in ("", candidate.digest):
            return None, f"{url} answers about another candidate", None
        return verdict, f"{url} knows no verdict", 0.5


def _detail(response: httpx.Response) -> str:
    try:
        return str(response.json().get("detail", ""))[:300]
    except (ValueError, AttributeError):
        return response.text[:100]


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
