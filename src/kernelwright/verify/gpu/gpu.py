"""One GPU: its warm device processes, its memory admission (`gpu/admission.py`), and its lock for timing.

Several candidates are checked at once under a shared lock; timing takes it exclusively, also against other pools on
the same GPU (one lock file per GPU). Waiting timers go first, so that they are not starved, and several in a row; checks
give way to them between two calls. A trainer that uses the GPU for long blocks timing only; checks go on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from kernelwright.errors import InfrastructureError, UserError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.verify.confined import Confined, Stop
from kernelwright.verify.gpu.admission import Admission, TorchMemory
from kernelwright.verify.sandbox.zygote import Zygote

_START_S = 120.0
_ANSWER_S = 30.0
_MOST_FAILURES = 3
"""After this many failed starts of a device process in a row, the GPU is given up."""
_CLOCKS_IN_A_ROW = 8
"""Timings of one process in a row before others get the GPU."""
_LIKE_A_LOST_GPU = (Outcome.RUNTIME_ERROR, Outcome.OUT_OF_BOUNDS, Outcome.TIMEOUT, Outcome.EARLY_EXIT)


class Share:
    """Shared use of a GPU by one verification."""

    def __init__(self, path: Path, turn: Path) -> None:
        self._path, self._turn = path, turn
        self._held = self._taken()

    def _taken(self) -> int:
        with _flock(self._turn, fcntl.LOCK_SH):
            return _open(self._path, fcntl.LOCK_SH)

    def give_way(self) -> None:
        """Let timers that wait go first. To be called where this verification needs nothing of the GPU."""
        with contextlib.suppress(BlockingIOError), _flock(self._turn, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return
        self.close()
        self._held = self._taken()

    def close(self) -> None:
        os.close(self._held)


class Lock:
    """Shared for correctness, exclusive for timing, across threads and processes."""

    def __init__(self, path: Path) -> None:
        self._path, self._turn, self._busy = path, path.with_suffix(".turn"), path.with_suffix(".busy")
        self._clock, self._count = threading.Lock(), threading.Lock()
        self._waiting = self._in_a_row = 0
        self._held: contextlib.ExitStack | None = None
        """Locks that one timer of this process took and leaves to the next."""

    @contextlib.contextmanager
    def shared(self) -> Iterator[Share]:
        """For work that lets timers go first (`Share.give_way`) about every second."""
        share = Share(self._path, self._turn)
        try:
            yield share
        finally:
            share.close()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """For long work: no timer runs meanwhile, and a timer that waits for it does not hold up `shared` work."""
        with _flock(self._busy, fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """For timing. While it waits for shared work to finish, it holds the turn so that no more starts; afterwards it passes
        the locks to the next timer that waits in this process."""
        with self._count:
            self._waiting += 1
        with self._clock:
            with self._count:
                self._waiting -= 1
            if self._held is None:
                self._held, self._in_a_row = self._lock_all(), 0
            self._in_a_row += 1
            try:
                yield
            finally:
                with self._count:
                    on = self._waiting > 0 and self._in_a_row < _CLOCKS_IN_A_ROW
                if not on:
                    self._held.close()
                    self._held = None

    def _lock_all(self) -> contextlib.ExitStack:
        with contextlib.ExitStack() as held:
            held.enter_context(_flock(self._busy, fcntl.LOCK_EX))
            with _flock(self._turn, fcntl.LOCK_EX):
                held.enter_context(_flock(self._path, fcntl.LOCK_EX))
            return held.pop_all()


@contextlib.contextmanager
def _flock(path: Path, kind: int) -> Iterator[None]:
    held = _open(path, kind)
    try:
        yield
    finally:
        os.close(held)


def _open(path: Path, kind: int) -> int:
    """Wait for a lock on a file; with LOCK_NB raises BlockingIOError instead. It ends with the descriptor, so a killed process releases it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, kind)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def count() -> int:
    """How many GPUs torch sees."""
    return int(torch.cuda.device_count())


class Gpu:
    """One GPU and its device processes. Thread-safe."""

    def __init__(self, index: int = 0) -> None:
        if not torch.cuda.is_available():
            raise UserError("backend 'cuda' needs a GPU that torch can use: choose --backend interpret here")
        if not 0 <= index < torch.cuda.device_count():
            raise UserError(f"there is no GPU {index}: this machine has 0 to {torch.cuda.device_count() - 1}")
        self.index = index
        properties = torch.cuda.get_device_properties(index)
        self.name = str(properties.name)
        self.capability = f"{properties.major}{properties.minor}"
        self.admission = Admission(TorchMemory(index))
        identity = str(getattr(properties, "uuid", index)).replace("/", "_")
        folder = Path(tempfile.gettempdir()) / f"kernelwright-gpu-{os.getuid()}"
        folder.mkdir(exist_ok=True)
        self.lock = Lock(folder / f"{identity}.lock")
        self.verifications = 0
        """Verifications now running."""
        self.lost = ""
        """Why the GPU was given up; empty while it works."""
        self.spent = {"cases": 0.0, "clock": 0.0}
        """Seconds so far of computing references (concurrent ones each count) and of timing with the GPU to itself."""
        self._failures = 0
        self._idle: list[Confined] = []
        self._guard = threading.Lock()

    @contextlib.contextmanager
    def counted(self, what: str) -> Iterator[None]:
        """Add the seconds of this block to `spent[what]`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            with self._guard:
                self.spent[what] += time.perf_counter() - start

    @contextlib.contextmanager
    def process(self, zygote: Zygote) -> Iterator[Confined]:
        """A device process, a warm one if there is one. After any failure it is not used again.

        A candidate is blamed for a broken process only if the GPU still answers; otherwise raises InfrastructureError.
        """
        process = self._take_idle() or self.fresh(zygote)
        try:
            yield process
        except Stop as stop:
            process.dismiss()
            if stop.outcome in _LIKE_A_LOST_GPU:
                self.check(zygote)
            raise
        except BaseException:
            process.dismiss()
            raise
        self._keep(process)

    def check(self, zygote: Zygote) -> None:
        """Raises InfrastructureError unless a device process, idle or new, answers."""
        process = self._take_idle()
        if process is not None:
            process.deadline, process.limit_s = time.monotonic() + _ANSWER_S, _ANSWER_S
            with contextlib.suppress(Stop, InfrastructureError):
                process.ask(Gate.LOAD, {"command": "close"})  # waits for the device
                self._keep(process)
                return
            process.dismiss()
        self._keep(self.fresh(zygote))

    def fresh(self, zygote: Zygote) -> Confined:
        """A new device process with a CUDA context. Raises InfrastructureError, at once if the GPU was given up."""
        if self.lost:
            raise InfrastructureError(self.lost)
        process = None
        try:
            process = Confined(zygote, "cuda", time.monotonic() + _START_S, _START_S, self.index)
            process.ask(Gate.LOAD, {"command": "close"})  # waits for its context
        except (Stop, InfrastructureError) as error:
            if process is not None:
                process.dismiss()
            if not zygote.alive:
                raise InfrastructureError(str(error)) from None
            raise self._note_failure(" ".join(str(error).split())[:200]) from None
        with self._guard:
            self._failures = 0
        return process

    def _note_failure(self, why: str) -> InfrastructureError:
        with self._guard:
            self._failures += 1
            if self._failures >= _MOST_FAILURES:
                self.lost = (
                    f"GPU {self.index} is lost: no process could use it, {self._failures} times in a row ({why}); "
                    "see nvidia-smi and kernelwright doctor, then run again"
                )
        return InfrastructureError(self.lost or f"no device process on GPU {self.index}: {why}")

    def _take_idle(self) -> Confined | None:
        with self._guard:
            while self._idle:
                process = self._idle.pop()
                if process.alive:
                    return process
        return None

    def _keep(self, process: Confined) -> None:
        if process.alive:
            with self._guard:
                self._idle.append(process)

    def close(self) -> None:
        """End all device processes and give this process's unused GPU memory back."""
        self.end_idle()
        with contextlib.suppress(torch.AcceleratorError):  # the GPU is lost, and its memory with it
            TorchMemory(self.index).give_back()

    def end_idle(self) -> None:
        """End the idle device processes: each holds a context and cached memory."""
        with self._guard:
            for process in self._idle:
                process.dismiss()
            self._idle.clear()
