"""One candidate before the judge: what every backend's hearing has in common.

A hearing walks the funnel and stops at the first failure (`Stop`). This file holds the talk with the worker,
the sorting of the ways a worker can die, and the comparison of an answer with the oracle.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Backend, Candidate, Evidence, Launch, Mismatch, Task, Timing, Verdict
from kernelwright.verify.judge import Judge

_SIGNALS = {-11: "SIGSEGV", -7: "SIGBUS", -6: "SIGABRT", -8: "SIGFPE", -4: "SIGILL", -31: "SIGSYS"}
_HOST_READS = 8
"""`.item()` calls a forward pass may make (reading a scalar parameter); more is computing on the host."""


class Stop(Exception):
    """The hearing is over."""

    def __init__(self, outcome: Outcome, gate: Gate, detail: str, **evidence: Any) -> None:
        super().__init__(detail)
        self.outcome, self.gate, self.detail, self.evidence = outcome, gate, detail, evidence


class Hearing:
    """One candidate before the judge."""

    backend: Backend

    def __init__(self, judge: Judge, zygote: Any, task: Task, candidate: Candidate) -> None:
        self.judge, self.zygote, self.task, self.candidate = judge, zygote, task, candidate
        self.protocol = judge.protocol
        self.seconds: dict[str, float] = {}
        self.facts: dict[str, Any] = {}
        self.deadline = time.monotonic() + judge.deadline_s
        self._pid = 0
        self._socket: socket.socket | None = None
        self._scratch: Path | None = None

    def verdict(self) -> Verdict:
        """Run the funnel. Raises UserError for a broken task and InfrastructureError for a broken judge."""
        try:
            return self._accepted(self._funnel())
        except Stop as stop:
            evidence = {**self.facts, **stop.evidence, "seconds": self.seconds}
            return Verdict(
                task_id=self.task.id,
                outcome=stop.outcome,
                gate=stop.gate,
                detail=stop.detail[:600],
                protocol=self.protocol.name,
                backend=self.backend,
                evidence=Evidence(**evidence),
                candidate_digest=self.candidate.digest,
            )
        finally:
            self._dismiss()

    def _funnel(self) -> Timing | None:
        raise NotImplementedError

    def _read(self) -> None:
        """The gates that need no worker: what was parsed, and the static rules."""
        from kernelwright.verify.static import inspect_code

        if self.candidate.problem is not None:
            raise Stop(self.candidate.problem, Gate.PARSE, self.candidate.detail)
        finding = inspect_code(self.candidate.code)
        if finding is not None:
            raise Stop(finding.outcome, Gate.STATIC, finding.detail)

    def _accepted(self, timing: Timing | None) -> Verdict:
        return Verdict(
            task_id=self.task.id,
            outcome=Outcome.CORRECT,
            gate=Gate.TIMING,
            protocol=self.protocol.name,
            backend=self.backend,
            evidence=Evidence(**{**self.facts, "seconds": self.seconds}),
            timing=timing,
            candidate_digest=self.candidate.digest,
        )

    # -- judging one answer --------------------------------------------------------------------------------

    def _launch_facts(self, answer: dict[str, Any]) -> None:
        try:
            self.facts["launches"] = tuple(
                Launch(
                    kernel=str(item["kernel"])[:200],
                    grid=tuple(int(n) for n in item["grid"]),
                    num_warps=int(item["num_warps"]),
                    num_stages=int(item["num_stages"]),
                    constexprs={str(k): str(v) for k, v in item["constexprs"].items()},
                    signature={str(k): str(v) for k, v in item["signature"].items()},
                )
                for item in answer["launches"]
            )
            self.facts["aten_ops"] = {str(name): int(count) for name, count in answer["aten"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Stop(Outcome.MALFORMED_RESULT, Gate.SMALL, "bad launch record") from None

    def _outside_compute(self, answer: dict[str, Any]) -> None:
        """Policy `full`: nothing but allocation, views, copies and metadata outside the candidate's kernels."""
        operators = self.facts["aten_ops"]
        if not answer.get("launch_count"):
            what = f"; torch did the work: {', '.join(sorted(operators))}" if operators else ""
            raise Stop(Outcome.KERNEL_NOT_LAUNCHED, Gate.CAUSALITY, f"no Triton kernel ran{what}")
        if self.task.policy != "full":
            return
        if operators:
            names = ", ".join(f"{name} x{count}" for name, count in sorted(operators.items()))
            raise Stop(
                Outcome.TORCH_COMPUTE, Gate.CAUSALITY, f"computed by torch outside the kernels: {names}"
            )
        if int(answer.get("host_reads", 0)) > _HOST_READS:
            raise Stop(Outcome.TORCH_COMPUTE, Gate.CAUSALITY, "tensor elements are read on the host")

    def _compare(
        self, case: Any, answer: dict[str, Any], outputs: list[Any], gate: Gate, position: int, number: int
    ) -> float:
        """Raises Stop on the first difference; returns the worst error as a share of the allowed one."""
        from kernelwright.verify import channel, oracle

        def stop(outcome: Outcome, detail: str, mismatch: Mismatch | None = None) -> Stop:
            return Stop(outcome, gate, detail, where=case.name, mismatch=mismatch)

        try:
            tree = channel.decode(answer["structure"], outputs)
            aliases, changed = [int(i) for i in answer["aliases"]], [int(i) for i in answer["changed"]]
        except (channel.ChannelError, KeyError, TypeError, ValueError):
            raise stop(Outcome.MALFORMED_RESULT, "bad answer") from None
        form = oracle.skeleton(tree)
        if form != case.structure or len(outputs) != len(case.expected):
            raise stop(Outcome.WRONG_STRUCTURE, f"output is {_form(form)}, expected {_form(case.structure)}")
        if self.protocol.honesty and changed != case.changed:
            raise stop(Outcome.INPUT_MUTATED, f"input {(changed or case.changed)[0]} is changed in place")
        worst = 0.0
        for index, (got, expected) in enumerate(zip(outputs, case.expected, strict=True)):
            if tuple(got.shape) != expected.shape:
                raise stop(
                    Outcome.WRONG_SHAPE,
                    f"output {index}: shape {tuple(got.shape)}, expected {expected.shape}",
                )
            if got.dtype != expected.dtype:
                raise stop(
                    Outcome.WRONG_DTYPE, f"output {index}: dtype {got.dtype}, expected {expected.dtype}"
                )
            if self.protocol.honesty and aliases[index] != case.aliases[index] and aliases[index] >= 0:
                raise stop(
                    Outcome.OUTPUT_ALIASED, f"output {index} shares memory with input {aliases[index]}"
                )
            comparison = oracle.compare(index, got, expected, self.protocol)
            if comparison.kind:
                raise stop(
                    self._named(comparison.kind, position, number),
                    _explain(comparison, case.name),
                    comparison.mismatch,
                )
            worst = max(worst, comparison.worst)
        return worst

    @staticmethod
    def _named(kind: str, position: int, number: int) -> Outcome:
        if kind == "wrong_value" and position > 0:
            return Outcome.WRONG_ON_SHAPE
        if kind == "wrong_value" and number > 0:
            return Outcome.WRONG_ON_DISTRIBUTION
        return Outcome(kind)

    # -- the worker ------------------------------------------------------------------------------------------

    def _summon(self) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="kernelwright-"))
        self._pid, self._socket = self.zygote.fork(self._scratch)

    def _dismiss(self) -> None:
        if self._socket is not None:
            self._hang_up(ended=False)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _hang_up(self, ended: bool) -> int:
        assert self._socket is not None
        self._socket.close()
        self._socket = None
        with contextlib.suppress(InfrastructureError):
            return int(self.zygote.reap(self._pid, ended))
        return -9

    def _ask(
        self, gate: Gate, body: dict[str, Any], tensors: list[Any] | None = None
    ) -> tuple[dict[str, Any], list[Any]]:
        """One command to the worker. Anything but a well-formed, timely answer stops the hearing."""
        from kernelwright.verify import channel

        assert self._socket is not None
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Stop(Outcome.TIMEOUT, gate, f"more than {self.judge.deadline_s:g} s")
        self._socket.settimeout(left)
        try:
            channel.send(self._socket, body, tensors)
            answer, outputs = channel.receive(self._socket)
        except channel.ChannelClosed:
            if time.monotonic() >= self.deadline - 0.01:
                self._hang_up(ended=False)
                raise Stop(Outcome.TIMEOUT, gate, f"no answer within {self.judge.deadline_s:g} s") from None
            raise self._died(gate, self._hang_up(ended=True)) from None
        except channel.ChannelError as error:
            self._hang_up(ended=False)
            raise Stop(Outcome.MALFORMED_RESULT, gate, str(error)) from None
        if "outcome" in answer:
            try:
                outcome = Outcome(str(answer["outcome"]))
            except ValueError:
                outcome = Outcome.MALFORMED_RESULT
            if outcome is Outcome.CORRECT or outcome is Outcome.INFRASTRUCTURE_ERROR:
                outcome = Outcome.MALFORMED_RESULT
            raise Stop(outcome, self._gate_of(outcome, gate), str(answer.get("detail", ""))[:600])
        return answer, outputs

    @staticmethod
    def _gate_of(outcome: Outcome, gate: Gate) -> Gate:
        if outcome is Outcome.COMPILE_ERROR:
            return Gate.COMPILE
        if outcome in (
            Outcome.LOAD_ERROR,
            Outcome.INVALID_IMPORT,
            Outcome.CONSTRUCTOR_ERROR,
            Outcome.NO_ENTRY,
        ):
            return Gate.LOAD
        return gate

    @staticmethod
    def _died(gate: Gate, status: int) -> Stop:
        if status == -24:
            return Stop(Outcome.TIMEOUT, gate, "the CPU time limit was reached")
        if status == -25:
            return Stop(Outcome.OUT_OF_MEMORY, gate, "the file size limit was reached")
        if status in _SIGNALS:
            return Stop(Outcome.RUNTIME_ERROR, gate, f"the process crashed ({_SIGNALS[status]})")
        if status == -9:
            return Stop(Outcome.OUT_OF_MEMORY, gate, "the process was killed by the system")
        return Stop(
            Outcome.EARLY_EXIT, gate, f"the process ended before it had answered (exit status {status})"
        )

    @contextlib.contextmanager
    def _timed(self, gate: Gate) -> Any:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[gate] = self.seconds.get(gate, 0.0) + round(time.perf_counter() - start, 4)


def _form(form: Any) -> str:
    return str(form).replace("'*'", "tensor")[:120]


def _explain(comparison: Any, where: str) -> str:
    """The first wrong index, for people and models."""
    found = comparison.mismatch
    index = list(found.index)
    share = f"{found.wrong_share:.1%} of the elements are wrong"
    if comparison.kind == "unwritten":
        return f"output {found.output}{index} was never written ({share}) [{where}]"
    if comparison.kind == "non_finite":
        return f"output {found.output}{index}: got {found.got}, expected {found.expected:.6g} ({share}) [{where}]"
    return (
        f"output {found.output}{index}: got {found.got:.6g}, expected {found.expected:.6g}, allowed error "
        f"{found.allowed:.2g} ({share}) [{where}]"
    )
