"""Two processes on one step (gloo, CPU) give the same run as one process."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import ReadJudge
from safetensors.torch import load_file
from tiny import make_recipe
from together import TESTS, recipe_of

from kernelwright.errors import UserError
from kernelwright.records import Rollout, read_jsonl
from kernelwright.runs import RunFolder
from kernelwright.train import train


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def launch(data: Path, out: Path, *stages: str, world: int = 2) -> None:
    shared = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*sys.path, str(TESTS), str(TESTS / "train")]),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "ACCELERATE_USE_CPU": "1",
    }
    command = [sys.executable, str(TESTS / "train" / "together.py"), str(data), str(out), *stages]
    started = [
        subprocess.Popen(
            command,
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    said = [process.communicate(timeout=280)[1] for process in started]
    assert [process.returncode for process in started] == [0] * world, said


def frontend(out: Path) -> list[dict[str, Any]]:
    return [line for line in RunFolder(out).lines("curves.jsonl") if line["stage"] == "frontend"]


@pytest.mark.parametrize("settings", ["sft frontend", pytest.param("kevin", marks=pytest.mark.slow)])
def test_two_processes_make_the_run_of_one(data: Path, tmp_path: Path, settings: str) -> None:
    recipe = recipe_of(data, stages=settings)
    train(recipe, tmp_path / "one", verifier=ReadJudge(), quiet=True)
    # Both start from the same SFT, so that only the shared reinforcement is compared.
    shutil.copytree(tmp_path / "one" / "stages" / "sft", tmp_path / "two" / "stages" / "sft")
    shutil.copy(tmp_path / "one" / "config.json", tmp_path / "two")
    (tmp_path / "two" / "state.json").write_text('{"done": ["sft"]}')
    launch(data, tmp_path / "two", settings)
    texts = [
        [r.completion.text for r in read_jsonl(tmp_path / name / "rollouts.jsonl", Rollout)]
        for name in ("one", "two")
    ]
    assert sorted(texts[0]) == sorted(texts[1])
    for one, two in zip(frontend(tmp_path / "one"), frontend(tmp_path / "two"), strict=True):
        assert (one["step"], one["outcomes"], one["zero_variance"]) == (
            two["step"], two["outcomes"], two["zero_variance"],
        )  # fmt: skip
        assert one["reward"] == pytest.approx(two["reward"])
        assert one["loss"] == pytest.approx(two["loss"], abs=2e-5)
        assert one["trl"]["grad_norm"] == pytest.approx(two["trl"]["grad_norm"], rel=1e-3)
    first, second = (
        load_file(tmp_path / name / "stages/frontend/checkpoint/model.safetensors") for name in ("one", "two")
    )
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_two_processes_share_supervised_batches_and_evaluations(data: Path, tmp_path: Path) -> None:
    train(recipe_of(data, stages="sft"), tmp_path / "one", quiet=True)
    launch(data, tmp_path / "two", "sft")
    one, two = (RunFolder(tmp_path / name).lines("curves.jsonl") for name in ("one", "two"))
    assert [line["step"] for line in one] == [line["step"] for line in two] == [2, 3, 4, 6]
    for a, b in zip(one, two, strict=True):
        assert a["tokens"] == b["tokens"]
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)
        assert a.get("heldout_loss", 0.0) == pytest.approx(b.get("heldout_loss", 0.0), rel=1e-3)
        for metric in ("grad_norm", "entropy", "mean_token_accuracy"):
            assert a["trl"][metric] == pytest.approx(b["trl"][metric], rel=1e-2)


def test_prompts_that_processes_cannot_share_are_one_line(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelwright.train.curves import Curves
    from kernelwright.train.segments import grpo_config

    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UserError, match="cannot be shared by 3 processes"):
        grpo_config(make_recipe(data), Curves(RunFolder(tmp_path), "frontend"))
