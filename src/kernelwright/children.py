"""Child processes: a helper that answers questions in JSON lines, a function run in a forked child with limits, and a map over
all cores.

    class Squares(Helper):                          # in the calling module
        def __init__(self) -> None:
            super().__init__("squares", does="squares numbers")

    with Squares() as squares:
        squares.ask(3)                              # 9

    serve(lambda number: number**2)                 # at the end of `squares.py`, which runs as a program

A helper does slow imports once; code that may crash, hang or use too much memory goes to `run_forked`.

Limits contain accidents, not attacks: hostile code is confined by `verify.sandbox.confine`.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Self, TypeVar

from kernelwright import hardware
from kernelwright.errors import InfrastructureError

T = TypeVar("T")
R = TypeVar("R")
_MOST = 1 << 26
"""Most bytes read from one child; one that writes more is killed."""
MANY = 4096
"""Number of items from which other cores are used."""
_TOGETHER = 256


class Helper:
    """A process `python -m MODULE ARGUMENTS...` with one CPU thread and no GPU; a context manager."""

    def __init__(self, module: str, *arguments: str, does: str, quiet: bool = False) -> None:
        """`does`: for the message if it dies, "the helper process that `does`". `quiet`: drop its stderr."""
        self._command, self._does = [sys.executable, "-m", module, *arguments], does
        self._stderr = subprocess.DEVNULL if quiet else None
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)  # also kills a child that it may be waiting for
            self._process.communicate()
            self._process = None

    def ask(self, question: Any) -> Any:
        """Ask a question and return its answer, both JSON values. Raises InfrastructureError if the helper has died."""
        assert self._process is not None, f"use {type(self).__name__} as a context manager"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            raise InfrastructureError(f"the helper process that {self._does} has died; run again")
        return json.loads(answer)


def serve(answer: Callable[[Any], Any]) -> None:
    """The helper's side: `answer` every question until the other side closes the pipe."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # anything printed from here on must not look like an answer
    for line in sys.stdin:
        try:
            answers.write(json.dumps(answer(json.loads(line))) + "\n")
            answers.flush()
        except BrokenPipeError:  # the asking process was killed: there is nobody to answer
            os._exit(1)


@dataclass(frozen=True)
class Ended:
    """The output of a forked function, and how its process ended."""

    data: bytes
    status: int | None
    """0; 1 after an exception; a signal's number, negative; None after the time limit."""


def run_forked(
    function: Callable[[BinaryIO], object], seconds: float, memory: int = 0, cpu_seconds: int = 0
) -> Ended:
    """Run `function(out)` in a child without standard streams; the data is what it writes to `out`.

    Limits: `seconds` of wall clock; `memory`, bytes of address space, and `cpu_seconds`, both unlimited if 0.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            if memory:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            if cpu_seconds:  # at the soft limit SIGXCPU, which identifies it; at the hard limit SIGKILL
                resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
            out = os.fdopen(writer, "wb")
            function(out)
            out.flush()
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        data, in_time = _read_until(pipe, time.monotonic() + seconds)
    # It changed its user, and a container's root may not kill those.
    with contextlib.suppress(PermissionError):
        os.kill(child, signal.SIGKILL)  # not reaped yet, so its number has not been reused
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(data, status if in_time else None)


def _read_until(pipe: Any, deadline: float) -> tuple[bytes, bool]:
    """All output until the child closes the pipe, and whether that was before the deadline."""
    parts: list[bytes] = []
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = pipe.read(1 << 16)
        parts.append(part)
        if not part or sum(map(len, parts)) > _MOST:
            return b"".join(parts), True
    return b"".join(parts), False


def on_all_cores(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """`map(function, items)`, in forked processes if there are many items; `function` must not use a GPU. Each process gets 256
    consecutive items at a time, so that caches in `function` help neighbours."""
    cores = min(hardware.cores() // int(os.environ.get("WORLD_SIZE", "1")), 32)
    if len(items) < MANY or cores < 2:
        yield from map(function, items)
        return

    def begin() -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        _work.append(lambda start: [function(one) for one in items[start : start + _TOGETHER]])

    with multiprocessing.get_context("fork").Pool(cores, begin) as pool:
        for part in pool.imap(_part, range(0, len(items), _TOGETHER)):
            yield from part


_work: list[Callable[[int], list[Any]]] = []
"""The job of a process of `on_all_cores`; empty in other processes."""


def _part(start: int) -> list[Any]:
    return _work[0](start)
