"""Stages with a time limit."""

from pathlib import Path

import pytest
from fakes import ReadJudge
from tiny import make_recipe

from kernelwright.runs import RunFolder
from kernelwright.train import timed, train
from kernelwright.train.timed import Falling


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Successive values of `perf_counter`; the last one repeats."""
    said: list[float] = []
    monkeypatch.setattr(timed.time, "perf_counter", lambda: said.pop(0) if len(said) > 1 else said[0])
    return said


def test_the_rate_falls_by_time_from_the_end_of_the_first_step_on(clock: list[float]) -> None:
    clock[:] = [0.0, 100.0, 105.0, 110.0, 130.0]
    falling = Falling(seconds=10, steps=1000, warmup=0.0, shape="linear")
    assert [falling(step) for step in range(4)] == pytest.approx([1.0, 0.999, 0.5, 0.0])
    assert falling.over


def test_it_warms_up_and_ends_by_steps_as_well(clock: list[float]) -> None:
    clock[:] = [0.0, 0.0, 1.0, 2.0]
    falling = Falling(seconds=20, steps=4, warmup=0.5, shape="cosine")
    assert [falling(step) for step in range(5)] == pytest.approx([0.0, 0.5, 1.0, 0.5, 0.0])


def test_what_was_spent_is_kept_and_what_no_machine_ran_is_not_spent(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock[:] = [10.0, 14.0]
    falling = Falling(seconds=10, steps=1000, warmup=0.0, shape="linear")
    falling(1), falling(2)
    monkeypatch.setattr(timed, "_PROCESS", "another")
    again = Falling(seconds=10, steps=1000, warmup=0.0, shape="linear")
    again.__dict__.update(falling.__dict__)
    clock[:] = [9000.0, 9003.0]
    again(3), again(4)
    assert again.spent == pytest.approx(7.0)


def test_stages_end_after_a_whole_step_with_all_that_a_last_step_has(data: Path, tmp_path: Path) -> None:
    recipe = make_recipe(
        data,
        stages=["sft", "frontend"],
        sft={"steps": 30, "batch": 4, "seconds": 1e-6, "eval_every": 25, "eval_share": 0.5},
        frontend={"steps": 9, "seconds": 1e-6, "updates": 2},
    )
    train(recipe, tmp_path, verifier=ReadJudge(), quiet=True)
    lines = RunFolder(tmp_path).lines("curves.jsonl")
    steps = {stage: [line["step"] for line in lines if line["stage"] == stage] for stage in recipe.stages}
    assert max(steps["sft"]) <= 2
    assert "heldout_loss" in next(line for line in lines[::-1] if line["stage"] == "sft")
    assert max(steps["frontend"]) == 1
    assert [stage for stage in recipe.stages if RunFolder(tmp_path).done(stage)] == ["sft", "frontend"]
