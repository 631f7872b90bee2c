"""A hearing on a GPU: the tape played on real memory at small and at full size, then raced against the reference."""

from __future__ import annotations

import time
from typing import Any

from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Backend, Candidate, Task, Timing
from kernelwright.verify import timing
from kernelwright.verify.gpu import Gpu
from kernelwright.verify.hearing import Confined, Hearing, Stop, Trace
from kernelwright.verify.judge import Judge
from kernelwright.verify.zygote import Zygote

_HALF_WIDTH = 0.01
_BUDGET_S = 0.4
_FEW_CALLS, _MOST_CALLS, _BATCH_MS = 3, 64, 8.0
"""Batches clocked from outside: a few calls, and as many as take about so long."""
_SUSPICIONS = 8
_PEAK = 8.0
"""GPU memory at a hearing's peak, over the bytes of inputs, weights and outputs."""


class MeasuredHearing(Hearing):
    """One candidate before the judge, on one GPU."""

    backend: Backend = "cuda"

    def __init__(self, judge: Judge, zygote: Zygote, gpu: Gpu, task: Task, candidate: Candidate) -> None:
        super().__init__(judge, zygote, task, candidate)
        self.gpu = gpu
        self.against_itself = False
        """Race the candidate against itself, to learn the clock's noise (benchmarks/noise.py)."""
        self._arena: Any = None

    def _funnel(self) -> Timing | None:
        self._read()
        with self.gpu.admission.admitted(self._footprint()):
            self._extend()
            try:
                return self._admitted()
            finally:
                self.gpu.tidy()

    def _footprint(self) -> int:
        """Bytes of GPU memory at the peak: the oracle's fp64 pass, the arena and the device process's copies."""
        base = self.judge.baseline(self.task)
        return int(_PEAK * base.min_bytes) + (1 << 30) if base is not None else 8 << 30

    def _admitted(self) -> Timing | None:
        shapes = self.judge.gpu_cases(self.task, self.gpu)
        self.gpu.tidy()
        with self._timed(Gate.LOAD):
            host = self._summon("host")
            host.ask(Gate.LOAD, {"command": "load", "code": self.candidate.code})
        traces = []
        with self._timed(Gate.TRACE):
            for position, shape in enumerate(shapes):
                trace = self._trace(
                    Gate.TRACE, host, shape.init, shape.description, shape.state, many=position == 0
                )
                self._policy(trace)
                self._form(Gate.TRACE, trace, shape)
                traces.append(trace)
        host.dismiss()
        if self.protocol.honesty:
            self._sanitize(shapes, traces)
        with self.gpu.process(self.zygote, self.deadline, self.judge.deadline_s) as device:
            try:
                return self._on_gpu(device, shapes, traces)
            except Stop as stop:
                # A wrong answer leaves the process as it was; a failure inside it does not.
                if not device.alive or "where" not in stop.evidence:
                    raise
                wrong = stop
        raise wrong

    def _sanitize(self, shapes: list[Any], traces: list[Trace]) -> None:
        """The interpreter's checks of every pointer, and of who writes where, on one case of each small shape.

        A GPU says nothing of an access that strays into valid memory. What is not interpreted is left to the GPU.
        """
        from kernelwright.verify import channel, oracle

        with self._timed(Gate.SMALL):
            device = self._summon("interpret")
            for shape, trace in zip(shapes, traces, strict=True):
                if shape.full:
                    continue
                tensors = list(trace.blobs)
                state = {name: shape.state[name] for name in trace.traced.state}
                body = {"command": "open", "key": shape.name, "trace": trace.answer}
                inputs = [tensor.cpu() for tensor in oracle.flatten(shape.case(0).inputs)]
                try:
                    device.ask(Gate.SMALL, body | {"state": channel.encode(state, tensors)}, tensors)
                    for call in (*trace.warm_up(), -1):
                        body = {
                            "command": "run",
                            "key": shape.name,
                            "call": call,
                            "ablate": False,
                            "races": True,
                        }
                        device.ask(Gate.SMALL, body, inputs)
                except Stop as stop:
                    if stop.outcome is Outcome.UNSUPPORTED:
                        break
                    raise
            device.dismiss()

    def _extend(self) -> None:
        """Waiting for others to free memory is not the candidate's time."""
        self.deadline = max(self.deadline, time.monotonic() + self.judge.deadline_s / 2)

    def _on_gpu(self, device: Confined, shapes: list[Any], traces: list[Trace]) -> Timing | None:
        from kernelwright.verify.cuda_memory import Arena, enter_context

        enter_context(self.gpu.index)
        arena = self._arena = Arena(max(map(_arena_bytes, shapes, traces)), self.gpu.index)
        try:
            with self.gpu.lock.shared():
                tf32 = self.protocol.tf32_convolutions
                body = {"command": "arena", "handle": arena.handle, "size": arena.size, "tf32": tf32}
                device.ask(Gate.LOAD, body)
                self._correctness(device, shapes, traces)
                if self.protocol.honesty:
                    self._causality(device, shapes[0])
                    self._carried(device, shapes[0], traces[0])
                    self._repeat(device, shapes[-1])
            with self._timed(Gate.TIMING), self.gpu.lock.exclusive():
                self._extend()
                device.deadline = self.deadline
                return self._race(device, shapes[-1], traces[-1])
        finally:
            if device.alive:
                try:
                    device.ask(Gate.LOAD, {"command": "close"})
                except Stop:
                    device.dismiss()
            arena.free()

    # -- correctness -------------------------------------------------------------------------------------------

    def _correctness(self, device: Confined, shapes: list[Any], traces: list[Trace]) -> None:
        passed, worst = 0, 0.0
        for position, (shape, trace) in enumerate(zip(shapes, traces, strict=True)):
            gate = Gate.FULL if shape.full else Gate.SMALL
            with self._timed(gate):
                self._open(gate, device, shape, trace)
                for number in range(len(shape)):
                    case = shape.case(number)
                    if case is None:
                        continue
                    for call in (*(trace.warm_up() if number == 0 else ()), -1):
                        worst = max(worst, self._play(gate, device, shape, case, call, position, number))
                    passed += 1
                    self.facts |= {"cases": passed, "worst_error": worst}

    def _open(self, gate: Gate, device: Confined, shape: Any, trace: Trace) -> None:
        import torch

        self._arena.reset()
        state = {name: self._arena.place(shape.state[name]) for name in trace.traced.state}
        blobs = [self._arena.place(blob) for blob in trace.blobs]
        torch.cuda.current_stream().synchronize()
        device.ask(
            gate,
            {"command": "open", "key": shape.name, "trace": trace.answer, "state": state, "blobs": blobs},
        )

    def _play(
        self,
        gate: Gate,
        device: Confined,
        shape: Any,
        case: Any,
        call: int = -1,
        position: int = 0,
        number: int = 0,
        ablate: bool = False,
    ) -> float:
        import torch

        from kernelwright.verify import oracle
        from kernelwright.verify.device import poison_

        arena = self._arena
        arena.reset()
        inputs = [arena.place(tensor) for tensor in oracle.flatten(case.inputs)]
        slots = []
        for expected in case.expected:
            like = torch.empty(expected.shape, dtype=expected.dtype, device="meta")
            slots.append(arena.reserve(like))
            poison_(arena.locate(slots[-1]))
        torch.cuda.current_stream().synchronize()
        body = {
            "command": "run",
            "key": shape.name,
            "call": call,
            "ablate": ablate,
            "inputs": inputs,
            "outputs": slots,
        }
        answer, _ = device.ask(gate, body)
        if not arena.guards_intact():
            raise Stop(Outcome.OUT_OF_BOUNDS, gate, "a kernel wrote between the inputs", where=case.name)
        outputs = [arena.locate(slot) for slot in slots]
        return self._compare(case, outputs, list(answer["changed"]), gate, position, number)

    def _causality(self, device: Confined, shape: Any) -> None:
        """With every kernel a no-op, the output must stop being right."""
        with self._timed(Gate.CAUSALITY):
            case = shape.case(0)
            try:
                self._play(Gate.CAUSALITY, device, shape, case, ablate=True)
            except Stop:
                if not device.alive:
                    raise
                return
            detail = "the output stays right when the candidate's kernels do nothing"
            raise Stop(Outcome.DECOY_KERNEL, Gate.CAUSALITY, detail, where=case.name)

    def _repeat(self, device: Confined, shape: Any) -> None:
        """The first case once more, after all others: state and races show."""
        with self._timed(Gate.DETERMINISM):
            case = shape.case(0)
            try:
                self._play(Gate.DETERMINISM, device, shape, case)
            except Stop as stop:
                if not device.alive:
                    raise
                detail = f"right at first, wrong when called again: {stop.detail}"
                raise Stop(Outcome.STATEFUL, Gate.DETERMINISM, detail, where=case.name) from None

    def _carried(self, device: Confined, shape: Any, trace: Trace) -> None:
        """Memory that outlives a call must not stand in for the inputs: a few elements change right after a call."""
        if not trace.carries() or (twin := shape.twin) is None:
            return
        with self._timed(Gate.DETERMINISM):
            try:
                self._play(Gate.DETERMINISM, device, shape, shape.case(0))
                self._play(Gate.DETERMINISM, device, shape, twin)
            except Stop as stop:
                if not device.alive:
                    raise
                detail = f"wrong when called again on inputs that differ little: {stop.detail}"
                raise Stop(Outcome.STATEFUL, Gate.DETERMINISM, detail, where=shape.name) from None

    # -- time --------------------------------------------------------------------------------------------------

    def _race(self, device: Confined, shape: Any, trace: Trace) -> Timing | None:
        """Candidate against reference on the same inputs; then the judge's own clock on whole batches."""
        from kernelwright.verify import channel

        tensors: list[Any] = []
        inputs = channel.encode(list(shape.case(0).inputs), tensors)
        body = {
            "command": "reference",
            "key": shape.name,
            "task": self.task.model_dump(mode="json"),
            "sizes": shape.sizes,
            "inputs": inputs,
            "compiled": False,
            "own": self.against_itself,
        }
        device.ask(Gate.TIMING, body)
        body = {"command": "time", "key": shape.name, "budget_s": _BUDGET_S, "half_width": _HALF_WIDTH}
        answer, _ = device.ask(Gate.TIMING, body)
        rounds: list[list[float]] = answer["rounds"]
        own = timing.geometric([entry[0] for entry in rounds])
        eager = timing.geometric([entry[1] for entry in rounds])
        ratio = timing.geometric([entry[1] / entry[0] for entry in rounds])
        self._outside(device, shape, own.centre)
        baselines, intervals = {"eager": eager.centre}, {"eager": (ratio.low, ratio.high)}
        compiled = self.judge.compiled_ratio(self.task, shape, self.gpu, device, inputs, self.deadline)
        if compiled is not None:
            baselines["compile"] = eager.centre * compiled
            intervals["compile"] = (ratio.low * compiled, ratio.high * compiled)
        base = self.judge.baseline(self.task)
        return Timing(
            kind="measured",
            target=self.gpu.name,
            candidate_ms=own.centre,
            candidate_ci=(own.low, own.high),
            baseline_ms=baselines,
            speedup_ci=intervals,
            roofline_fraction=None if base is None else min(1.0, base.eager.roofline_ms / own.centre),
            samples=len(rounds) * int(answer["calls"]),
        )

    def _outside(self, device: Confined, shape: Any, claim_ms: float) -> None:
        """A time that the device process cannot have made up: whole batches of two sizes by the judge's clock.

        Noise only ever adds to a batch, so a suspicion is held against more batches before anyone is accused.
        """
        flush = float(device.ask(Gate.TIMING, {"command": "flush", "calls": 5})[0]["ms"])
        many = max(_FEW_CALLS + 3, min(_MOST_CALLS, round(_BATCH_MS / (flush + claim_ms))))
        batches: dict[bool, list[timing.Batch]] = {False: [], True: []}
        for attempt in range(_SUSPICIONS):
            for reference in (False, True):
                for calls in (_FEW_CALLS, many):
                    body = {"command": "batch", "key": shape.name, "reference": reference, "calls": calls}
                    start = time.perf_counter()
                    device.ask(Gate.TIMING, body)
                    batches[reference].append(timing.Batch(calls, 1e3 * (time.perf_counter() - start)))
            fraud = timing.forged(claim_ms, batches[False], batches[True], flush)
            if not fraud:
                return
            if attempt == _SUSPICIONS - 1:
                raise Stop(Outcome.TIMING_FORGED, Gate.TIMING, fraud, where=shape.name)


def _tensor_bytes(shape: Any, trace: Trace) -> int:
    return sum(view.end for view in trace.inputs) + sum(view.end for view in trace.tape.outputs())


def _arena_bytes(shape: Any, trace: Trace) -> int:
    """Room for the inputs and outputs of one case, or for the weights, whichever is more."""
    weights = sum(v.numel() * v.element_size() + 2048 for v in shape.state.values())
    weights += sum(blob.numel() + 2048 for blob in trace.blobs)
    count = len(trace.inputs) + len(trace.tape.outputs())
    return max(weights, _tensor_bytes(shape, trace) + 2048 * count) + (4 << 20)
