"""OpenEnv's own app, over HTTP. Run by `make adapters`, in an environment of its own."""

import pytest

pytest.importorskip("openenv")

from adapters import samples
from kernelwright.adapters import for_openenv, grading
from kernelwright.errors import UserError


def test_ten_samples_are_paid_as_locally(grader: grading.Grader) -> None:
    rows = samples.rows()
    env = for_openenv.KernelEnvironment()
    for row, text in zip(rows, samples.answers(rows), strict=True):
        assert env.reset(task_id=row["task_id"]).messages == tuple(row["prompt"])
        seen = env.step(for_openenv.KernelAction(completion=text))
        assert seen.reward == grader.grade(grading.read_task(row["task"]), text).reward
        assert seen.done is (seen.outcome == "correct")


def test_the_app_serves_an_episode(grader: grading.Grader) -> None:
    from fastapi.testclient import TestClient

    with TestClient(for_openenv.app) as client, client.websocket_connect("/ws") as session:
        session.send_json({"type": "reset", "data": {"task_id": "wright/relu"}})
        assert session.receive_json()["data"]["observation"]["messages"]
        session.send_json({"type": "step", "data": {"completion": samples.answer("wright/relu")}})
        assert session.receive_json()["data"]["done"] is True


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(UserError, match="no task"):
        for_openenv.KernelEnvironment().reset(task_id="wright/nothing")


def test_a_dead_judge_pays_nothing(dead: None) -> None:
    env = for_openenv.KernelEnvironment()
    env.reset(task_id="wright/relu")
    assert env.step(for_openenv.KernelAction(completion="x")).reward is None
