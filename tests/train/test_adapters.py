"""LoRA through the stages: adapters on one base, passed on, with the KL to the start of each stage."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import ReadJudge
from safetensors.torch import load_file
from tiny import make_recipe

from kernelwright.config import Recipe
from kernelwright.policy import load_policy
from kernelwright.runs import RunFolder
from kernelwright.train import train


def lora_recipe(data: Path, **tables: Any) -> Recipe:
    return make_recipe(
        data,
        stages=["sft", "frontend", "midend"],
        lora={"rank": 4, "alpha": 8},
        sft={"steps": 12, "save_every": 6},
        frontend={"steps": 1, "beta": 0.1, "save_every": 1},
        midend={"steps": 1, "beta": 0.1, "updates": 1, "epochs": 2, "save_every": 1},
        **tables,
    )


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lora") / "run"
    train(lora_recipe(data), out, verifier=ReadJudge(), quiet=True)
    return out


def adapter(run: Path, stage: str) -> dict[str, torch.Tensor]:
    return load_file(run / "stages" / stage / "checkpoint" / "adapter_model.safetensors")


def test_every_stage_leaves_an_adapter_of_the_one_base(run: Path) -> None:
    for stage in ("sft", "frontend", "midend"):
        folder = run / "stages" / stage / "checkpoint"
        assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == str(
            run / "base"
        )
        assert not (folder / "model.safetensors").exists()
        assert not (folder / "ref").exists(), "the reference is not handed on"
    assert (run / "base" / "model.safetensors").exists()


def test_an_adapter_is_carried_on_from_stage_to_stage(run: Path) -> None:
    """One step with a small learning rate changes it slightly; a new one would start with B = 0."""
    before, after = adapter(run, "sft"), adapter(run, "frontend")
    assert before.keys() == after.keys()
    learnt = [name for name in before if "lora_B" in name]
    assert any((after[name] != before[name]).any() for name in learnt)
    assert all((after[name] - before[name]).abs().max() < before[name].abs().max() for name in learnt)


def test_the_kl_starts_at_nothing_in_every_stage(run: Path) -> None:
    """The reference is the adapter at the start of the stage, not the bare base."""
    lines = [line for line in RunFolder(run).lines("curves.jsonl") if line["stage"] != "sft"]
    assert lines[0]["trl"]["kl"] == pytest.approx(0.0, abs=1e-6)
    assert lines[1]["trl"]["kl"] < 0.5


def test_an_adapter_is_a_policy(run: Path) -> None:
    from kernelwright.prompts import render
    from kernelwright.records import Task

    policy = load_policy(str(run))
    prompt = render(
        "frontend", Task(id="synth/a", suite="synth", source="# a"), style="compact", max_tokens=4
    )
    [[said]] = policy.generate([prompt], seed=1)
    assert len(said.token_ids or ()) <= 4
