"""Errors that stop a run take one line with the fix, and leave a state that --resume continues from."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import ReadJudge
from tiny import make_recipe

from kernelwright.cli.app import read_seeds
from kernelwright.config import ModelConfig
from kernelwright.errors import UserError
from kernelwright.runs import RunFolder
from kernelwright.train import train
from kernelwright.train.checkpoints import save_model
from kernelwright.train.curves import Curves
from kernelwright.train.model import attend, check_base, load_adapted, load_model, load_tokenizer, new_model


@pytest.fixture
def folder(data: Path, tmp_path: Path) -> Path:
    recipe = make_recipe(data)
    tokenizer = load_tokenizer(str(data / "tokenizer"))
    return save_model(new_model(recipe.model, tokenizer, 0), tokenizer, tmp_path / "model")


def change(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"num_hidden_layers": 2, "layer_types": None}, "are missing, such as model.layers.1"),
        ({"intermediate_size": 96}, "their shapes differ"),
    ],
)
def test_weights_of_another_architecture(folder: Path, values: dict[str, Any], said: str) -> None:
    change(folder, **values)
    with pytest.raises(UserError, match=said) as error:
        load_model(str(folder), "float32")
    assert "\n" not in str(error.value)


def test_an_adapter_of_another_base(data: Path, folder: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    made = get_peft_model(load_model(str(folder), "float32"), LoraConfig(r=2, target_modules=["q_proj"]))
    made.save_pretrained(tmp_path / "adapter")
    other = make_recipe(data, model={"hidden_size": 64, "head_dim": 32})
    tokenizer = load_tokenizer(str(data / "tokenizer"))
    save_model(new_model(other.model, tokenizer, 0), tokenizer, folder)
    with pytest.raises(
        UserError, match=r"does not fit .*; it was trained on a base of another architecture"
    ) as error:
        load_adapted(str(tmp_path / "adapter"), "float32")
    assert "\n" not in str(error.value)


def test_an_attention_that_is_not_installed(folder: Path) -> None:
    model = load_model(str(folder), "float32")
    attend(model, "eager")
    assert model.config._attn_implementation == "eager"
    with pytest.raises(UserError, match="'flash_attention_2' cannot be had here") as error:
        attend(model, "flash_attention_2")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
def test_a_loss_that_is_no_number_stops_before_a_checkpoint(tmp_path: Path, name: str) -> None:
    curves = Curves(RunFolder(tmp_path), "frontend", quiet=True)
    state = SimpleNamespace(is_world_process_zero=True, global_step=3)
    with pytest.raises(UserError, match=rf"frontend: the {name} of step 3 is nan; .* go on with --resume"):
        curves.on_log(None, state, None, logs={"loss": 1.0, "grad_norm": 1.0, name: math.nan})
    assert RunFolder(tmp_path).lines("curves.jsonl") == []


def test_a_run_whose_loss_was_no_number_goes_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happens once, in the fifth step; the run resumes from the checkpoint of the fourth."""
    recipe = make_recipe(data, stages=["sft"], sft={"steps": 8, "save_every": 4, "eval_every": 0})
    check = Curves._check_finite

    def broken(self: Curves, logs: dict[str, Any], step: int) -> None:
        check(self, logs | ({"loss": math.nan} if step == 5 else {}), step)

    monkeypatch.setattr(Curves, "_check_finite", broken)
    with pytest.raises(UserError, match="the loss of step 5 is nan"):
        train(recipe, tmp_path / "run", verifier=ReadJudge(), quiet=True)
    monkeypatch.undo()
    train(recipe, tmp_path / "run", resume=True, verifier=ReadJudge(), quiet=True)
    assert [line["step"] for line in RunFolder(tmp_path / "run").lines("curves.jsonl")] == list(range(1, 9))


@pytest.mark.parametrize("text", ["", "1,1", "one"])
def test_seeds_are_different_numbers(text: str) -> None:
    assert read_seeds("0,2") == [0, 2]
    with pytest.raises(UserError, match="name different whole numbers, such as 0,1,2"):
        read_seeds(text)


def test_a_base_that_nobody_has_is_told_before_a_corpus_is_made() -> None:
    for init in ("random", "pretrained"):
        with pytest.raises(UserError, match=r"model\.base no/such .*local folder"):
            check_base(ModelConfig(base="no/such", init=init))  # type: ignore[arg-type]
