"""Many verifications at once: a zygote, one thread per worker, and a future per candidate.

With many workers and no GPU, several processes each run a pool (`shards.py`).

Verifications share nothing but the judge's caches. An infrastructure failure is retried once on a fresh zygote and then
reported as such; the candidate is never blamed for it. If GPU memory runs out, or the judge's clock contradicts a
candidate's time, the verification is repeated once with the GPU to itself.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import secrets
import tempfile
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Literal, Self

import torch

from kernelwright.config import VerifyConfig
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.hardware import cores
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Backend, Candidate, ProtocolName, Task, Timing, Verdict
from kernelwright.verify.batch import Pool
from kernelwright.verify.gpu import sanitizer
from kernelwright.verify.gpu.admission import OutOfMemory, ran_out
from kernelwright.verify.gpu.stopwatch import Suspected
from kernelwright.verify.gpu.timing import PRECISION
from kernelwright.verify.interpret.verification import BeforeGpu, InterpretedVerification
from kernelwright.verify.judge import Judge
from kernelwright.verify.protocol import PRINTED
from kernelwright.verify.protocol import protocol as protocol_rules
from kernelwright.verify.reference.hidden_sizes import asks_for_powers, kept_at_powers
from kernelwright.verify.sandbox import zygote as zygotes
from kernelwright.verify.sandbox.zygote import Zygote
from kernelwright.verify.shards import WORKERS, Shards
from kernelwright.verify.verification import Verification

_GPU_ERRORS = ("AcceleratorError", "OutOfMemoryError")


class VerifierPool(Pool):
    """Judges candidates concurrently.

    >>> with VerifierPool(workers=2) as pool:
    ...     verdict = pool.verify(task, candidate)

    `secret` seeds the inputs; leave it None outside of tests, so that it is drawn from the OS. On GPUs, `devices` are
    the indices of those to use (all that torch sees by default), and `compiled` also times torch.compile, once a task.
    `beside` names further protocols; their verdicts are in `Verdict.beside`. They come from the same execution if
    `protocol` accepts the candidate, otherwise from a verification of their own.
    `sanitize` also runs accepted candidates under compute-sanitizer, on a GPU and if it is installed.
    `priced=False`, without a GPU, halves a verification: accepted candidates get no binary and no time, and their cost
    assumes a binary with few registers.
    On a GPU a kernel is timed until half the 95 % interval of its time is `timing_precision` of it.
    `judges`: number of processes that share the judge's own CPU work; 0: as many as the workers need.
    `for_gpu`: run only the checks that precede those on a GPU. `printed`: the library's printer wrote the candidates
    (`protocol.PRINTED`).
    `kept`: reuse the zygote that an earlier pool left, and leave it to the next pool: it holds no secret and runs no
    candidate.
    Raises UserError for an unknown protocol, backend, target or device, and from `verify` for a broken task.
    """

    def __init__(
        self,
        workers: int | None = None,
        backend: Literal["auto", "interpret", "cuda"] = "auto",
        protocol: ProtocolName = "strict",
        target: str = "h200",
        deadline_s: float = 30.0,
        secret: int | None = None,
        devices: Sequence[int] = (),
        compiled: bool = True,
        beside: Sequence[ProtocolName] = (),
        sanitize: bool = False,
        priced: bool = True,
        timing_precision: float = PRECISION,
        judges: int = 0,
        proofs: bool = False,
        kept: bool = False,
        for_gpu: bool = False,
        printed: bool = False,
    ) -> None:
        check_backend(backend)
        self.gpus: list[Any] = []
        if backend == "cuda" or (backend == "auto" and _gpu_present()):
            from kernelwright.verify.gpu.gpu import Gpu, count

            try:
                self.gpus = [Gpu(index) for index in devices or range(count())]
            except UserError:
                if backend == "cuda" or devices:
                    raise
        self.backend: Backend = "cuda" if self.gpus else "interpret"
        self.workers = workers or min(cores(), 16)
        secret = secrets.randbits(31) if secret is None else secret
        others = [protocol_rules(name) for name in beside]
        ours = PRINTED if printed else protocol_rules(protocol)
        self.judge = Judge(
            ours, target, secret, deadline_s, compiled, others, priced, timing_precision, proofs
        )
        self._others = [
            Judge(other, target, secret, deadline_s, False, priced=priced, timing_precision=timing_precision)
            for other in others
        ]
        self.sanitize = sanitize and not sanitizer.unavailable(self.backend)
        self._zygote: Zygote | None = None
        self._kept, self._for_gpu = kept, for_gpu
        self._closed = False
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="verification")
        self._shards: Shards | None = None
        judges = min(judges or -(-self.workers // WORKERS), self.workers)
        if judges > 1 and (ours.honesty or not self.gpus):
            options = {"protocol": protocol, "target": target, "deadline_s": deadline_s, "secret": secret}
            options |= {"priced": priced, "proofs": proofs, "printed": printed}
            options |= {"for_gpu": True} if self.gpus else {"beside": tuple(beside), "sanitize": sanitize}
            self._shards = Shards(self.workers, judges, options, self._failed)

    @classmethod
    def of(cls, config: VerifyConfig) -> Self:
        """The pool that a recipe's `[verify]` describes."""
        return cls(
            config.workers,
            config.backend,
            config.protocol,
            config.target,
            config.deadline_s,
            devices=config.devices,
            compiled=config.compiled,
            priced=config.priced,
            timing_precision=config.timing_precision,
            printed=config.printed,
        )

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        """Start a verification; `.result()` is its verdict. Cancelling a future that has not started is free."""
        if self._shards is not None and not self.gpus:
            return self._shards.submit(task, candidate)
        return self._threads.submit(self._verify, task, candidate)

    def price(self, task: Task, candidate: Candidate) -> Future[Timing | None]:
        """Start to model a candidate's time at full size, without a verdict; None if it fails on the way, or where times are
        measured."""

        def price() -> Timing | None:
            with contextlib.suppress(InfrastructureError, OSError):
                made = self._verification(task, candidate)
                return made.price() if isinstance(made, InterpretedVerification) else None
            return None

        return self._threads.submit(price)

    def prepare(self, task: Task) -> None:
        """Make a task's cases before its first candidate comes; returns at once. What fails here fails again for the candidate."""
        if self._shards is not None:
            self._shards.prepare(task)
        else:
            self._threads.submit(self.judge.cases, task)

    def close(self, abort: bool = False) -> None:
        """End the pool. Waits for running verifications, or with `abort` kills them at once."""
        self._closed = True
        if abort:
            self.judge.end()
            self._end_processes()
            if self._shards is not None:  # first, since threads wait for its answers
                self._shards.close(abort)
        self._threads.shutdown(wait=True, cancel_futures=True)
        self.judge.end()
        if self._shards is not None:
            self._shards.close()
        with self._lock:
            left, self._zygote = (self._zygote, None) if self._kept else (None, self._zygote)
        if left is not None:
            zygotes.leave(left)
        self._end_processes()

    def start(self) -> None:
        """Start the zygote that a first verdict would wait for; returns at once."""
        if self._shards is None or self.gpus:
            self._current_zygote()

    def _end_processes(self) -> None:
        with self._lock:
            for gpu in self.gpus:
                gpu.close()
            if self._zygote is not None:
                self._zygote.close()
                self._zygote = None

    def _current_zygote(self) -> Zygote:
        with self._lock:
            if self._closed and self._zygote is None:
                raise InfrastructureError("the pool is closed")
            if self._zygote is None or not self._zygote.alive:
                if self._zygote is not None:
                    self._zygote.close()
                name = self.judge.target.name
                self._zygote = zygotes.take(name) if self._kept else Zygote(name)
            return self._zygote

    def at_work(self) -> AbstractContextManager[object]:
        """A context that a trainer enters while it computes on its GPU: no kernel is timed there meanwhile, all else goes on."""
        busy = [gpu for gpu in self.gpus if gpu.index == torch.cuda.current_device()]
        return busy[0].lock.busy() if busy else contextlib.nullcontext()

    def _verification(self, task: Task, candidate: Candidate, judge: Judge | None = None) -> Verification:
        judge = judge or self.judge
        zygote = self._current_zygote()
        zygote.wait()  # so that starting up does not count against the candidate's deadline
        if not self.gpus:
            kind = BeforeGpu if self._for_gpu else InterpretedVerification
            return kind(judge, zygote, task, candidate)
        from kernelwright.verify.gpu.verification import MeasuredVerification

        shards = self._shards

        def before(task: Task, candidate: Candidate) -> Verdict:
            if shards is not None and judge is self.judge:
                return shards.submit(task, candidate).result()
            return BeforeGpu(judge, zygote, task, candidate).verdict()

        return MeasuredVerification(judge, zygote, self._gpu_for(task), task, candidate, before)

    def _sanitizer_verification(
        self, task: Task, candidate: Candidate, judge: Judge, accepted: Verdict
    ) -> Verification:
        zygote = self._current_zygote()
        zygote.wait()
        gpu = self._gpu_for(task) if self.gpus else None
        return sanitizer.WatchedVerification(judge, zygote, task, candidate, accepted, gpu)

    def _gpu_for(self, task: Task) -> Any:
        """The GPU that holds the task's cases, unless another is much less busy."""
        gpus = [gpu for gpu in self.gpus if not gpu.lost] or self.gpus
        favourite = gpus[int(task.digest, 16) % len(gpus)]
        idlest = min(gpus, key=lambda gpu: gpu.verifications)
        return favourite if favourite.verifications <= idlest.verifications + 2 else idlest

    def _verify(self, task: Task, candidate: Candidate) -> Verdict:
        """Judge one candidate under every protocol asked for."""
        verdict, verification = self._judge_with_retries(task, candidate, self.judge)
        refused = verdict.detail
        for kept, names in kept_at_powers(task, refused) if asks_for_powers(verdict.outcome, refused) else ():
            try:
                verdict, verification = self._judge_with_retries(kept, candidate, self.judge)
            except UserError:  # the reference takes no such sizes
                continue
            if not asks_for_powers(verdict.outcome, verdict.detail):
                task, detail = kept, f"judged only at powers of two of {', '.join(names)}: no others run"
                verdict = verdict.model_copy(update={"detail": detail}) if verdict.correct else verdict
                break
        if self.sanitize and verdict.correct:
            watched, _ = self._judge_with_retries(task, candidate, self.judge, verdict)
            verdict, verification = watched, verification if watched.correct else None
        if verification is not None and verdict.correct:
            beside = verification.beside(verdict)
        else:
            beside = tuple(self._judge_with_retries(task, candidate, judge)[0] for judge in self._others)
        return verdict.model_copy(update={"beside": beside}) if beside else verdict

    def _judge_with_retries(
        self, task: Task, candidate: Candidate, judge: Judge, accepted: Verdict | None = None
    ) -> tuple[Verdict, Verification | None]:
        """A verdict and its verification, or None for the latter if the judge itself failed twice.

        A candidate already `accepted` runs under the sanitizer.
        """
        problem, alone, tries = "", False, 2
        while tries:
            tries -= 1
            try:
                if accepted is not None:
                    return self._sanitizer_verification(task, candidate, judge, accepted).verdict(), None
                verification = self._verification(task, candidate, judge)
                verification.alone = alone
                return verification.verdict(), verification
            except UserError:
                raise
            except Exception as error:
                # What the machine lacks may be there next time; a mistake of the judge's own is made again.
                crowded = _ran_out(error)
                problem = _reason_of(error)
                # SystemError: CPython 3.11 counts the depth of syntax trees that threads parse at once together (gh-106905).
                if not isinstance(error, (InfrastructureError, OSError, SystemError)) and not (
                    crowded or type(error).__name__ in _GPU_ERRORS
                ):
                    traceback.print_exc()
                    break
                if (crowded or isinstance(error, Suspected)) and not alone:
                    alone, tries = True, 1
        return self._failed(task, candidate, problem, judge), None

    def _failed(self, task: Task, candidate: Candidate, problem: str, judge: Judge | None = None) -> Verdict:
        """The verdict on a candidate that the judge failed to judge."""
        return Verdict(
            task_id=task.id,
            outcome=Outcome.INFRASTRUCTURE_ERROR,
            gate=Gate.LOAD,
            detail=problem[:600],
            protocol=(judge or self.judge).protocol.name,
            precision=task.precision,
            gradients=task.gradients,
            backend=self.backend,
            candidate_digest=candidate.digest,
        )


def _ran_out(error: Exception) -> bool:
    """Whether GPU memory ran out: the judge's, or a candidate's if others may have caused it."""
    return isinstance(error, OutOfMemory) or (isinstance(error, RuntimeError) and ran_out(error))


def _reason_of(error: Exception) -> str:
    """One line: what failed, where, and the fix if there is one."""
    text = " ".join(str(error).split())
    if not isinstance(error, InfrastructureError):
        text = f"{type(error).__name__}: {text}"
    number = error.errno if isinstance(error, OSError) else None
    place = getattr(error, "filename", None) or tempfile.gettempdir()
    if number in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in text:
        return f"the disk is full ({text}): free some space, or set TMPDIR and TRITON_CACHE_DIR to a disk with room"
    if number in (errno.EROFS, errno.EACCES, errno.EPERM):
        return f"{place} cannot be written ({text}): set TMPDIR to a folder that can"
    if number in (errno.EMFILE, errno.ENFILE):
        return f"too many open files ({text}): raise ulimit -n, or use fewer workers"
    if number in (errno.ENOMEM, errno.EAGAIN):
        return f"no memory or no process left ({text}): use fewer workers, or raise ulimit -u"
    if _ran_out(error):
        return f"the GPU's memory is taken ({text[:200]}): end what else runs on it, or use fewer workers"
    if type(error).__name__ == "AcceleratorError":
        return (
            f"the judge lost its GPU ({text[:200]}): see nvidia-smi and kernelwright doctor, then run again"
        )
    return text


def check_backend(name: str) -> None:
    """Raises UserError for an unknown backend, and for cuda without a GPU."""
    if name not in ("auto", "interpret", "cuda"):
        raise UserError(f"unknown backend '{name}': choose one of auto, interpret, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("backend 'cuda' needs a GPU that torch can use: choose --backend interpret here")


def _gpu_present() -> bool:
    """Whether there is an NVIDIA GPU. Does not initialise CUDA, which a trainer may still want to configure."""
    return bool(glob.glob("/dev/nvidia[0-9]*"))
