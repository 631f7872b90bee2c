"""A hearing without a GPU: Triton's interpreter for the values, its compiler for the binary, the model for time."""

from __future__ import annotations

from typing import Any

from kernelwright.errors import UserError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Backend, Binary, Cost, Timing
from kernelwright.verify.hearing import Hearing, Stop

_MODEL_UNCERTAINTY = 0.15
"""Half-width of the interval given to a modelled ratio, until the model is calibrated against a clock."""


class InterpretedHearing(Hearing):
    """One candidate before the judge, on the interpreter."""

    backend: Backend = "interpret"

    def _funnel(self) -> Timing | None:
        self._read()
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
            except Stop as stop:
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
                    raise Stop(Outcome.MALFORMED_RESULT, Gate.COMPILE, "bad assembly record") from None
                try:
                    binary = crosscompile.assemble(assembly, self.judge.target)
                except crosscompile.CompileError as error:
                    raise Stop(Outcome.COMPILE_ERROR, Gate.COMPILE, f"{assembly.kernel}: {error}") from None
                binaries.append(binary)
                if binary.occupancy == 0.0:
                    sheet = self.judge.target
                    self.facts["binaries"] = tuple(binaries)
                    raise Stop(
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
                raise Stop(
                    Outcome.KERNEL_NOT_LAUNCHED, Gate.CAUSALITY, "no Triton kernel of the candidate ran"
                )
            case = shape.cases[-1] if len(shape.cases) > 1 else shape.cases[0]
            try:
                answer, outputs = self._run(Gate.CAUSALITY, shape, case, ablate=True)
            except Stop as stop:
                if (
                    stop.outcome in (Outcome.RUNTIME_ERROR, Outcome.WRONG_STRUCTURE)
                    and self._socket is not None
                ):
                    return  # without its kernels it does not even finish
                raise
            try:
                self._compare(case, answer, outputs, Gate.CAUSALITY, 0, 0)
            except Stop:
                return
            raise Stop(
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
            except Stop as stop:
                raise Stop(
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
            raise Stop(Outcome.MALFORMED_RESULT, Gate.TIMING, "bad work record") from None
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
