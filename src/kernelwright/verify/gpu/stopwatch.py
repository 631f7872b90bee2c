"""The judge's side of timing: candidate against reference with the GPU to itself, and checks for forged times.

`gpu/clock.py` measures, in the device process. The judge provides the draws that inputs are refreshed from, checks the
output of one timed call, and times whole batches itself.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Task, Timing
from kernelwright.verify.confined import Confined, Stop
from kernelwright.verify.cost.footprint import UNSEEN_BYTES
from kernelwright.verify.gpu import timing
from kernelwright.verify.traced import Trace
from kernelwright.verify.verification import explain

if TYPE_CHECKING:
    from kernelwright.verify.gpu.memory import Arena
    from kernelwright.verify.protocol import Protocol
    from kernelwright.verify.reference.gpu_cases import GpuCases

_FEW_CALLS, _MORE_CALLS, _MOST_CALLS, _BATCH_MS = 2, 4, 64, 8.0
"""Batches that the judge times: one of a few calls, one of as many as take about `_BATCH_MS`."""
_SUSPICIONS = 8


class Suspected(InfrastructureError):
    """The judge's clock contradicts a claimed time, but others ran on the same GPU: verify again, alone."""


class Stopwatch:
    """Times one candidate at one shape. `prepare` shares the GPU, `race` has it to itself.

    `alone`: no other verification runs on the GPU, so a contradicting time is the candidate's fault.
    """

    def __init__(
        self, device: Confined, arena: Arena, shape: GpuCases, trace: Trace, alone: bool = False
    ) -> None:
        self._device, self._arena, self._shape, self._trace = device, arena, shape, trace
        self._alone = alone
        self._answer: dict[str, Any] = {}
        self.share = 1.0
        """Share of a call's GPU time spent in the candidate's kernels."""

    def prepare(self, task: Task, against_itself: bool) -> None:
        """Build the reference in the device process and lay out inputs and outputs. Raises Stop."""
        body = {
            "command": "reference",
            "key": self._shape.name,
            "task": task.model_dump(mode="json"),
            "sizes": self._shape.sizes,
            "inputs": self._shape.form,
            "own": against_itself,
        }
        self._device.ask(Gate.TIMING, body)
        arena = self._arena
        arena.reset()
        self._audited = [arena.place(tensor) for tensor in self._shape.audit.inputs()]
        self._outputs = arena.slots(self._shape.expected)
        self._unseen = [self._place_part(tensor) for tensor in self._shape.unseen()]
        torch.cuda.current_stream().synchronize()

    def _place_part(self, tensor: Any) -> dict[str, object]:
        """Place a secret part of another draw in the arena; returns its slot and its offset `at`."""
        from kernelwright.verify.gpu.memory import flat

        whole = flat(tensor)
        count = min(whole.numel(), UNSEEN_BYTES // tensor.element_size())
        start = secrets.randbelow(whole.numel() - count + 1)
        return {**self._arena.place(whole[start : start + count]), "at": start}

    def race(self, protocol: Protocol, precision: float) -> None:
        """Time both sides in turn to `precision` (see `Clock.rounds`), compare one timed output with the oracle, then time
        whole batches. Raises Stop."""
        body = {
            "command": "time",
            "key": self._shape.name,
            "audited": self._audited,
            "unseen": self._unseen,
            "outputs": self._outputs,
            "anew": self._shape.changes_inputs,
            "precision": precision,
        }
        self._answer, _ = self._device.ask(Gate.TIMING, body)
        wrong = self._shape.audit.compare([self._arena.locate(slot) for slot in self._outputs], protocol)
        if wrong is not None:
            detail = f"wrong in a timed call: {explain(wrong, self._shape.audit.name)}"
            raise Stop(Outcome.TIMING_FORGED, Gate.TIMING, detail, where=self._shape.audit.name)
        if self._trace.tape.compute():
            self.share = float(self._device.ask(Gate.TIMING, {"command": "share"})[0]["share"])
        self._check_claim(
            *(timing.geometric(side).centre for side in zip(*self._answer["rounds"], strict=True))
        )

    def _check_claim(self, claim_ms: float, reference_ms: float) -> None:
        """Check the claimed times by timing batches of two sizes with the judge's clock, which the device process cannot forge.

        Noise only adds to a batch, so a suspicion must survive more batches. If they contradict the reference's time, too,
        something else disturbs the clock (InfrastructureError). A candidate suspected while other verifications ran is
        judged again alone (Suspected).
        """
        flush = float(self._device.ask(Gate.TIMING, {"command": "flush", "calls": 5})[0]["ms"])
        many = max(_MORE_CALLS, min(_MOST_CALLS, round(_BATCH_MS / (flush + claim_ms))))
        batches: dict[bool, list[timing.Batch]] = {False: [], True: []}
        for attempt in range(_SUSPICIONS):
            for reference in (False, True):
                for calls in (_FEW_CALLS, many):
                    start = time.perf_counter()
                    answer, _ = self._device.ask(
                        Gate.TIMING,
                        {"command": "batch", "reference": reference, "calls": calls, "most": many},
                    )
                    batches[reference].append(timing.Batch(calls, 1e3 * (time.perf_counter() - start)))
            delay = float(answer["delay_ms"])
            fraud = timing.why_forged(claim_ms, batches[False], batches[True], flush, delay)
            if not fraud:
                return
            if attempt < _SUSPICIONS - 1:
                continue
            if timing.contradicts(reference_ms, batches[True], flush):
                raise InfrastructureError(
                    f"the clock is disturbed: the reference is slower than measured, too: {fraud}"
                )
            if not self._alone:
                raise Suspected(fraud)
            raise Stop(Outcome.TIMING_FORGED, Gate.TIMING, fraud, where=self._shape.name)

    @property
    def binaries(self) -> list[dict[str, Any]]:
        """The driver's figures of the timed kernels."""
        return list(self._answer["binaries"])

    def result(self, target: str, roofline_ms: float | None, compiled: float | None) -> Timing:
        """`roofline_ms`: the least time the work can take; `compiled`: torch.compile's time over eager's."""
        rounds: list[list[float]] = self._answer["rounds"]
        own = timing.geometric([entry[0] for entry in rounds])
        eager = timing.geometric([entry[1] for entry in rounds])
        ratio = timing.geometric([entry[1] / entry[0] for entry in rounds])
        baselines, intervals = {"eager": eager.centre}, {"eager": (ratio.low, ratio.high)}
        if compiled is not None:
            baselines["compile"] = eager.centre * compiled
            intervals["compile"] = (ratio.low * compiled, ratio.high * compiled)
        return Timing(
            kind="measured",
            target=target,
            candidate_ms=own.centre,
            candidate_ci=(own.low, own.high),
            baseline_ms=baselines,
            speedup_ci=intervals,
            roofline_fraction=None if roofline_ms is None else min(1.0, roofline_ms / own.centre),
            samples=len(rounds) * int(self._answer["calls"]),
        )
