"""Evaluates a suite by rungs: one answer per task with its rungs' results; resumable."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from search.making import Judge, Says, cannot

from kernelwright.cli import pipeline
from kernelwright.errors import UserError
from kernelwright.outcomes import Outcome
from kernelwright.records import Rollout, Task
from kernelwright.runs import RunFolder
from kernelwright.search import suite
from kernelwright.search.suite import evaluate_rungs
from kernelwright.search.whole import Settings
from kernelwright.tasks import load_suite
from kernelwright.verify import opened

KERNEL = "import torch\n\n\ndef kernel(x):\n    return 0.5\n"
BROKEN = Task(id="file/broken", source="class Model: pass")


def evaluated(out: Path, rung: Any, tasks: list[Task], judge: Any = None, **options: Any) -> dict[str, Any]:
    judge = judge or Judge()
    settings = Settings(contractions="own", rungs=("compiler",), protocol="strict,kernelbench")
    return evaluate_rungs(
        "compiler", tasks, out, lambda: nullcontext(judge), lambda: [rung], settings, quiet=True, **options
    )


def test_every_task_has_one_verdict_and_a_failure_its_reason(tmp_path: Path) -> None:
    tasks = [*load_suite("wright/relu"), BROKEN]
    found = evaluated(tmp_path / "run", Says("compiler", KERNEL), tasks)
    assert (found["correct"], found["samples"]) == (1, 2)
    assert found["rungs"] == {"compiler": 1}
    rows = RunFolder(tmp_path / "run").rows("rollouts.jsonl", Rollout)
    assert [row.task_id for row in rows] == ["wright/relu", "file/broken"]
    assert "class ModelNew" in rows[0].candidate.code
    assert rows[1].verdict.outcome is Outcome.NO_CODE
    assert "fix the task" in rows[1].verdict.detail
    assert [one.protocol for one in rows[1].verdict.beside] == ["kernelbench"]
    said = [json.loads(line) for line in (tmp_path / "run/searches.jsonl").read_text().splitlines()]
    assert said[0]["rows"][0]["rung"] == "compiler"


def test_what_was_not_asked_is_counted(tmp_path: Path) -> None:
    found = evaluated(
        tmp_path / "run",
        Says("model", cannot("not asked: its card does not list relu")),
        load_suite("wright/relu"),
    )
    assert found["not_asked"] == {"model": 1}
    assert found["correct"] == 0


def test_a_stopped_one_goes_on_with_the_next_task(tmp_path: Path) -> None:
    tasks = load_suite("wright/relu,silu")

    class Stopped(Judge):
        def submit(self, task: Task, candidate: Any) -> Any:
            if "silu" in task.id:
                raise KeyboardInterrupt
            return super().submit(task, candidate)

    with pytest.raises(KeyboardInterrupt):
        evaluated(tmp_path / "run", Says("compiler", KERNEL), tasks, Stopped())
    rung = Says("compiler", KERNEL)
    with pytest.raises(UserError, match="--resume"):
        evaluated(tmp_path / "run", rung, tasks)
    assert evaluated(tmp_path / "run", rung, tasks, resume=True)["correct"] == 2
    assert rung.asked == 1


@pytest.mark.parametrize(("seconds", "expected"), [(170.0, 170.0), (5.0, 30.0)])
def test_a_verdict_may_take_as_long_as_its_search(
    seconds: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def judge_at(**options: Any) -> Any:
        given.update(options)
        return nullcontext()

    def evaluate(policy: str, tasks: Any, out: Any, judge: Any, *rest: Any, **options: Any) -> Any:
        with judge():
            raise UserError("opened")

    monkeypatch.setattr(opened, "judge_at", judge_at)
    monkeypatch.setattr(suite, "evaluate_rungs", evaluate)
    judge = {"target": "h200", "backend": "interpret", "protocol": "strict", "workers": 1, "deadline_s": 20.0}
    with pytest.raises(UserError, match="opened"):
        pipeline._evaluate_rungs([], "compiler", Path(), judge, {"seconds": seconds}, False, Console())
    assert given["deadline_s"] == expected
