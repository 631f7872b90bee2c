"""A verification on a GPU: play the tape on real memory at small and at full size, then time it against the reference.

Work that needs no GPU comes first: tracing, the interpreter's checks, compiling. Waiting for the GPU or its memory
does not count against the candidate's deadline.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.precision import precision_of
from kernelwright.records import Backend, Binary, Candidate, Task, Timing, Verdict
from kernelwright.verify.confined import Confined, Stop
from kernelwright.verify.cost import footprint
from kernelwright.verify.cost import model as cost
from kernelwright.verify.cost.footprint import UNSEEN_BYTES
from kernelwright.verify.gpu.admission import OutOfMemory
from kernelwright.verify.gpu.gpu import Gpu, Share
from kernelwright.verify.gpu.memory import ON_GPU, Arena, digest, enter_context
from kernelwright.verify.gpu.stopwatch import Stopwatch
from kernelwright.verify.judge import Judge
from kernelwright.verify.messages import Launched
from kernelwright.verify.reference.baseline import Baseline, candidate_cost, rates
from kernelwright.verify.reference.cases import Case
from kernelwright.verify.reference.gpu_cases import GpuCases
from kernelwright.verify.reference.hidden_sizes import full_sizes
from kernelwright.verify.sandbox.zygote import Zygote
from kernelwright.verify.structures import flatten
from kernelwright.verify.traced import Trace
from kernelwright.verify.verification import Verification

_UNKNOWN_SHARE = 0.25
"""Share of a GPU's memory granted to a reference that cannot run without data, whose needs are therefore unknown."""
_EMPTY_SHARE = 0.85
"""With this share of the GPU's memory free, no one else is to blame: the rest is the contexts of a dozen processes."""
_MODEL_SAMPLES = 4
_COMPILING = 3.0
"""Time limit of compiling, as a multiple of a verification's."""


class MeasuredVerification(Verification):
    """One verification of one candidate, on one GPU."""

    backend: Backend = "cuda"
    common = Gate.FULL

    def __init__(
        self,
        judge: Judge,
        zygote: Zygote,
        gpu: Gpu,
        task: Task,
        candidate: Candidate,
        before: Callable[[Task, Candidate], Verdict],
    ) -> None:
        """`before` judges what needs no GPU (`interpret/verification.py`, `BeforeGpu`)."""
        super().__init__(judge, zygote, task, candidate)
        self.gpu, self.before = gpu, before
        self.against_itself = False
        """Race the candidate against itself, to learn the clock's noise (benchmarks/noise.py)."""
        self._arena: Any = None
        self._share: Share
        self._bits: list[object] = []
        """Digests of the outputs of the first full-size case, at its first and at its last call."""
        self._launches: list[Launched] | None = None
        """The interpreter's records of a few program instances of each launch at full size."""

    def verdict(self) -> Verdict:
        """Raises OutOfMemory, or torch's error, if GPU memory ran out: the verification should be repeated alone."""
        self.gpu.verifications += 1
        # Triton and cuBLAS use the thread's current device, which an earlier verification may have changed.
        torch.cuda.set_device(self.gpu.index)
        try:
            return super().verdict()
        finally:
            self.gpu.verifications -= 1

    def _funnel(self) -> Timing | None:
        self._read()
        base = self.judge.baseline(self.task)
        if self.protocol.honesty:
            self._judge_without_gpu()
        with self._outside_deadline():
            shapes = self._shapes(base)
        shapes, traces = self._trace_sizes(shapes)
        self.large.append(full_sizes(self.task))  # every element is compared there
        if self.protocol.honesty:
            with self._timed(Gate.FULL):
                self._look_at_full_size(self._summon("interpret"), traces[-1], shapes[-1])
        with contextlib.ExitStack() as held:
            with self._outside_deadline():
                if self.alone:
                    self.gpu.end_idle()
                self.device = held.enter_context(self.gpu.process(self.zygote))
            self.device.deadline = self.deadline
            try:
                stopwatch = self._on_gpu(base, shapes, traces)
            except Stop as stop:
                # A wrong answer leaves the process usable; a failure inside it does not.
                if not self.device.alive or "where" not in stop.evidence:
                    raise
                wrong = stop
            else:
                self._profile(stopwatch, base, traces[-1])
                roofline = None if base is None else base.eager.roofline_ms
                size = self._unknown() if base is None else base.footprint.compiling()
                compiled = self.judge.compiled_ratio(self.task, self.gpu, self.zygote, size)
                clocked = stopwatch.result(self.gpu.name, roofline, compiled)
                if base is None:
                    return clocked
                return clocked.model_copy(update=rates(base, clocked.candidate_ms))
        raise wrong

    def _judge_without_gpu(self) -> None:
        """Judge first what needs no GPU. Raises Stop if that rejects, InfrastructureError if it failed."""
        with self._outside_deadline():
            first = self.before(self.task, self.candidate)
        if first.outcome is Outcome.INFRASTRUCTURE_ERROR:
            raise InfrastructureError(first.detail)
        seen = {name: getattr(first.evidence, name) for name in first.evidence.model_fields_set - {"seconds"}}
        self.facts |= seen
        self.seconds |= first.evidence.seconds
        if not first.correct:
            raise Stop(first.outcome, first.gate, first.detail)
        self._atomics |= not first.evidence.deterministic

    @contextlib.contextmanager
    def _outside_deadline(self) -> Iterator[None]:
        """Exclude this block from the candidate's time: waiting for others, or making what all candidates share."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.deadline += time.monotonic() - start
            for process in self._processes:
                process.deadline = self.deadline

    @contextlib.contextmanager
    def _compile_deadline(self) -> Iterator[None]:
        """Give compiling a limit of its own: ptxas takes many seconds for legitimate unrolled products of three dimensions, at
        each of five sizes."""
        self.device.deadline = time.monotonic() + _COMPILING * self.judge.deadline_s
        with self._outside_deadline():
            yield
        self.device.deadline = self.deadline

    @contextlib.contextmanager
    def _hold(self, resource: AbstractContextManager[object]) -> Iterator[Any]:
        """Hold a shared resource; waiting for it does not count as the candidate's time."""
        with contextlib.ExitStack() as held:
            with self._outside_deadline():
                found = held.enter_context(resource)
            self.device.deadline = self.deadline
            yield found

    def _give_way(self) -> None:
        """Let timers of other verifications go first."""
        with self._outside_deadline():
            torch.cuda.current_stream().synchronize()
            self._share.give_way()
        self.device.deadline = self.deadline

    def _unknown(self) -> int:
        return int(_UNKNOWN_SHARE * self.gpu.admission.total)

    def _making(self, base: Baseline | None) -> tuple[int, int]:
        """Bytes of GPU memory needed to make the task's cases, and to keep them."""
        if base is None:
            return self._unknown(), self._unknown()
        small = sum(name.startswith("small") for name in self.task.shapes)
        cases = len(self.judge.gpu_draws(True, small))
        return int(base.footprint.making(cases)), int(base.footprint.keeping(cases))

    def _judging(self, base: Baseline | None, trace: Trace) -> int:
        """Bytes of GPU memory that the verification needs. Raises Stop if the candidate asks for too many."""
        held, extra = footprint.bytes_asked(trace.traced)
        if extra > footprint.ALLOWANCE * self.gpu.admission.total:
            detail = f"asks for {extra / 1e9:.0f} GB beside its inputs, weights and outputs"
            raise Stop(Outcome.OUT_OF_MEMORY, Gate.LOAD, detail)
        if base is None:
            return self._unknown() + held
        return int(base.footprint.judging(held, bool(self.judge.beside)))

    def _shapes(self, base: Baseline | None) -> list[GpuCases]:
        """The cases of this task, which the first candidate to ask makes and all share."""
        admission = self.gpu.admission.admitted(self._making(base)[0], alone=self.alone)
        return self.judge.gpu_cases(self.task, self.gpu, _both(admission, self.gpu.lock.shared()))

    def _trace_sizes(self, shapes: list[GpuCases]) -> tuple[list[GpuCases], list[Trace]]:
        """The tape at each size, except sizes at which there is nothing to compute."""
        self._values_are_defined()
        with self._timed(Gate.LOAD):
            self._load(max(shape.weights for shape in shapes))
        kept, traces = [], []
        with self._timed(Gate.TRACE):
            for shape in shapes:
                inputs = shape.description
                trace = self._trace(shape, inputs, earlier=self._met_before(shape.init, inputs))
                if self._idles(shape.name, shape.expected, trace):
                    continue
                self._policy(trace)
                self._form(Gate.TRACE, trace, shape)
                kept.append(shape)
                traces.append(trace)
        self.host.dismiss()
        return kept, traces

    def _look_at_full_size(self, device: Confined, trace: Trace, case: GpuCases) -> None:
        """Interpret a few program instances without memory, where addresses are known and values are not."""
        body = {"command": "model", "trace": trace.answer, "compile": "", "samples": _MODEL_SAMPLES}
        try:
            self._launches = list(device.ask(Gate.FULL, body)[0]["launches"])
            self._not_written(case, trace.stored(self._launches), Gate.FULL)
        except Stop as stop:
            if stop.outcome in (Outcome.OUT_OF_BOUNDS, Outcome.INPUT_MUTATED) or not device.alive:
                raise

    def _on_gpu(self, base: Baseline | None, shapes: list[GpuCases], traces: list[Trace]) -> Stopwatch:
        with self._timed(Gate.COMPILE), self._compile_deadline():
            self.device.ask(
                Gate.COMPILE, {"command": "compile", "traces": [trace.answer for trace in traces]}
            )
        lock = self.gpu.lock
        size, (making, kept) = self._judging(base, traces[-1]), self._making(base)
        room = self.gpu.admission.admitted(size, shapes, max(making, size + kept), self.alone)
        with self._hold(room) as free:
            try:
                with self._hold(lock.shared()) as self._share:
                    with self._outside_deadline(), self.gpu.counted("cases"):
                        for shape in shapes:
                            shape.make()
                    self.device.deadline = self.deadline
                    enter_context(self.gpu.index)
                    arena = self._arena = Arena(max(map(_arena_bytes, shapes, traces)), self.gpu.index)
                    flags = precision_of(self.task).flags
                    body = {"command": "arena", "handle": arena.handle, "size": arena.size, "flags": flags}
                    self.device.ask(Gate.LOAD, body)
                    self._correctness(shapes, traces)
                    if self.protocol.honesty:
                        for shape in shapes:
                            self._causality(shape)
                        self._copies_more(traces[0], traces[-1], self.judge.cases(self.task)[0].operators)
                        self._carry(shapes[0], traces[0])
                        self._repeat(shapes[-1])
                    with self._timed(Gate.TIMING):
                        stopwatch = Stopwatch(self.device, arena, shapes[-1], traces[-1], self.alone)
                        stopwatch.prepare(self.task, self.against_itself)
                alone = _both(lock.exclusive(), self.gpu.counted("clock"))
                with self._hold(alone), self._timed(Gate.TIMING):
                    stopwatch.race(self.protocol, self.judge.timing_precision)
                    self._enough(stopwatch.share, shapes[-1].name)
                    if self.protocol.honesty:
                        self._weights(shapes[-1], traces[-1])
                    return stopwatch
            except Stop as stop:
                raise self._blame(stop, free) from None
            finally:
                if self.device.alive and self._arena is not None:
                    try:
                        self.device.ask(Gate.LOAD, {"command": "close"})
                    except Stop:
                        self.device.dismiss()
                if self._arena is not None:
                    self._arena.free()

    def _blame(self, stop: Stop, free: int) -> Exception:
        """Blame the candidate for a device process that ran out of memory only if it had the whole GPU.

        Requests beyond the candidate's allowance were refused before. `free`: the bytes free when it started.
        """
        if stop.outcome is not Outcome.OUT_OF_MEMORY or not stop.detail.startswith(ON_GPU):
            return stop
        if self.alone and free >= _EMPTY_SHARE * self.gpu.admission.total:
            return stop
        return OutOfMemory(f"{stop.detail[:300]} ({self.gpu.name} had {free / 1e9:.0f} GB free)")

    def _profile(self, stopwatch: Stopwatch, base: Baseline | None, trace: Trace) -> None:
        """Record registers, spills and occupancy from the driver, and the bytes that the cost model counts at full size."""
        sheet = self.judge.target
        binaries = {}
        for item in stopwatch.binaries:
            occupancy, _ = sheet.occupancy(item["registers"], item["shared_bytes"], item["num_warps"])
            binaries[item["kernel"]] = Binary(**item, target=sheet.name, occupancy=occupancy)
        self.facts["binaries"] = tuple(binaries.values())
        if base is not None and self._launches is not None:
            works = [cost.Work.from_json(launch["work"]) for launch in self._launches]
            modelled, _ = candidate_cost(trace.tape, works, binaries, sheet, base)
            self.facts |= {"cost": modelled, "reference_cost": base.eager}

    # -- correctness -------------------------------------------------------------------------------------------

    def _correctness(self, shapes: list[GpuCases], traces: list[Trace]) -> None:
        passed, worst = int(self.facts.get("cases", 0)), 0.0
        for position, (shape, trace) in enumerate(zip(shapes, traces, strict=True)):
            gate = Gate.FULL if shape.full else Gate.SMALL
            with self._timed(gate):
                self._open(gate, shape, trace)
                for call in trace.warm_up():
                    before = shape.case(call % len(shape)) or shape.first()
                    worst = max(worst, self._play(gate, shape, before, call, position))
                    del before
                for number in range(len(shape)):
                    case = shape.case(number)
                    if case is None:
                        continue
                    worst = max(worst, self._play(gate, shape, case, -1, position, number))
                    passed, case = passed + 1, None
                    self.facts |= {"cases": passed, "worst_error": worst}

    def _open(self, gate: Gate, shape: GpuCases, trace: Trace) -> None:
        self._arena.reset()
        state = {name: self._arena.place(shape.state[name]) for name in trace.traced.state}
        blobs = [self._arena.place(blob) for blob in trace.blobs]
        torch.cuda.current_stream().synchronize()
        moving = [name for name in shape.first().after if name in state]
        body = {"command": "open", "key": shape.name, "trace": trace.answer, "state": state, "blobs": blobs}
        self.device.ask(gate, body | {"moving": moving})

    def _play(
        self, gate: Gate, shape: GpuCases, case: Case, call: int = -1, position: int = 0, number: int = 0
    ) -> float:
        """Play one call and compare its outputs with the oracle."""
        answer, outputs = self._run_call(gate, shape, case, call)
        worst = self._compare(case, outputs, list(answer["changed"]), gate, position, number)
        if shape.full and call == -1 and number == 0 and self.protocol.honesty and len(self._bits) < 2:
            self._bits.append([digest(output) for output in outputs])
        return worst

    def _run_call(
        self, gate: Gate, shape: GpuCases, case: Case, call: int = -1, ablate: bool = False
    ) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """Play one call; returns the answer and views of its outputs in the arena."""
        self._give_way()
        arena = self._arena
        arena.reset()
        inputs = [arena.place(tensor) for tensor in flatten(case.inputs)]
        slots = arena.slots(case.expected)
        torch.cuda.current_stream().synchronize()
        body = {
            "command": "run",
            "key": shape.name,
            "call": call,
            "ablate": ablate,
            "inputs": inputs,
            "outputs": slots,
        }
        answer, _ = self.device.ask(gate, body)
        if not arena.guards_intact():
            raise Stop(Outcome.OUT_OF_BOUNDS, gate, "a kernel wrote outside the inputs", where=case.name)
        return answer, [arena.locate(slot) for slot in slots]

    def _causality(self, shape: GpuCases) -> None:
        """With every kernel a no-op, the output must stop being right."""
        with self._timed(Gate.CAUSALITY):
            made = filter(None, (shape.case(number) for number in reversed(range(len(shape)))))
            self._acts((case, self._run_call(Gate.CAUSALITY, shape, case, ablate=True)[1]) for case in made)

    def _repeat(self, shape: GpuCases) -> None:
        """Play the first and the last case again after all others, which reveals state and races. In the last case a few
        elements carry half of each input, so a missing part cannot pass for a rounding error."""
        last = shape.case(len(shape) - 1)
        cases = [shape.first(), *([last] if last is not None else [])]
        self._again(shape, cases, "right at first, wrong when called again")
        if len(self._bits) == 2:
            self._same_bits(self._bits[0] == self._bits[1], shape.name)

    def _carry(self, shape: GpuCases, trace: Trace) -> None:
        """Memory that outlives a call must not replace the inputs: play again with a few input elements changed."""
        if trace.carries() and (twin := shape.twin) is not None:
            cases = [shape.first(), twin]
            self._again(shape, cases, "wrong when called again on inputs that differ little")

    def _weights(self, shape: GpuCases, trace: Trace) -> None:
        """After all calls, the module's weights must be unchanged."""
        with self._timed(Gate.DETERMINISM):
            self._arena.reset()
            state = {name: self._arena.place(shape.state[name]) for name in trace.traced.state}
            torch.cuda.current_stream().synchronize()
            body = {"command": "compare_state", "key": shape.name, "state": state}
            answer, _ = self.device.ask(Gate.DETERMINISM, body)
            self._unchanged(shape.first(), answer["changed"], Gate.DETERMINISM)

    def _again(self, shape: GpuCases, cases: list[Case], what: str) -> None:
        with self._stateful(what, where=shape.name):
            for case in cases:
                self._play(Gate.DETERMINISM, shape, case)


@contextlib.contextmanager
def _both(first: AbstractContextManager[object], second: AbstractContextManager[object]) -> Iterator[None]:
    with first, second:
        yield


def _arena_bytes(shape: GpuCases, trace: Trace) -> int:
    """Bytes for one case's inputs and outputs and the clock's fresh inputs, or for the weights: whichever is more."""
    weights = [v.numel() * v.element_size() for v in shape.state.values()]
    weights += [blob.numel() for blob in trace.blobs]
    tensors = [view.end for view in trace.inputs]
    # An expanded output is written out in full.
    tensors += [max(view.end, view.numel * view.itemsize) for view in trace.tape.outputs()]
    if shape.full:
        tensors += [min(view.end, UNSEEN_BYTES) for view in trace.inputs]
    return max(_pad(weights), _pad(tensors)) + (4 << 20)


def _pad(sizes: list[int]) -> int:
    return sum(sizes) + 2048 * len(sizes)
