"""The device process's parts that need no GPU: how its clock refreshes inputs, and what it frees."""

import os
import time
from pathlib import Path

import pytest
import torch

from kernelwright.verify.gpu.clock import Inputs


def fresh(tensor: torch.Tensor, other: torch.Tensor, at: int = 0) -> tuple[torch.Tensor, Inputs]:
    bound = torch.zeros_like(tensor)
    inputs = Inputs([bound], [tensor], [{"at": at, "values": other}])
    inputs.restore()
    return bound, inputs


def test_every_call_has_other_inputs_that_mix_the_two_draws() -> None:
    seen, other = torch.randn(64, 64), torch.randn(4096)
    bound, inputs = fresh(seen, other)
    calls = []
    for _ in range(20):
        inputs.freshen()
        calls.append(bound.clone())
        known = (bound.view(-1) == seen.view(-1)) | (bound.view(-1) == other)
        assert known.all()
    assert len({tuple(call.view(-1).tolist()) for call in calls}) >= 18
    inputs.restore()
    assert torch.equal(bound, seen)


def test_a_stretch_of_a_large_input_is_refreshed_where_it_lies() -> None:
    seen, other = torch.zeros(1000), torch.ones(100)
    bound, inputs = fresh(seen, other, at=300)
    met = torch.zeros(1000)
    for _ in range(30):
        inputs.freshen()
        met += bound
    assert met[300:400].any()
    assert not met[:300].any()
    assert not met[400:].any()


def test_integers_come_whole_from_one_draw() -> None:
    seen, other = torch.zeros(50, dtype=torch.int64), torch.ones(50, dtype=torch.int64)
    bound, inputs = fresh(seen, other)
    found = set()
    for _ in range(30):
        inputs.freshen()
        found.add(int(bound.sum()))
    assert found == {0, 50}


def test_inputs_with_gaps_and_without_elements() -> None:
    seen = torch.arange(40.0).view(4, 10)[:, :3]
    bound = torch.zeros(4, 10)[:, :3]
    other = torch.full((33,), -1.0)
    inputs = Inputs(
        [bound, torch.zeros(0)],
        [seen, torch.zeros(0)],
        [{"at": 0, "values": other}, {"at": 0, "values": torch.zeros(0)}],
    )
    inputs.restore()
    assert torch.equal(bound, seen)
    inputs.freshen()
    assert ((bound == seen) | (bound == -1.0)).all()


def test_old_binaries_go_where_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelwright.verify.gpu import device as cuda_device

    monkeypatch.setattr(cuda_device, "_PRUNE_BYTES", 2500)
    long_ago = time.time() - 2 * cuda_device._PRUNE_AGE_S
    for name, age in (("old", 2.0), ("older", 3.0), ("oldest", 4.0), ("new", 0.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel.cubin").write_bytes(b"x" * 1000)
        when = time.time() if not age else long_ago - age
        os.utime(tmp_path / name / "kernel.cubin", (when, when))
    cuda_device._prune(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"old", "new"}
