"""Stages end to end at the smallest size: each starts from the previous, resumes to the same curve, fails in one line."""

import contextlib
import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from fakes import ReadJudge, answer
from tiny import make_recipe

from kernelwright import candidates
from kernelwright.config import Recipe
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.policy import load_policy
from kernelwright.records import Rollout, read_jsonl
from kernelwright.rollouts import Rolling
from kernelwright.runs import RunFolder
from kernelwright.train import train
from kernelwright.train.stages import train_stage


def run(recipe: Recipe, out: Path, judge: ReadJudge | None = None, **options: Any) -> Path:
    return train(recipe, out, verifier=judge or ReadJudge(), quiet=True, **options)


def curve(out: Path) -> list[dict[str, Any]]:
    """The log of each step, without seconds."""
    lines = RunFolder(out).lines("curves.jsonl")
    for line in lines:
        del line["seconds"]
        line.pop("idle_share", None)
        line["trl"] = {k: v for k, v in line["trl"].items() if "time" not in k and "runtime" not in k}
    return lines


def rollouts(out: Path) -> list[tuple[str, int, str, str]]:
    return [
        (r.stage, r.step, r.group, r.completion.text) for r in read_jsonl(out / "rollouts.jsonl", Rollout)
    ]


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of all three stages."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    run(make_recipe(data), out)
    return out


@pytest.fixture
def after_sft(whole: Path, tmp_path: Path) -> Path:
    """A run folder after SFT only."""
    out = tmp_path / "run"
    shutil.copytree(whole / "stages" / "sft", out / "stages" / "sft")
    shutil.copy(whole / "config.json", out)
    (out / "state.json").write_text('{"done": ["sft"]}')
    lines = (whole / "curves.jsonl").read_text().splitlines(keepends=True)
    (out / "curves.jsonl").write_text("".join(line for line in lines if json.loads(line)["stage"] == "sft"))
    return out


def test_a_run_leaves_a_model_a_curve_and_rollouts(whole: Path) -> None:
    assert [(line["stage"], line["step"]) for line in curve(whole)] == [
        *(("sft", step) for step in range(1, 31)),
        *(("frontend", step) for step in range(1, 5)),
        *(("midend", step) for step in range(1, 3)),
    ]
    assert len(rollouts(whole)) == 4 * 2 * 4 + 2 * 4
    assert RunFolder(whole).read_json("state.json") == {"done": ["sft", "frontend", "midend"]}
    assert not list(whole.glob("stages/*/steps"))
    for stage in ("sft", "frontend", "midend"):
        assert load_policy(str(whole / "stages" / stage)).name


def test_each_stage_starts_from_the_one_before(data: Path, whole: Path, after_sft: Path) -> None:
    """With a learning rate near zero, the next stage's weights equal the previous one's."""
    recipe = make_recipe(data, frontend={"learning_rate": 1e-30}, stages=["sft", "frontend"])
    RunFolder(after_sft).write_json("config.json", recipe)
    run(recipe, after_sft, resume=True)
    before, after = (weights(after_sft / "stages" / s / "checkpoint") for s in ("sft", "frontend"))
    assert all((before[name] == after[name]).all() for name in before)
    assert any((before[name] != w).any() for name, w in weights(whole / "stages/frontend/checkpoint").items())


def test_steps_of_the_reference_run_teach_something(whole: Path) -> None:
    """Else the tests of resuming would compare runs that do not change."""
    norms = [line["trl"]["grad_norm"] for line in curve(whole)]
    assert sum(norm > 0 for norm in norms) >= len(norms) - 2


def test_only_training_examples_are_seen(whole: Path) -> None:
    assert {r.task_id for r in read_jsonl(whole / "rollouts.jsonl", Rollout)} == {"synth/a", "synth/b"}


def test_a_stage_may_have_a_judge_of_its_own(
    data: Path, after_sft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelwright.train import stages

    asked: list[tuple[str, float]] = []

    class Pool:
        @staticmethod
        def of(config: Any) -> Any:
            asked.append((config.backend, config.deadline_s))
            return contextlib.nullcontext(ReadJudge())

    monkeypatch.setattr(stages, "open_pool", Pool.of)
    recipe = make_recipe(data, frontend={"judge": "interpret", "deadline_s": 5}, verify={"backend": "auto"})
    assert [recipe.judging(stage).backend for stage in ("frontend", "midend")] == ["interpret", "auto"]
    (after_sft / "config.json").unlink()
    run(recipe, after_sft, resume=True)
    assert asked == [("interpret", 5.0)], "the mid-end goes to the judge of the run"


def test_a_step_may_make_several_updates(data: Path, tmp_path: Path, after_sft: Path) -> None:
    """Each gets its share of the samples, and all use log-probs from sampling."""
    recipe = make_recipe(data, frontend={"updates": 4, "epochs": 2, "steps": 2}, stages=["sft", "frontend"])
    RunFolder(after_sft).write_json("config.json", recipe)
    run(recipe, after_sft, resume=True)
    lines = [line for line in curve(after_sft) if line["stage"] == "frontend"]
    assert [line["step"] for line in lines] == [1, 2]
    assert all(sum(line["outcomes"].values()) == 8 for line in lines)
    assert len(rollouts(after_sft)) == 16
    assert lines[0]["trl"]["clip_ratio/region_mean"] < 0.5


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_and_another_does_not(
    data: Path, whole: Path, tmp_path: Path
) -> None:
    run(make_recipe(data), tmp_path / "again")
    run(make_recipe(data, seed=1), tmp_path / "other")
    assert curve(tmp_path / "again") == curve(whole)
    assert rollouts(tmp_path / "again") == rollouts(whole)
    assert rollouts(tmp_path / "other") != rollouts(whole)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [("frontend", 1), ("frontend", 3), ("frontend", 4), ("midend", 2)])
def test_a_stopped_run_goes_on_to_the_same_curve(
    recipe: Recipe, whole: Path, after_sft: Path, moment: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle of a step's rollouts: before a stage's first checkpoint, after one, and in between."""

    collect = Rolling.collect

    def stop(self: Rolling) -> Any:
        rolled = collect(self)
        if (self.stage, self.step) == moment:
            raise KeyboardInterrupt
        return rolled

    monkeypatch.setattr(Rolling, "collect", stop)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, after_sft, resume=True)
    monkeypatch.undo()
    run(recipe, after_sft, resume=True)
    assert curve(after_sft) == curve(whole)
    assert rollouts(after_sft) == rollouts(whole)


@pytest.mark.slow
def test_a_stopped_run_that_is_ahead_goes_on_to_the_same_curve(
    data: Path, after_sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rollouts generated ahead are in the checkpoint, since the weights that wrote them are gone."""
    from kernelwright.train.curves import Curves

    recipe = make_recipe(data, stages=["sft", "frontend"], frontend={"staleness": 1, "save_every": 1})
    RunFolder(after_sft).write_json("config.json", recipe)
    shutil.copytree(after_sft, tmp_path / "whole")
    run(recipe, tmp_path / "whole", resume=True)
    log = Curves.on_log

    def stop(self: Curves, args: Any, state: Any, *rest: Any, **more: Any) -> None:
        log(self, args, state, *rest, **more)
        if state.global_step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Curves, "on_log", stop)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, after_sft, resume=True)
    monkeypatch.undo()
    assert list(after_sft.glob("stages/frontend/steps/checkpoint-2/ahead-0.json"))
    run(recipe, after_sft, resume=True)
    assert curve(after_sft) == curve(tmp_path / "whole")
    assert rollouts(after_sft) == rollouts(tmp_path / "whole")


def test_a_stopped_sft_goes_on_to_the_same_curve(
    data: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelwright.train.curves import Curves

    recipe = make_recipe(data, stages=["sft"])
    log = Curves.on_log

    def stop(self: Curves, args: Any, state: Any, *rest: Any, **more: Any) -> None:
        log(self, args, state, *rest, **more)
        if state.global_step == 21:
            raise KeyboardInterrupt

    monkeypatch.setattr(Curves, "on_log", stop)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path)
    assert len(curve(tmp_path)) == 21
    monkeypatch.undo()
    run(recipe, tmp_path, resume=True)
    assert curve(tmp_path) == [line for line in curve(whole) if line["stage"] == "sft"]
    assert all(
        (w == weights(whole / "stages/sft/checkpoint")[name]).all()
        for name, w in weights(tmp_path / "stages/sft/checkpoint").items()
    )


def test_a_finished_run_does_nothing_more(recipe: Recipe, whole: Path) -> None:
    judge = ReadJudge()
    before = (whole / "curves.jsonl").stat().st_mtime_ns
    assert run(recipe, whole, judge, resume=True) == whole / "stages/midend/checkpoint"
    assert (judge.judged, (whole / "curves.jsonl").stat().st_mtime_ns) == (0, before)


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_run_goes_on_later(
    recipe: Recipe, whole: Path, after_sft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    saved = torch.save
    calls = []

    def full(*args: Any, **kwargs: Any) -> None:
        calls.append(args)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UserError, match=r"disk is full.*--resume") as error:
        run(recipe, after_sft, resume=True)
    assert calls
    assert "\n" not in str(error.value)
    assert not list(after_sft.glob("stages/frontend/steps/*"))
    monkeypatch.setattr(torch, "save", saved)
    run(recipe, after_sft, resume=True)
    assert curve(after_sft) == curve(whole)


def test_a_folder_with_a_run_asks_for_resume_and_for_the_same_recipe(data: Path, whole: Path) -> None:
    with pytest.raises(UserError, match="add --resume"):
        run(make_recipe(data), whole)
    with pytest.raises(UserError, match=r"other settings \(seed\)"):
        run(make_recipe(data, seed=7), whole, resume=True)


def test_a_dead_verifier_stops_the_run_in_one_line(recipe: Recipe, after_sft: Path) -> None:
    def crash(*_: Any) -> None:
        raise RuntimeError("no zygote")

    with pytest.raises(InfrastructureError, match=r"(?s)the verifier failed.*no zygote.*--resume"):
        run(recipe, after_sft, ReadJudge(crash), resume=True)


def test_a_reward_for_speed_needs_a_judge_that_prices(data: Path, after_sft: Path) -> None:
    recipe = make_recipe(data)
    frontend = recipe.frontend.model_copy(update={"judge": "values", "reward": "wright"})
    with pytest.raises(UserError, match="frontend: reward 'wright' pays for speed"):
        train_stage(recipe.model_copy(update={"frontend": frontend}), RunFolder(after_sft), "frontend")


def test_missing_examples_are_one_line(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no examples at"):
        run(make_recipe(data, data={"examples": str(tmp_path / "none.jsonl")}), tmp_path / "run")


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"sft": {"kinds": ["repair"]}}, "none of 0 examples of kinds repair fits"),
        ({"model": {"context": 20}}, "raise model.context"),
        ({"frontend": {"families": ["scan"]}, "stages": ["frontend"]}, "widen frontend.families"),
        ({"data": {"tokenizer": "/nowhere"}}, "tokenizer /nowhere cannot be loaded"),
        ({"model": {"init": "pretrained", "base": "/nowhere"}}, "model /nowhere cannot be loaded"),
    ],
)
def test_what_cannot_work_is_one_line(data: Path, tmp_path: Path, tables: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        run(make_recipe(data, **tables), tmp_path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_sft_learns_the_answers_and_rl_learns_which_is_right(data: Path, tmp_path: Path) -> None:
    """The main goal: after SFT both answers are given, after the front end only the one the judge accepts."""

    class OnlyFast(ReadJudge):
        def submit(self, task: Any, candidate: Any) -> Any:
            if "correct 2" in candidate.code:
                candidate = candidates.parse(answer("wrong_value"))
            return super().submit(task, candidate)

    recipe = make_recipe(
        data,
        stages=["sft", "frontend"],
        sft={"steps": 60, "learning_rate": 0.02, "save_every": 60},
        frontend={"steps": 24, "samples": 16, "learning_rate": 0.003, "save_every": 24},
    )
    run(recipe, tmp_path, OnlyFast())
    rates = [line["pass_rate"] for line in curve(tmp_path) if line["stage"] == "frontend"]
    assert 0.1 < sum(rates[:3]) / 3 < 0.8
    assert sum(rates[-6:]) / 6 > 0.9
