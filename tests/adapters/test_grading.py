"""A completion gets the reward of our own trainer; if the judge failed it gets none at all, not zero."""

import pytest

from adapters import samples
from kernelwright import rewards
from kernelwright.adapters import for_trl, for_verl, grading
from kernelwright.candidates import parse
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.verify import VerifierPool


def test_rows_name_their_task_and_hold_it() -> None:
    rows = samples.rows()
    assert [grading.read_task(row["task"]).id for row in rows] == [row["task_id"] for row in rows]
    assert {message["role"] for message in rows[0]["prompt"]} == {"system", "user"}


@pytest.mark.slow
def test_a_reward_is_the_local_one(grader: grading.Grader, pool: VerifierPool) -> None:
    rows = samples.rows()
    paid = for_trl.kernel_reward([], samples.answers(rows), [row["task"] for row in rows])
    for row, text, reward in zip(rows, samples.answers(rows), paid, strict=True):
        verdict = pool.verify(grading.read_task(row["task"]), parse(text))
        assert reward == rewards.reward("wright", verdict).total
    assert all(r is not None and r > 0 for r in paid[:8])
    assert paid[8] is not None
    assert paid[8] < min(r for r in paid[:8] if r is not None)


def test_trl_leaves_out_what_a_dead_judge_was_asked(dead: None) -> None:
    row = samples.rows()[0]
    assert for_trl.kernel_reward([], [samples.answer(row["task_id"])], [row["task"]]) == [None]


def test_trl_reports_the_same_metrics_for_every_sample(dead: None) -> None:
    row, seen = samples.rows()[0], {}
    for_trl.kernel_reward(
        [], [[{"role": "assistant", "content": "no"}]], [row["task"]], log_metric=seen.__setitem__
    )
    assert set(seen) == {"kernel/correct", "kernel/compiled", "kernel/judged", "kernel/speedup"}


def test_an_environment_of_trl_pays_the_best_kernel(grader: grading.Grader) -> None:
    row = samples.rows()[0]
    environment = for_trl.KernelEnvironment()
    environment.reset(**row)
    assert "no" in environment.submit_kernel("x = 1").lower()
    code = samples.answer(row["task_id"]).removeprefix("```python\n").removesuffix("\n```")
    environment.submit_kernel(code)
    assert (
        environment.get_reward()
        == grader.grade(grading.read_task(row["task"]), samples.answer(row["task_id"])).reward
    )


def test_verl_gets_a_score_and_metrics(grader: grading.Grader) -> None:
    row = next(for_verl.rows("wright/relu"))
    paid = for_verl.compute_score(
        "kernelwright", samples.answer("wright/relu"), row["reward_model"]["ground_truth"], {}
    )
    cheat = for_verl.compute_score("kernelwright", samples.CHEAT, row["reward_model"]["ground_truth"], {})
    assert paid.keys() == cheat.keys()
    assert paid["score"] > cheat["score"]


def test_verl_stops_rather_than_pay_zero_for_a_dead_judge(dead: None) -> None:
    row = next(for_verl.rows("wright/relu"))
    with pytest.raises(InfrastructureError, match="no fair verdict"):
        for_verl.compute_score("kernelwright", "x", row["reward_model"]["ground_truth"], {})


def test_a_row_without_a_task_says_how_to_make_rows() -> None:
    with pytest.raises(UserError, match="task_rows"):
        grading.read_task("{}")
