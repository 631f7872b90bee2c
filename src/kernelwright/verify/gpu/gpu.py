"""One GPU as the judge holds it: trusted device processes kept warm, an account of its memory (`gpu/admission.py`), and a lock
for the clock.

Correctness of several candidates runs side by side under a shared lock; whoever times takes it exclusively, also
against other pools on the same GPU (lock files per GPU). Waiting clocks go first, so that they are not starved, and
several one after the other, so that correctness is not drained for each of them. A trainer that works on the GPU for
long keeps clocks away, and them only: correctness goes on beside it.
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
"""Device processes in a row that could not be started: then the GPU is given up."""
_CLOCKS_IN_A_ROW = 8
"""Of one process, before others get the GPU."""
_LIKE_A_LOST_GPU = (Outcome.RUNTIME_ERROR, Outcome.OUT_OF_BOUNDS, Outcome.TIMEOUT, Outcome.EARLY_EXIT)


class Lock:
    """Shared for correctness, exclusive for timing, across threads and processes."""

    def __init__(self, path: Path) -> None:
        self._path, self._turn, self._busy = path, path.with_suffix(".turn"), path.with_suffix(".busy")
        self._clock, self._count = threading.Lock(), threading.Lock()
        self._waiting = self._in_a_row = 0
        self._held: contextlib.ExitStack | None = None
        """What a clock of this process has locked, and leaves locked for the next."""

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """For work of at most a second or so: clocks wait for it."""
        with _flock(self._turn, fcntl.LOCK_SH):
            held = _open(self._path, fcntl.LOCK_SH)
        try:
            yield
        finally:
            os.close(held)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """For work that may last: no clock runs meanwhile, and none that waits for it holds up what is `shared`."""
        with _flock(self._busy, fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Whoever waits for sharers to finish holds the turn, so that no more come in; and hands on to who waits here."""
        with self._count:
            self._waiting += 1
        with self._clock:
            with self._count:
                self._waiting -= 1
            if self._held is None:
                self._held, self._in_a_row = self._alone(), 0
            self._in_a_row += 1
            try:
                yield
            finally:
                with self._count:
                    on = self._waiting > 0 and self._in_a_row < _CLOCKS_IN_A_ROW
                if not on:
                    self._held.close()
                    self._held = None

    def _alone(self) -> contextlib.ExitStack:
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
    """A lock on a file, waited for; it ends with the descriptor, so also with a killed process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    fcntl.flock(descriptor, kind)
    return descriptor


def count() -> int:
    """How many GPUs torch sees."""
    return int(torch.cuda.device_count())


class Gpu:
    """Device processes of one GPU. Thread-safe."""

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
        """Under way."""
        self.lost = ""
        """Why the GPU was given up; empty while it works."""
        self.spent = {"cases": 0.0, "clock": 0.0}
        """Seconds so far in which references were computed (several at once count each), and the GPU was one clock's."""
        self._failures = 0
        self._idle: list[Confined] = []
        self._guard = threading.Lock()

    @contextlib.contextmanager
    def counted(self, what: str) -> Iterator[None]:
        """What happens here is entered in `spent`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            with self._guard:
                self.spent[what] += time.perf_counter() - start

    @contextlib.contextmanager
    def process(self, zygote: Zygote) -> Iterator[Confined]:
        """A device process, warm where there is one. One that failed in any way is not used again.

        Whoever is said to have broken it has done so only if the GPU still answers: else InfrastructureError.
        """
        process = self._warm() or self.fresh(zygote)
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
        """Raises InfrastructureError unless a device process answers, an idle one or a new one."""
        process = self._warm()
        if process is not None:
            process.deadline, process.limit_s = time.monotonic() + _ANSWER_S, _ANSWER_S
            with contextlib.suppress(Stop, InfrastructureError):
                process.ask(Gate.LOAD, {"command": "close"})  # waits for the device
                self._keep(process)
                return
            process.dismiss()
        self._keep(self.fresh(zygote))

    def fresh(self, zygote: Zygote) -> Confined:
        """A device process with its context made. Raises InfrastructureError, at once when the GPU is lost."""
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
            raise self._failed(" ".join(str(error).split())[:200]) from None
        with self._guard:
            self._failures = 0
        return process

    def _failed(self, why: str) -> InfrastructureError:
        with self._guard:
            self._failures += 1
            if self._failures >= _MOST_FAILURES:
                self.lost = (
                    f"GPU {self.index} is lost: no process could use it, {self._failures} times in a row ({why}); "
                    "see nvidia-smi and kernelwright doctor, then run again"
                )
        return InfrastructureError(self.lost or f"no device process on GPU {self.index}: {why}")

    def _warm(self) -> Confined | None:
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
        TorchMemory(self.index).give_back()
        self.end_idle()

    def end_idle(self) -> None:
        """End the device processes that wait for a verification: each has a context, and memory that it keeps."""
        with self._guard:
            for process in self._idle:
                process.dismiss()
            self._idle.clear()
