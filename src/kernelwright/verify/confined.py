"""A confined process for one verification, the judge's side of its channel, and how a verification ends.

A request returns a well-formed, timely answer, or raises `Stop` with the candidate's outcome, or InfrastructureError if
the fault is ours. Nothing that a process says can get a candidate accepted.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.verify.sandbox import channel
from kernelwright.verify.sandbox.confine import Limits
from kernelwright.verify.sandbox.zygote import Role, Zygote

_SIGNALS = {-11: "SIGSEGV", -7: "SIGBUS", -6: "SIGABRT", -8: "SIGFPE", -4: "SIGILL", -31: "SIGSYS"}
_REFUSED = -31
"""SIGSYS: the process made a forbidden system call."""
_COPIES = 2
"""Copies of its weights that a module may hold: as drawn, and as its kernels need them."""


class Stop(Exception):
    """Ends a verification with an outcome."""

    def __init__(self, outcome: Outcome, gate: Gate, detail: str, **evidence: object) -> None:
        super().__init__(detail)
        self.outcome, self.gate, self.detail, self.evidence = outcome, gate, detail, evidence


class Confined:
    """A confined process for one verification, and requests to it."""

    def __init__(
        self,
        zygote: Zygote,
        role: Role,
        deadline: float,
        limit_s: float,
        gpu: int | None = None,
        weights: int = 0,
    ) -> None:
        """`deadline` is on the monotonic clock; `gpu` is for the role `cuda`; `weights`: bytes of the module's weights, added to
        the usual memory limit. Raises InfrastructureError."""
        self.role, self.deadline, self.limit_s = role, deadline, limit_s
        self._zygote = zygote
        self._scratch = Path(tempfile.mkdtemp(prefix=f"kernelwright-{os.getpid()}-"))
        try:
            limits = Limits(
                memory_bytes=Limits.memory_bytes + _COPIES * weights,
                cpu_seconds=max(Limits.cpu_seconds, math.ceil(limit_s)),
            )
            self._pid, self._socket = zygote.fork(self._scratch, role, gpu, limits)
        except BaseException:
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise
        self.alive = True

    def ask(
        self, gate: Gate, body: dict[str, Any], tensors: list[torch.Tensor] | None = None
    ) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """Send one command and return the answer. Raises Stop or InfrastructureError unless that is well-formed and timely."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            self.dismiss()
            raise Stop(Outcome.TIMEOUT, gate, f"more than {self.limit_s:g} s")
        self._socket.settimeout(left)
        try:
            channel.send(self._socket, body, tensors)
            answer, outputs = channel.receive(self._socket)
        except channel.ChannelClosed:
            if time.monotonic() >= self.deadline - 0.01:
                self.dismiss()
                raise Stop(Outcome.TIMEOUT, gate, f"no answer within {self.limit_s:g} s") from None
            status = self.dismiss(ended=True)
            if not self._zygote.alive:
                raise InfrastructureError("the zygote died, and its processes with it") from None
            if self.role != "host" and status >= 0:
                raise InfrastructureError(f"the {self.role} process ended with status {status}") from None
            # Our code checks each access.
            if self.role == "interpret" and status in _SIGNALS and status != _REFUSED:
                raise InfrastructureError(f"the interpreter's process crashed ({_SIGNALS[status]})") from None
            raise _death(gate, status) from None
        except channel.ChannelError as error:
            self.dismiss()
            raise Stop(Outcome.MALFORMED_RESULT, gate, str(error)) from None
        if "outcome" in answer:
            raise self._refused(gate, answer)
        return answer, outputs

    def _refused(self, gate: Gate, answer: dict[str, object]) -> Stop | InfrastructureError:
        try:
            outcome = Outcome(str(answer["outcome"]))
        except ValueError:
            outcome = Outcome.MALFORMED_RESULT
        # The process that runs the candidate's Python must not report success, nor that the fault is ours.
        if outcome is Outcome.UNSUPPORTED and self.role == "host":
            outcome = Outcome.UNPROVEN
        if outcome.accepted or (not outcome.judged and self.role == "host"):
            outcome = Outcome.MALFORMED_RESULT
        if outcome is Outcome.INFRASTRUCTURE_ERROR:
            return InfrastructureError(plain(answer.get("detail", ""), 600))
        return Stop(outcome, _gate_of(outcome, gate), plain(answer.get("detail", ""), 600))

    def dismiss(self, ended: bool = False) -> int:
        """End the process and remove its folder. Returns its exit status; with `ended`, waits for its own."""
        if not self.alive:
            return -9
        self.alive = False
        self._socket.close()
        status = -9
        with contextlib.suppress(InfrastructureError):
            status = int(self._zygote.reap(self._pid, ended))
        shutil.rmtree(self._scratch, ignore_errors=True)
        return status


def plain(text: object, length: int) -> str:
    """Text from a process, cut to `length` and made valid UTF-8."""
    return str(text)[:length].encode("utf-8", "replace").decode()


def _gate_of(outcome: Outcome, gate: Gate) -> Gate:
    if outcome is Outcome.COMPILE_ERROR:
        return Gate.COMPILE
    loading = (Outcome.LOAD_ERROR, Outcome.INVALID_IMPORT, Outcome.CONSTRUCTOR_ERROR, Outcome.NO_ENTRY)
    return Gate.LOAD if outcome in loading else gate


def _death(gate: Gate, status: int) -> Stop:
    if status == -24:
        return Stop(Outcome.TIMEOUT, gate, "the CPU time limit was reached")
    if status == -25:
        return Stop(Outcome.OUT_OF_MEMORY, gate, "the file size limit was reached")
    if status in _SIGNALS:
        return Stop(Outcome.RUNTIME_ERROR, gate, f"the process crashed ({_SIGNALS[status]})")
    if status == -9:
        return Stop(Outcome.OUT_OF_MEMORY, gate, "the process was killed by the system")
    return Stop(Outcome.EARLY_EXIT, gate, f"the process ended before it had answered (exit status {status})")
