"""Judges on every machine of a Ray cluster, with the pool's own interface.

    with ClusterPool("auto") as pool:            # or "ray://head:10001", or the address of a running cluster
        verdict = pool.verify(task, candidate)

One actor per machine holds an ordinary `VerifierPool` with that machine's GPUs, or its cores. If an actor dies, with its
process or its machine, its candidates go back into the queue and Ray starts it again. Each candidate is answered once.
Ray places actors, restarts them and finds machines.

Machines share no verdicts: each actor makes a task's cases for itself.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from kernelwright.errors import InfrastructureError, UserError
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.verify.batch import Pool

_TRIES = 5
"""After this many judges died over one candidate, it gets an InfrastructureError."""
_BACK_S = 60.0
"""A lost actor that is not back after this many seconds, on any machine, is given up."""
_SILENT_S, _PING_S = 5.0, 30.0
"""An actor silent for the first is pinged, and has the second to answer: one that makes a task's cases on a GPU may be busy for
longer than a few seconds, and judging its candidates again would double its work."""
_POLL_S = 5.0
"""Seconds between looks for machines that joined."""


@dataclass
class _Case:
    task: Task
    candidate: Candidate
    future: Future[Verdict] = field(default_factory=Future)
    lost: int = 0


class Actor:
    """Runs on a machine; `ClusterPool` makes it a Ray actor."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        from kernelwright.verify.pool import VerifierPool

        self._pool = VerifierPool(**options)

    def judge(self, task: str, candidate: str) -> str:
        """Records in and out as JSON, so that machines may run different versions of pydantic."""
        return self._pool.verify(
            Task.model_validate_json(task), Candidate.model_validate_json(candidate)
        ).model_dump_json()

    def ready(self) -> bool:
        return True


class ClusterPool(Pool):
    """Judges candidates on a Ray cluster; thread-safe.

    `address` is as for `ray.init`; `at_once`: candidates that a machine judges at once (0: one per core). `options` are
    `VerifierPool`'s. Raises UserError without Ray, or if there is no cluster at `address`.
    """

    gpus: tuple[()] = ()
    backend = "remote"

    def __init__(self, address: str = "auto", at_once: int = 0, **options: object) -> None:
        try:
            import ray
        except ImportError:
            raise UserError("--judge ray://... needs Ray: pip install 'kernelwright[ray]'") from None
        self._ray = ray
        if not ray.is_initialized():
            try:
                _reach(address)
                ray.init(address=address, log_to_driver=False, configure_logging=False)
            except (OSError, ValueError, RuntimeError) as error:
                raise UserError(
                    f"no Ray cluster at {address} ({' '.join(str(error).split())[:160]}); start one with `ray start --head`"
                ) from None
        self._options, self._at_once = options, at_once
        self._cases: queue.Queue[_Case | None] = queue.Queue()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._machines: dict[str, int] = {}
        self._threads: list[threading.Thread] = []
        self._add_machines()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="cluster-watch")
        self._watcher.start()

    @property
    def machines(self) -> int:
        """Number of machines that judge now."""
        with self._lock:
            return len(self._machines)

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        """Start judging; `.result()` is the verdict. Cancelling a future that has not started is free."""
        case = _Case(task, candidate)
        self._cases.put(case)
        return case.future

    def close(self, abort: bool = False) -> None:
        """End the actors, not the cluster. Waits for running verifications, or with `abort` abandons them."""
        self._closed.set()
        with contextlib.suppress(queue.Empty):
            while abort:
                case = self._cases.get_nowait()
                if case is not None:
                    case.future.cancel()
        for _ in self._threads:
            self._cases.put(None)
        for thread in self._threads:
            thread.join(timeout=1.0 if abort else None)

    def _watch(self) -> None:
        """Start an actor on each machine that joins."""
        while not self._closed.wait(_POLL_S):
            self._add_machines()

    def _add_machines(self) -> None:
        for node in self._ray.nodes():
            name = node["NodeID"]
            with self._lock:
                if not node["Alive"] or name in self._machines or self._closed.is_set():
                    continue
                slots = self._at_once or max(1, int(node["Resources"].get("CPU", 1)))
                self._machines[name] = slots
            self._start(name, slots, node["Resources"])

    def _start(self, name: str, slots: int, resources: Mapping[str, float]) -> None:
        """Start an actor on a machine, and a thread here for each candidate that it judges at once."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        options = {"workers": slots, **self._options}
        remote = self._ray.remote(Actor).options(
            num_cpus=min(1.0, resources.get("CPU", 0.0)),
            num_gpus=resources.get("GPU", 0.0),
            max_concurrency=slots + 1,
            max_restarts=-1,
            max_task_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(name, soft=True),
        )
        actor = remote.remote(options)
        for number in range(slots):
            thread = threading.Thread(
                target=self._serve, args=(name, actor), daemon=True, name=f"judge-{name[:6]}-{number}"
            )
            self._threads.append(thread)
            thread.start()

    def _serve(self, name: str, actor: object) -> None:
        """Send cases to one actor until the pool is closed or the actor is given up."""
        while (case := self._cases.get()) is not None:
            if not (case.lost or case.future.set_running_or_notify_cancel()):
                continue
            try:
                case.future.set_result(self._ask(actor, case))
            except self._ray.exceptions.RayTaskError as error:
                case.future.set_exception(_remote_error(error))
            except self._ray.exceptions.RayError as error:
                self._requeue(case, error)
                if not self._is_back(actor):
                    self._give_up(name)
                    return

    def _ask(self, actor: Any, case: _Case) -> Verdict:
        """A verdict from an actor. Raises RayError if the actor is lost. We ping a slow actor, since a call to a machine that
        vanished may never return."""
        answer = actor.judge.remote(case.task.model_dump_json(), case.candidate.model_dump_json())
        while True:
            try:
                return Verdict.model_validate_json(self._ray.get(answer, timeout=_SILENT_S))
            except self._ray.exceptions.GetTimeoutError:
                self._ray.get(actor.ready.remote(), timeout=_PING_S)

    def _requeue(self, case: _Case, error: Exception) -> None:
        """Put the case back into the queue, unless judges keep dying over it."""
        case.lost += 1
        if case.lost < _TRIES and not self._closed.is_set():
            self._cases.put(case)
            return
        case.future.set_exception(
            InfrastructureError(
                f"{case.lost} judges died over one candidate; the last: {type(error).__name__}"
            )
        )

    def _is_back(self, actor: Any) -> bool:
        """Whether Ray has started the actor again, here or on another machine."""
        try:
            return bool(self._ray.get(actor.ready.remote(), timeout=_BACK_S))
        except self._ray.exceptions.RayError:
            return False

    def _give_up(self, name: str) -> None:
        """Remove one slot. If no machine is left, all waiting candidates get an InfrastructureError."""
        with self._lock:
            left = self._machines.get(name, 0) - 1
            if left > 0:
                self._machines[name] = left
            else:
                self._machines.pop(name, None)
            nobody = not self._machines
        while nobody:
            try:
                case = self._cases.get_nowait()
            except queue.Empty:
                return
            if case is not None:
                case.future.set_exception(InfrastructureError("no machine of the cluster is left to judge"))


def _reach(address: str) -> None:
    """Raises OSError if nobody listens there; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=5).close()


def _remote_error(error: object) -> Exception:
    """The exception that the remote pool raised: UserError for a broken task, else InfrastructureError."""
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, UserError | InfrastructureError):
        return cause
    return InfrastructureError(f"a judge raised {' '.join(str(cause).split())[:300]}")
