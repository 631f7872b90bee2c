"""The judge's own clock, with a fake device process: who is accused, and who is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.verify.confined import Stop
from kernelwright.verify.gpu import stopwatch, timing
from kernelwright.verify.gpu.clock import Clock, Side

FLUSH_MS, REFERENCE_MS, FIXED_MS = 0.1, 0.5, 4.0


class Played:
    """A device whose calls take a set number of milliseconds on the judge's clock. `noise` is added per batch, in turn."""

    def __init__(
        self, own: float, reference: float, noise: tuple[float, ...] = (0.0,), pad: float = 0.0
    ) -> None:
        self.own, self.reference, self.noise, self.pad = own, reference, noise, pad
        self.batches = 0
        self.now = 0.0

    def ask(self, gate: Gate, body: dict[str, Any], tensors: Any = None) -> tuple[dict[str, Any], list[Any]]:
        assert gate is Gate.TIMING
        if body["command"] == "flush":
            return {"ms": FLUSH_MS}, []
        assert body["calls"] <= body["most"]
        call = self.reference if body["reference"] else self.own
        fixed = FIXED_MS + (0.0 if body["reference"] else self.pad)
        self.now += fixed + body["calls"] * (call + FLUSH_MS) + self.noise[self.batches % len(self.noise)]
        self.batches += 1
        return {"delay_ms": FIXED_MS}, []


def outside(device: Played, claim: float, monkeypatch: pytest.MonkeyPatch, alone: bool = True) -> None:
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: device.now / 1e3)
    watch = stopwatch.Stopwatch(device, None, SimpleNamespace(name="full"), None, alone)  # type: ignore[arg-type]
    watch._check_claim(claim, REFERENCE_MS)


def test_a_true_claim_is_believed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Played(own=0.3, reference=REFERENCE_MS)
    outside(device, 0.3, monkeypatch)
    assert device.batches == 4


def test_a_claim_of_half_the_time_is_forged(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        Stop, match=r"claims 0\.1500 ms a call; clocked from outside it takes 0\.3000 ms"
    ) as stop:
        outside(Played(own=0.3, reference=REFERENCE_MS), 0.15, monkeypatch)
    assert stop.value.outcome is Outcome.TIMING_FORGED


def test_a_padded_batch_is_forged(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Stop, match="a batch costs"):
        outside(Played(own=0.3, reference=REFERENCE_MS, pad=4.0), 0.3, monkeypatch)


def test_a_long_call_may_differ_from_itself_by_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    # At 190 ms per call, batches deviate by 4 %: 7.5 ms above the line through the others.
    outside(Played(own=190.0, reference=23.0, pad=7.5), 190.0, monkeypatch)


def test_who_is_suspected_beside_others_is_heard_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(stopwatch.Suspected, match="a batch costs"):
        outside(Played(own=0.3, reference=REFERENCE_MS, pad=4.0), 0.3, monkeypatch, alone=False)


def test_a_crooked_line_of_the_references_accuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    # The reference's larger batches were disturbed each time, so its line starts below zero.
    outside(Played(own=0.3, reference=REFERENCE_MS, noise=(0.0, 0.0, 0.0, 12.0)), 0.3, monkeypatch)


def test_noise_in_some_batches_accuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Played(own=0.3, reference=REFERENCE_MS, noise=(0.0, 30.0, 0.0, 9.0, 0.0, 0.0, 0.0))
    outside(device, 0.3, monkeypatch)
    assert device.batches > 4


def test_a_host_that_cannot_keep_up_accuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InfrastructureError, match="the clock is disturbed"):
        outside(Played(own=1.2, reference=1.5), 0.3, monkeypatch)


def test_the_reference_alone_does_not_excuse_a_forger() -> None:
    batches = [timing.Batch(2, 5.2), timing.Batch(20, 16.0)]  # 0.6 per call and flush
    assert not timing.contradicts(0.5, batches, FLUSH_MS)
    assert timing.contradicts(0.3, batches, FLUSH_MS)


def test_a_batch_waits_for_the_slowest_host() -> None:
    clock = Clock.__new__(Clock)
    quick, slow = Side(lambda: None), Side(lambda: None)
    quick.delay, slow.delay = 60_000, 400_000
    per_ms = 2_000_000
    assert clock.batch_delay([quick, quick], 2) == (4 * per_ms, 4.0)
    assert clock.batch_delay([quick, slow], 64) == (64 * 400_000, 12.8)
    slow.delay = 40_000_000
    assert clock.batch_delay([quick, slow], 64) == (200 * per_ms, 200.0)
