"""verifiers' own taskset and reward machinery. Run by `make adapters`, in an environment of its own."""

import asyncio
from types import SimpleNamespace

import pytest

vf = pytest.importorskip("verifiers.v1")

from adapters import samples  # noqa: E402
from kernelwright.adapters import for_verifiers, grading  # noqa: E402
from kernelwright.errors import InfrastructureError  # noqa: E402


def tasks() -> list:
    config = for_verifiers.KernelTasksetConfig(id="kernelwright", suite="wright/" + ",".join(samples.NAMES))
    return list(for_verifiers.KernelTaskset(config))


def test_a_taskset_gives_prompts_that_its_harness_can_ask() -> None:
    made = tasks()
    assert len(made) == 10
    assert all(task.data.prompt_text and task.data.system_prompt for task in made)
    assert len({task.key for task in made}) == 10


def test_ten_samples_are_paid_as_locally(grader: grading.Grader) -> None:
    made = tasks()
    rows = [{"task_id": task.data.name, "task": task.data.task} for task in made]
    for task, row, text in zip(made, rows, samples.answers(rows), strict=True):
        trace = SimpleNamespace(last_reply=text)
        local = grader.grade(grading.read_task(row["task"]), text)
        assert asyncio.run(task.kernel(trace)) == local.reward
        assert asyncio.run(task.correct(trace)) == local.metrics()["correct"]


def test_the_reward_and_the_metric_are_found() -> None:
    from verifiers.v1.utils.decorators import discover_decorated

    task = tasks()[0]
    assert [one.__name__ for one in discover_decorated(task, "reward")] == ["kernel"]
    assert [one.__name__ for one in discover_decorated(task, "metric")] == ["correct"]


def test_a_dead_judge_pays_nothing(dead: None) -> None:
    with pytest.raises(InfrastructureError):
        asyncio.run(tasks()[0].kernel(SimpleNamespace(last_reply="x")))
