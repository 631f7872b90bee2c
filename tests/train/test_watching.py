"""Monitoring a run: figures for trackers, evaluation during training, the best weights, shares of the judge."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import transformers
from fakes import ReadJudge
from tiny import make_recipe

from kernelwright.config import VerifyConfig
from kernelwright.errors import UserError
from kernelwright.runs import RunFolder
from kernelwright.train import processes, train
from kernelwright.train.curves import tracker_metrics
from kernelwright.train.sft import check_trackers


def test_a_line_in_numbers_for_trackers() -> None:
    extra = {
        "pass_rate": 0.5,
        "speedup": None,
        "outcomes": {"correct": 1, "timeout": 3},
        "drawn": {},
        "seconds": {"verify": 2},
    }
    assert tracker_metrics(extra) == {
        "kernelwright/pass_rate": 0.5,
        "kernelwright/outcomes/correct": 0.25,
        "kernelwright/outcomes/timeout": 0.75,
        "kernelwright/seconds/verify": 2.0,
    }


def test_a_tracker_that_is_not_installed_is_one_line(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="trackio is not installed; pip install trackio"):
        check_trackers(make_recipe(data, report_to=["trackio"]))


def test_a_run_shows_what_it_learns_and_keeps_the_best(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(
        transformers.trainer.DefaultFlowCallback,
        "on_log",
        lambda self, args, state, control, logs=None, **_: seen.append(dict(logs or {})),
        raising=False,
    )
    recipe = make_recipe(
        data,
        stages=["sft", "frontend"],
        sft={"steps": 16, "eval_every": 0, "log_every": 16},
        frontend={"steps": 4, "eval_every": 2, "keep": "best", "staleness": 1, "turns": 2},
        eval={"samples": 2, "max_tokens": 48},
    )
    train(recipe, tmp_path / "run", verifier=ReadJudge(), quiet=True)
    lines = [
        line for line in RunFolder(tmp_path / "run").lines("curves.jsonl") if line["stage"] == "frontend"
    ]
    assert [("heldout_pass_rate" in line) for line in lines] == [False, True, False, True]
    for line in lines:
        assert 0 <= line["idle_share"] <= 1
        assert "nats" in line
        assert not [key for key in line["trl"] if key.startswith("kernelwright/")]
    assert lines[0]["staleness"] == 0
    assert 0 < lines[1]["staleness"] <= 1
    kept = RunFolder(tmp_path / "run").read_json("stages/frontend/kept.json")
    assert kept is not None
    assert kept["step"] in (2, 4)
    assert any("kernelwright/pass_rate" in logs and "kernelwright/idle_share" in logs for logs in seen)


@pytest.mark.parametrize(
    ("place", "devices", "given", "expected"),
    [("1", (), 4, (1, 3)), ("0", (2, 5), 8, (2,)), ("1", (), 1, (0,)), ("1", (), 0, ())],
)
def test_each_process_judges_on_its_share(
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    devices: tuple[int, ...],
    given: int,
    expected: tuple[int, ...],
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", place)
    monkeypatch.setattr(processes, "gpus", lambda: given)
    own = processes.share_of_judge(VerifyConfig(workers=16, devices=devices))
    assert (own.workers, own.devices) == (8, expected)


def test_a_service_is_one_judge_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    config = VerifyConfig(workers=16, judge="http://localhost:8100")
    assert processes.share_of_judge(config) is config


def test_only_the_front_end_is_evaluated_while_it_trains(data: Path) -> None:
    with pytest.raises(UserError, match=r"midend\.eval_every: later agents are measured on the kernels"):
        make_recipe(data, midend={"eval_every": 2})
    with pytest.raises(UserError, match='keep = "best" compares evaluations: set eval_every'):
        make_recipe(data, frontend={"keep": "best"})
