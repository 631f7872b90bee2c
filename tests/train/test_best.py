"""`sft.keep = "best"` hands on the weights with the least held-out loss, even after a stop."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny import make_recipe

from kernelwright.errors import UserError
from kernelwright.runs import RunFolder
from kernelwright.train import train
from kernelwright.train.best import Best
from kernelwright.train.heldout import HeldOut

LOSSES = {3: 0.5, 6: 0.2, 9: 0.2, 12: 0.3}
"""Faked evaluation losses by step."""


def layer(value: float) -> torch.nn.Linear:
    made = torch.nn.Linear(2, 2)
    torch.nn.init.constant_(made.weight, value)
    made.bias.requires_grad_(False)
    return made


def test_the_least_loss_is_kept_and_found_again(tmp_path: Path) -> None:
    best = Best(tmp_path)
    assert (best.step, best.loss) == (0, math.inf)
    for step, loss in ((1, 0.9), (2, 0.1), (3, 0.1), (4, math.nan), (5, 0.7)):
        best.offer(layer(float(step)), step, loss)
    again, given = Best(tmp_path), layer(9.0)
    assert (again.step, again.loss) == (2, 0.1)
    bias = given.bias.clone()
    again.restore(given)
    assert given.weight.unique().tolist() == [2.0]
    assert torch.equal(given.bias, bias)


def test_where_nothing_was_kept_the_model_stays(tmp_path: Path) -> None:
    best, given = Best(tmp_path), layer(9.0)
    best.offer(layer(1.0), 1, 0.5, write=False)
    best.restore(given)
    assert given.weight.unique().tolist() == [9.0]


def evaluated(monkeypatch: pytest.MonkeyPatch, first: int, stop_at: int = 0) -> dict[int, torch.Tensor]:
    """Make evaluations return `LOSSES` from step `first` on, and stop the run at step `stop_at`. Collects weights by step."""
    seen: dict[int, torch.Tensor] = {}
    steps = itertools.count(first, 3)

    def said(self: HeldOut, model: Any) -> dict[str, float]:
        step = next(steps)
        if step == stop_at:
            raise KeyboardInterrupt
        seen[step] = model.state_dict()["model.embed_tokens.weight"].clone()
        return {"heldout_loss": LOSSES[step]}

    monkeypatch.setattr(HeldOut, "losses", said)
    return seen


@pytest.mark.parametrize(("stop_at", "again_from"), [(0, 3), (6, 6), (9, 9), (12, 9)])
def test_a_run_hands_on_its_best_weights(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int, again_from: int
) -> None:
    """Also if it was stopped before or after that evaluation, and resumed from the previous checkpoint."""
    recipe = make_recipe(
        data, stages=["sft"], sft={"steps": 12, "batch": 2, "eval_every": 3, "save_every": 4, "keep": "best"}
    )
    seen: dict[int, torch.Tensor] = {}
    if stop_at:
        before = evaluated(monkeypatch, 3, stop_at)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, tmp_path, quiet=True)
        seen |= before
    after = evaluated(monkeypatch, again_from)
    train(recipe, tmp_path, resume=True, quiet=True)
    seen |= after
    made = load_file(tmp_path / "stages/sft/checkpoint/model.safetensors")["model.embed_tokens.weight"]
    assert torch.equal(made, seen[6])
    assert not torch.equal(made, seen[12])
    assert RunFolder(tmp_path).read_json("stages/sft/kept.json") == {"step": 6, "heldout_loss": 0.2}
    assert [path.name for path in (tmp_path / "stages/sft").iterdir() if path.is_dir()] == ["checkpoint"]


def test_the_best_of_nothing_is_one_line(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="set eval_every"):
        make_recipe(data, sft={"keep": "best", "eval_every": 0})
    recipe = make_recipe(data, stages=["sft"], sft={"keep": "best", "kinds": ["improve"]})
    with pytest.raises(UserError, match=r"raise sft\.eval_share"):
        train(recipe, tmp_path, quiet=True)
