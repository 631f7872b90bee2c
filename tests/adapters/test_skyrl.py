"""SkyRL-gym's own registry makes the environment. Run by `make adapters`, in an environment of its own."""

import pytest

skyrl_gym = pytest.importorskip("skyrl_gym")

from adapters import samples  # noqa: E402
from kernelwright.adapters import for_skyrl, grading  # noqa: E402
from kernelwright.errors import InfrastructureError  # noqa: E402


def make(row: dict, **extras: object) -> for_skyrl.KernelEnv:
    from skyrl_gym.envs.registration import register, registry

    if "kernelwright" not in registry:
        register(id="kernelwright", entry_point="kernelwright.adapters.for_skyrl:KernelEnv")
    return skyrl_gym.make("kernelwright", extras={"reward_spec": {"ground_truth": row["task"]}, **extras})


def test_ten_samples_are_paid_as_locally(grader: grading.Grader) -> None:
    rows = samples.rows()
    for row, text in zip(rows, samples.answers(rows), strict=True):
        env = make(row)
        env.init(row["prompt"])
        step = env.step(text)
        assert step["done"]
        assert step["reward"] == grader.grade(grading.read_task(row["task"]), text).reward


def test_a_second_turn_is_told_what_was_wrong(grader: grading.Grader) -> None:
    row = samples.rows()[0]
    env = make(row, max_turns=2)
    first = env.step("I cannot.")
    assert not first["done"]
    assert first["observations"][0]["content"]
    assert env.step(samples.answer(row["task_id"]))["metadata"]["correct"] == 1.0


def test_a_dead_judge_pays_nothing(dead: None) -> None:
    with pytest.raises(InfrastructureError):
        make(samples.rows()[0]).step("x")
