"""Compact checkpoints: a third of the size, exact counters, and a resumed run still equals the uninterrupted one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import ReadJudge
from test_recipes import on_paper, recipe
from tiny import make_recipe

from kernelwright.runs import RunFolder
from kernelwright.train import train
from kernelwright.train.checkpoints import round_states, shrink
from kernelwright.train.curves import Curves
from kernelwright.train.optimizers import muon


def losses(out: Path) -> list[tuple[int, float]]:
    return [(line["step"], line["loss"]) for line in RunFolder(out).lines("curves.jsonl")]


def stepped(model: torch.nn.Module, make: Any) -> Any:
    optimizer = make(model)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return optimizer


@pytest.mark.parametrize(
    "make", [lambda m: torch.optim.AdamW(m.parameters()), lambda m: muon(m, 0.1, 0.1, 0.0)]
)
def test_what_is_saved_is_what_the_run_goes_on_with(make: Any, tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(40, 24), torch.nn.Linear(24, 24), torch.nn.LayerNorm(24))
    optimizer = stepped(model, make)
    round_states(model, optimizer)
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    before = (tmp_path / "optimizer.pt").stat().st_size
    shrink(tmp_path)
    assert (tmp_path / "optimizer.pt").stat().st_size < 0.75 * before
    other = stepped(model, make)
    other.load_state_dict(torch.load(tmp_path / "optimizer.pt", weights_only=True))
    for mine, theirs in zip(_states(optimizer), _states(other), strict=True):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine, theirs)


def _states(optimizer: Any) -> list[torch.Tensor]:
    parts = getattr(optimizer, "parts", [optimizer])
    return [
        v for part in parts for state in part.state.values() for v in state.values() if torch.is_tensor(v)
    ]


@pytest.mark.slow
def test_a_resumed_run_is_the_uninterrupted_one(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_recipe(data, stages=["sft"], compact_checkpoints=True, sft={"steps": 12, "save_every": 4})
    train(made, tmp_path / "whole", verifier=ReadJudge(), quiet=True)
    log = Curves.on_log

    def stop(self: Curves, args: Any, state: Any, *rest: Any, **more: Any) -> None:
        log(self, args, state, *rest, **more)
        if state.global_step == 7:
            raise KeyboardInterrupt

    monkeypatch.setattr(Curves, "on_log", stop)
    with pytest.raises(KeyboardInterrupt):
        train(made, tmp_path / "stopped", verifier=ReadJudge(), quiet=True)
    monkeypatch.undo()
    train(made, tmp_path / "stopped", resume=True, verifier=ReadJudge(), quiet=True)
    assert losses(tmp_path / "stopped") == losses(tmp_path / "whole")


def test_the_default_models_checkpoint_fits_64_mib() -> None:
    """bfloat16 weights, one moment per matrix (Muon), two for the rest (AdamW)."""
    made = recipe("default_model")
    assert made.compact_checkpoints
    assert {made.sft.optimizer, made.frontend.optimizer, made.midend.optimizer} == {"muon"}
    model = on_paper(made)
    matrices, rest = (
        sum(p.numel() for g in part.param_groups for p in g["params"]) for part in muon(model, 1, 1, 0).parts
    )
    assert 2 * (2 * matrices + 3 * rest) < 63 * 2**20
