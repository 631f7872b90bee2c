"""The funnel: one candidate in, one verdict out, stopping at the first failure.

The judge holds the reference, the seeds, the expected outputs and the tolerances; the worker it talks to is a
process of its own that has none of them and that is thrown away afterwards. `Judge` keeps what is shared
between candidates (cases and baselines by task); `judge` is one hearing.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

from kernelwright.errors import InfrastructureError, UserError
from kernelwright.hardware import target as target_sheet
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import (
    Backend,
    Binary,
    Candidate,
    Cost,
    Evidence,
    Launch,
    Mismatch,
    Task,
    Timing,
    Verdict,
)
from kernelwright.verify.protocol import Protocol

_SIGNALS = {-11: "SIGSEGV", -7: "SIGBUS", -6: "SIGABRT", -8: "SIGFPE", -4: "SIGILL", -31: "SIGSYS"}
_MODEL_UNCERTAINTY = 0.15
"""Half-width of the interval given to a modelled ratio, until the model is calibrated against a clock."""
_HOST_READS = 8
"""`.item()` calls a forward pass may make (reading a scalar parameter); more is computing on the host."""
_CACHED_TASKS = 512


class _Stop(Exception):
    """The hearing is over."""

    def __init__(self, outcome: Outcome, gate: Gate, detail: str, **evidence: Any) -> None:
        super().__init__(detail)
        self.outcome, self.gate, self.detail, self.evidence = outcome, gate, detail, evidence


class Judge:
    """Shared between hearings; thread-safe. `secret` seeds all inputs and never leaves this process."""

    def __init__(self, protocol: Protocol, target: str, secret: int, deadline_s: float = 30.0) -> None:
        self.protocol = protocol
        self.target = target_sheet(target)
        self.deadline_s = deadline_s
        self._secret = secret
        self._lock = threading.RLock()
        self._cases: OrderedDict[tuple[str, str], Any] = OrderedDict()
        self._baselines: OrderedDict[str, Any] = OrderedDict()

    def cases(self, task: Task) -> list[Any]:
        """The correctness cases of a task's small shape sets, made once. Raises UserError for a broken task."""
        from kernelwright.verify import oracle

        shapes = [name for name in task.shapes if name.startswith("small")]
        if not shapes:
            raise UserError(
                f"task {task.id} has no shape set named small*: without a GPU a kernel is judged at small sizes "
                "(add [shapes.small] or load the task through kernelwright.tasks)"
            )
        if not self.protocol.more_shapes:
            shapes = shapes[:1]
        found = []
        for position, name in enumerate(shapes):
            key = (task.digest, name)
            with self._lock:
                if key not in self._cases:
                    cases = oracle.shape_cases(task, name, self.protocol, self._secret, position == 0)
                    self._cases[key] = cases
                    while len(self._cases) > _CACHED_TASKS:
                        self._cases.popitem(last=False)
                found.append(self._cases[key])
        return found

    def baseline(self, task: Task) -> Any:
        """The modelled baselines at full size; None where the reference cannot be modelled."""
        from kernelwright.verify.baseline import baseline

        with self._lock:
            if task.digest not in self._baselines:
                found = None
                with contextlib.suppress(Exception):
                    found = baseline(task, dict(task.shapes.get("full", {})), self.target)
                self._baselines[task.digest] = found
                while len(self._baselines) > _CACHED_TASKS:
                    self._baselines.popitem(last=False)
            return self._baselines[task.digest]


class Hearing:
    """One candidate before the judge, on the interpreter."""

    backend: Backend = "interpret"

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
        except _Stop as stop:
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

    # -- the funnel --------------------------------------------------------------------------------------

    def _funnel(self) -> Timing | None:
        from kernelwright.verify.static import inspect_code

        if self.candidate.problem is not None:
            raise _Stop(self.candidate.problem, Gate.PARSE, self.candidate.detail)
        finding = inspect_code(self.candidate.code)
        if finding is not None:
            raise _Stop(finding.outcome, Gate.STATIC, finding.detail)
        cases = self.judge.cases(self.task)
        with self._timed(Gate.LOAD):
            self._summon()
            self._ask(Gate.LOAD, {"command": "load", "code": self.candidate.code})
        base = self.judge.baseline(self.task)
        modelled = self._model(base)
        self._correctness(cases, compiled=modelled is not None)
        if self.protocol.honesty:
            self._causality(cases[0])
            self._repeat(cases[0])
        with self._timed(Gate.TIMING):
            return self._price(base, modelled)

    def _model(self, base: Any) -> list[dict[str, Any]] | None:
        """Launches at full size, and every launched specialisation through the compiler and the assembler."""
        if base is None:
            return None
        with self._timed(Gate.TRACE):
            tensors: list[Any] = []
            from kernelwright.verify import channel

            try:
                init = channel.encode(base.init, tensors)
                body = {"command": "model", "init": init, "inputs": base.input_spec}
                answer, _ = self._ask(Gate.COMPILE, body)
            except TypeError:
                return None
            except _Stop as stop:
                # Meta tensors cannot run everything; only a compiler's word is final here.
                if stop.outcome in (Outcome.COMPILE_ERROR, Outcome.TIMEOUT, Outcome.EARLY_EXIT):
                    raise
                if self._socket is None:
                    raise
                return None
        self._assemble(answer.get("assemblies"))
        launches = answer.get("launches")
        return launches if isinstance(launches, list) else None

    def _assemble(self, assemblies: Any) -> None:
        """The judge's own look at the binaries. Stops on an assembler error or a launch that cannot fit."""
        from kernelwright.verify import crosscompile

        with self._timed(Gate.COMPILE):
            binaries: list[Binary] = []
            for item in assemblies if isinstance(assemblies, list) else []:
                try:
                    assembly = crosscompile.Assembly(
                        str(item["kernel"]),
                        str(item["text"]),
                        int(item["shared_bytes"]),
                        int(item["num_warps"]),
                    )
                except (KeyError, TypeError, ValueError):
                    raise _Stop(Outcome.MALFORMED_RESULT, Gate.COMPILE, "bad assembly record") from None
                try:
                    binary = crosscompile.assemble(assembly, self.judge.target)
                except crosscompile.CompileError as error:
                    raise _Stop(Outcome.COMPILE_ERROR, Gate.COMPILE, f"{assembly.kernel}: {error}") from None
                binaries.append(binary)
                if binary.occupancy == 0.0:
                    sheet = self.judge.target
                    self.facts["binaries"] = tuple(binaries)
                    raise _Stop(
                        Outcome.OUT_OF_RESOURCES,
                        Gate.COMPILE,
                        f"{binary.kernel}: {binary.shared_bytes} bytes of shared memory, {binary.registers} registers x "
                        f"{binary.num_warps} warps do not fit on {sheet.name} (shared memory limit {sheet.shared_per_block})",
                    )
            self.facts["binaries"] = (*self.facts.get("binaries", ()), *binaries)

    def _correctness(self, shape_sets: list[Any], compiled: bool) -> None:
        passed, worst = 0, 0.0
        for position, shape in enumerate(shape_sets):
            gate = Gate.SMALL
            with self._timed(gate):
                self._build(shape)
                for number, case in enumerate(shape.cases):
                    want = not compiled and position == 0 and number == 0
                    answer, outputs = self._run(gate, shape, case, want_assembly=want)
                    if want:
                        self._assemble(answer.get("assemblies"))
                    if position == 0 and number == 0:
                        self._launch_facts(answer)
                        if self.protocol.honesty:
                            self._outside_compute(answer)
                    worst = max(worst, self._compare(case, answer, outputs, gate, position, number))
                    passed += 1
                    self.facts |= {"cases": passed, "worst_error": worst}

    def _causality(self, shape: Any) -> None:
        """With every kernel a no-op, the output must stop being right."""
        with self._timed(Gate.CAUSALITY):
            if not self.facts.get("launches"):
                raise _Stop(
                    Outcome.KERNEL_NOT_LAUNCHED, Gate.CAUSALITY, "no Triton kernel of the candidate ran"
                )
            case = shape.cases[-1] if len(shape.cases) > 1 else shape.cases[0]
            try:
                answer, outputs = self._run(Gate.CAUSALITY, shape, case, ablate=True)
            except _Stop as stop:
                if (
                    stop.outcome in (Outcome.RUNTIME_ERROR, Outcome.WRONG_STRUCTURE)
                    and self._socket is not None
                ):
                    return  # without its kernels it does not even finish
                raise
            try:
                self._compare(case, answer, outputs, Gate.CAUSALITY, 0, 0)
            except _Stop:
                return
            raise _Stop(
                Outcome.DECOY_KERNEL,
                Gate.CAUSALITY,
                "the output stays right when the candidate's kernels do nothing",
            )

    def _repeat(self, shape: Any) -> None:
        """The first case once more, after all others: state and races show."""
        with self._timed(Gate.DETERMINISM):
            case = shape.cases[0]
            answer, outputs = self._run(Gate.DETERMINISM, shape, case)
            try:
                self._compare(case, answer, outputs, Gate.DETERMINISM, 0, 0)
            except _Stop as stop:
                raise _Stop(
                    Outcome.STATEFUL,
                    Gate.DETERMINISM,
                    f"right at first, wrong when called again: {stop.detail}",
                ) from None

    def _price(self, base: Any, launches: list[dict[str, Any]] | None) -> Timing | None:
        """Modelled time at full size against the modelled baselines."""
        from kernelwright.verify import cost

        if base is None or not launches:
            return None
        try:
            works = [cost.Work.from_json(launch["work"]) for launch in launches]
        except (KeyError, TypeError, ValueError):
            raise _Stop(Outcome.MALFORMED_RESULT, Gate.TIMING, "bad work record") from None
        binaries = {binary.kernel: binary for binary in self.facts.get("binaries", ())}
        modelled: Cost = cost.total_cost(works, binaries, self.judge.target, base.eager.roofline_ms)
        self.facts |= {"cost": modelled, "reference_cost": base.eager}
        baselines = {"eager": base.eager.ms, "compile": base.compiled_ms}
        low, high = 1.0 - _MODEL_UNCERTAINTY, 1.0 + _MODEL_UNCERTAINTY
        return Timing(
            kind="modelled",
            target=self.judge.target.name,
            candidate_ms=modelled.ms,
            candidate_ci=(modelled.ms * low, modelled.ms * high),
            baseline_ms=baselines,
            speedup_ci={
                name: (ms / modelled.ms * low, ms / modelled.ms * high) for name, ms in baselines.items()
            },
            roofline_fraction=modelled.roofline_fraction,
        )

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
            raise _Stop(Outcome.MALFORMED_RESULT, Gate.SMALL, "bad launch record") from None

    def _outside_compute(self, answer: dict[str, Any]) -> None:
        """Policy `full`: nothing but allocation, views, copies and metadata outside the candidate's kernels."""
        operators = self.facts["aten_ops"]
        if not answer.get("launch_count"):
            what = f"; torch did the work: {', '.join(sorted(operators))}" if operators else ""
            raise _Stop(Outcome.KERNEL_NOT_LAUNCHED, Gate.CAUSALITY, f"no Triton kernel ran{what}")
        if self.task.policy != "full":
            return
        if operators:
            names = ", ".join(f"{name} x{count}" for name, count in sorted(operators.items()))
            raise _Stop(
                Outcome.TORCH_COMPUTE, Gate.CAUSALITY, f"computed by torch outside the kernels: {names}"
            )
        if int(answer.get("host_reads", 0)) > _HOST_READS:
            raise _Stop(Outcome.TORCH_COMPUTE, Gate.CAUSALITY, "tensor elements are read on the host")

    def _compare(
        self, case: Any, answer: dict[str, Any], outputs: list[Any], gate: Gate, position: int, number: int
    ) -> float:
        """Raises _Stop on the first difference; returns the worst error as a share of the allowed one."""
        from kernelwright.verify import channel, oracle

        def stop(outcome: Outcome, detail: str, mismatch: Mismatch | None = None) -> _Stop:
            return _Stop(outcome, gate, detail, where=case.name, mismatch=mismatch)

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
        for index, (got, expected, honest) in enumerate(
            zip(outputs, case.expected, case.honest, strict=True)
        ):
            if got.shape != honest.shape:
                raise stop(
                    Outcome.WRONG_SHAPE,
                    f"output {index}: shape {tuple(got.shape)}, expected {tuple(honest.shape)}",
                )
            if got.dtype != honest.dtype:
                raise stop(Outcome.WRONG_DTYPE, f"output {index}: dtype {got.dtype}, expected {honest.dtype}")
            if self.protocol.honesty and aliases[index] != case.aliases[index] and aliases[index] >= 0:
                raise stop(
                    Outcome.OUTPUT_ALIASED, f"output {index} shares memory with input {aliases[index]}"
                )
            comparison = oracle.compare(index, got, expected, honest, self.protocol)
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
            raise _Stop(Outcome.TIMEOUT, gate, f"more than {self.judge.deadline_s:g} s")
        self._socket.settimeout(left)
        try:
            channel.send(self._socket, body, tensors)
            answer, outputs = channel.receive(self._socket)
        except channel.ChannelClosed:
            if time.monotonic() >= self.deadline - 0.01:
                self._hang_up(ended=False)
                raise _Stop(Outcome.TIMEOUT, gate, f"no answer within {self.judge.deadline_s:g} s") from None
            raise self._died(gate, self._hang_up(ended=True)) from None
        except channel.ChannelError as error:
            self._hang_up(ended=False)
            raise _Stop(Outcome.MALFORMED_RESULT, gate, str(error)) from None
        if "outcome" in answer:
            try:
                outcome = Outcome(str(answer["outcome"]))
            except ValueError:
                outcome = Outcome.MALFORMED_RESULT
            if outcome is Outcome.CORRECT or outcome is Outcome.INFRASTRUCTURE_ERROR:
                outcome = Outcome.MALFORMED_RESULT
            raise _Stop(outcome, self._gate_of(outcome, gate), str(answer.get("detail", ""))[:600])
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
    def _died(gate: Gate, status: int) -> _Stop:
        if status == -24:
            return _Stop(Outcome.TIMEOUT, gate, "the CPU time limit was reached")
        if status == -25:
            return _Stop(Outcome.OUT_OF_MEMORY, gate, "the file size limit was reached")
        if status in _SIGNALS:
            return _Stop(Outcome.RUNTIME_ERROR, gate, f"the process crashed ({_SIGNALS[status]})")
        if status == -9:
            return _Stop(Outcome.OUT_OF_MEMORY, gate, "the process was killed by the system")
        return _Stop(
            Outcome.EARLY_EXIT, gate, f"the process ended before it had answered (exit status {status})"
        )

    def _build(self, shape: Any) -> None:
        from kernelwright.verify import channel, oracle

        tensors: list[Any] = []
        try:
            init = channel.encode(shape.init, tensors)
        except TypeError as error:
            raise UserError(
                f"task {self.task.id}: get_init_inputs() returns something that cannot be sent: {error}"
            ) from None
        state = channel.encode(dict(shape.state), tensors)
        body = {"command": "build", "key": shape.name, "init": init, "seed": oracle.INIT_SEED, "state": state}
        self._ask(Gate.SMALL, body, tensors)

    def _run(
        self, gate: Gate, shape: Any, case: Any, ablate: bool = False, want_assembly: bool = False
    ) -> tuple[dict[str, Any], list[Any]]:
        from kernelwright.verify import channel

        tensors: list[Any] = []
        body = {
            "command": "run",
            "key": shape.name,
            "inputs": channel.encode(case.inputs, tensors),
            "ablate": ablate,
            "want_assembly": want_assembly,
        }
        return self._ask(gate, body, tensors)

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
