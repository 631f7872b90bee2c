"""Splits a pool into several processes, each a judge with workers of its own for its share of the candidates.

A judge's own work (references, tapes, comparisons) is a quarter of a small kernel's verdict and half of a network's, in
one thread's Python however many workers it has; a dozen workers would wait for it. Without a GPU verifications share only
the secret, so a pool with many workers is several small ones. A task goes to the shard that has least to do, and its later
candidates to the same, which has its cases.

Shards are part of the judge: their answers are trusted.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from kernelwright.errors import InfrastructureError
from kernelwright.records import Candidate, Task, Verdict

WORKERS = 3
"""Workers that one judge can keep busy."""
_AHEAD = 5
"""Candidates that a shard may have beyond the idlest before a task's next candidate goes there."""
_FAREWELL_S = 3.0


@dataclass(eq=False)
class _Case:
    """A request to a shard, kept until it answers."""

    task: Task
    candidate: Candidate
    future: Future[Verdict] = field(default_factory=Future)
    again: bool = False
    """Whether a process that was asked before died."""


class Shards:
    """Judges in several processes. `submit` is thread-safe; processes start at once and warm up in parallel."""

    def __init__(
        self,
        workers: int,
        judges: int,
        options: dict[str, object],
        failed: Callable[[Task, Candidate, str], Verdict],
    ) -> None:
        """`workers`: total number of workers; `judges`: number of processes that share them; `options`: `VerifierPool`'s.
        `failed` makes the verdict on a candidate whose judge died twice."""
        shares = [workers // judges + (number < workers % judges) for number in range(judges)]
        self._shards = [_Shard({**options, "workers": share, "judges": 1}, failed) for share in shares]
        self._homes: dict[str, _Shard] = {}
        """By digest of a task, the shard that makes its cases."""
        self._lock = threading.Lock()

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        with self._lock:
            idlest, home = self._places(task)
            # Making a task's cases again is costly, but idle workers cost more.
            chosen = home if home.busy <= idlest.busy + _AHEAD else idlest
            return chosen.submit(task, candidate)

    def prepare(self, task: Task) -> None:
        """Have a task's cases made before its first candidate comes; returns at once."""
        with self._lock:
            self._places(task)[1].prepare(task)

    def _places(self, task: Task) -> tuple[_Shard, _Shard]:
        """The shard with least to do, and the task's own."""
        idlest = min(self._shards, key=lambda shard: (shard.busy, shard.asked))
        return idlest, self._homes.setdefault(task.digest, idlest)

    def close(self, abort: bool = False) -> None:
        """Waits for submitted candidates, or with `abort` cuts them off."""
        if not abort:
            wait([case.future for shard in self._shards for case in shard.cases()])
        for shard in self._shards:
            shard.end()
        for shard in self._shards:
            shard.join()


class _Shard:
    """One process, and the thread that listens to it. If it dies, it is replaced, and its requests are repeated once."""

    def __init__(self, options: dict[str, object], failed: Callable[[Task, Candidate, str], Verdict]) -> None:
        self._options, self._failed = options, failed
        self._lock = threading.Lock()
        self._pending: dict[int, _Case] = {}
        self._number = 0
        self._closed = self._dead = False
        self._start()

    @property
    def busy(self) -> int:
        """Number of candidates without an answer."""
        return len(self._pending)

    @property
    def asked(self) -> int:
        """Number of candidates and tasks so far."""
        return self._number

    def cases(self) -> list[_Case]:
        with self._lock:
            return list(self._pending.values())

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        case = _Case(task, candidate)
        with self._lock:
            if self._closed:
                raise InfrastructureError("the pool is closed")
            self._ask(case)
        return case.future

    def prepare(self, task: Task) -> None:
        """Make a task's cases; there is no answer."""
        with self._lock, contextlib.suppress(OSError):
            if not (self._closed or self._dead):
                self._number += 1
                self._connection.send((self._number, task, None))

    def end(self) -> None:
        """End the process; candidates without an answer fail."""
        with self._lock:
            self._closed = True
            # Not `close`, since the listening thread still reads from it.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        """Wait until the process has ended."""
        self._listener.join()

    def _start(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            # In its own session, so that Ctrl-C reaches only the pool, which then closes the connection. What torch warns of in a
            # reference is not the user's to hear once for every case.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kernelwright.verify.shard", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={
                    "TORCH_CPP_LOG_LEVEL": "ERROR",
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "CUDA_VISIBLE_DEVICES": "",
                },
            )
        self._connection = Connection(os.dup(self._socket.fileno()))
        with contextlib.suppress(OSError):
            self._connection.send(self._options)
        self._dead = False
        self._listener = threading.Thread(target=self._listen, name="shard", daemon=True)
        self._listener.start()

    def _ask(self, case: _Case) -> None:
        if self._dead:
            self._start()
        self._number += 1
        number = self._number
        self._pending[number] = case
        case.future.add_done_callback(lambda future: self._forget(number) if future.cancelled() else None)
        with contextlib.suppress(OSError):  # it died: the listener handles that
            self._connection.send((number, case.task, case.candidate))

    def _forget(self, number: int) -> None:
        """The caller cancelled the request: tell the process."""
        with self._lock, contextlib.suppress(OSError):
            if self._pending.pop(number, None) is not None and not self._dead:
                self._connection.send((number, None, None))

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, verdict, error = self._connection.recv()
                with self._lock:
                    case = self._pending.pop(number, None)
                if case is not None:
                    _settle(case.future, verdict, error)
        with self._lock:
            left, self._pending, self._dead = list(self._pending.values()), {}, True
            self._connection.close()
            self._socket.close()
            self._end()
            lost = [case for case in left if self._closed or case.again]
            problem = "the pool was closed" if self._closed else "the judge's process died, twice"
            for case in left:
                if case not in lost:
                    case.again = True
                    self._ask(case)
        for case in lost:
            _settle(case.future, self._failed(case.task, case.candidate, problem), None)

    def _end(self) -> None:
        try:
            self._process.wait(_FAREWELL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _settle(future: Future[Verdict], verdict: Verdict | None, error: BaseException | None) -> None:
    """Set the future's result or exception, unless the caller cancelled it."""
    if not future.set_running_or_notify_cancel():
        return
    if verdict is not None:
        future.set_result(verdict)
    else:
        future.set_exception(error or InfrastructureError("the judge's process gave no verdict"))
