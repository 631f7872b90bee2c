"""The chain: completions are parsed, judged once, rewarded, and logged completely; failures of the judge are data."""

import json
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import ReadJudge, SaidPolicy, answer, kernel_of, task
from functions import pair, softmax_task

from kernelwright.errors import UserError
from kernelwright.outcomes import Outcome
from kernelwright.policy.text import until_plan
from kernelwright.prompts import render
from kernelwright.records import Candidate, Completion, Rollout, Verdict
from kernelwright.rollouts import (
    Judge,
    Rolling,
    await_verdict,
    gpu_seconds,
    hand_on,
    in_module,
    quiet_gpu,
    roll,
    with_known_time,
    with_print,
)

TASK = task("one")
PROMPT = render("frontend", TASK, style="compact")


def rolled(*kernels: str, judge: ReadJudge | Judge | None = None) -> list[Rollout]:
    policy = SaidPolicy(lambda prompt, sample, seed: answer(kernels[sample]))
    [group] = roll(policy, [PROMPT], [TASK], judge or ReadJudge(), n=len(kernels), stage="sft", step=3)
    return group


def test_a_rollout_holds_all_that_led_to_its_reward() -> None:
    [rollout] = rolled("correct 0.5")
    assert (rollout.task_id, rollout.stage, rollout.step, rollout.prompt) == (TASK.id, "sft", 3, PROMPT)
    assert rollout.candidate.plan == "a plan"
    assert rollout.verdict.speedup() == 2.0
    assert rollout.reward is not None
    assert rollout.reward.total is not None
    again = Rollout.model_validate_json(json.dumps(json.loads(rollout.model_dump_json())))
    assert again.model_dump_json() == rollout.model_dump_json()


def test_samples_of_one_prompt_share_a_group_and_those_of_two_do_not() -> None:
    other = task("two")
    policy = SaidPolicy(lambda *_: answer("correct"))
    groups = roll(policy, [PROMPT, render("frontend", other)], [TASK, other], ReadJudge(), n=2)
    assert [len({r.group for r in group}) for group in groups] == [1, 1]
    assert len({r.group for group in groups for r in group}) == 2
    assert [[r.task_id for r in group] for group in groups] == [[TASK.id] * 2, [other.id] * 2]


def test_identical_candidates_are_heard_once() -> None:
    judge = ReadJudge()
    rollouts = rolled("correct 0.5", "correct 0.5", "wrong_value", "correct 0.5", judge=judge)
    assert judge.judged == 2
    assert [r.verdict.correct for r in rollouts] == [True, True, False, True]


def test_the_same_code_for_another_task_is_another_case() -> None:
    inner = ReadJudge()
    judge = Judge(inner)
    policy = SaidPolicy(lambda *_: answer("correct"))
    for name in ("one", "two", "one"):
        roll(policy, [render("frontend", task(name))], [task(name)], judge)
    assert (judge.asked, judge.judged, inner.judged) == (3, 2, 2)


def test_a_failing_judge_is_data_without_a_reward_and_is_asked_again() -> None:
    inner = ReadJudge()
    judge = Judge(inner)
    for _ in range(2):
        [rollout] = rolled("crash", judge=judge)
        assert rollout.verdict.outcome is Outcome.INFRASTRUCTURE_ERROR
        assert "the judge fell over" in rollout.verdict.detail
        assert rollout.reward is not None
        assert rollout.reward.total is None
    assert inner.judged == 2


def test_a_judge_forgets_the_oldest_case_first() -> None:
    inner = ReadJudge()
    judge = Judge(inner, limit=2)
    for kernel in ("correct 1", "correct 2", "correct 3", "correct 3", "correct 1"):
        rolled(kernel, judge=judge)
    assert inner.judged == 4


def test_a_broken_task_is_the_users_to_fix() -> None:
    with pytest.raises(UserError, match="get_inputs raised"):
        rolled("broken task")


def test_a_broken_task_among_many_costs_its_own_samples() -> None:
    candidate, failed = Candidate(code="x"), Future[Verdict]()
    failed.set_exception(UserError("the reference's own output is not finite"))
    verdict = await_verdict(failed, TASK, candidate, drop_broken=True)
    assert verdict.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert "not finite" in verdict.detail


def test_silence_is_a_rejection() -> None:
    policy = SaidPolicy(lambda *_: "")
    [[rollout]] = roll(policy, [PROMPT], [TASK], ReadJudge())
    assert rollout.verdict.outcome is Outcome.EMPTY_COMPLETION


@pytest.mark.parametrize(
    ("given", "made", "handed"),
    [
        ("correct 0.5", "correct 0.4", "correct 0.4"),
        ("correct 0.5", "correct 0.6", "correct 0.5"),
        ("correct 0.5", "correct 0.5", "correct 0.5"),
        ("correct 0.5", "wrong_value", "correct 0.5"),
        ("correct 0.5", "correct", "correct 0.5"),
        ("correct", "correct 0.5", "correct 0.5"),
    ],
)
def test_a_stage_hands_on_the_faster_verified_kernel(given: str, made: str, handed: str) -> None:
    old, new = rolled(given, made)
    assert kernel_of(hand_on(old, new)) == handed


def test_no_clock_runs_on_the_judges_gpu_while_a_local_policy_writes() -> None:
    """The lock is held during generation and released before waiting for verdicts."""
    held: list[str] = []

    class Judge(ReadJudge):
        gpus = ("a GPU",)

        @contextmanager
        def at_work(self) -> Iterator[None]:
            held.append("held")
            yield
            held.append("free")

    class Local(SaidPolicy):
        busy: Any = nullcontext

        def generate(self, *args: Any, **options: Any) -> Any:
            with self.busy():
                return super().generate(*args, **options)

    [[rollout]] = roll(Local(lambda *_: answer("correct 1")), [PROMPT], [TASK], Judge())
    assert rollout.verdict.correct
    assert held == ["held", "free"]
    assert quiet_gpu(ReadJudge()) is None


def test_what_gpus_spent_is_added_up() -> None:
    pool = SimpleNamespace(gpus=[SimpleNamespace(spent={"clock": 1.0, "cases": 2.0}) for _ in range(2)])
    assert gpu_seconds(Judge(pool)) == {"clock": 2.0, "cases": 4.0}
    assert gpu_seconds(SimpleNamespace(gpus=[])) == {}


# -- function form


def test_a_function_is_judged_with_the_module_around_it_that_plain_code_writes() -> None:
    judged = in_module(softmax_task(), Candidate(code=pair().code))
    assert judged.code.startswith("import torch")
    assert judged.code.endswith(
        "class ModelNew(nn.Module):\n    def forward(self, x):\n        return kernel(x)\n"
    )


def test_a_module_of_its_own_is_judged_as_it_is() -> None:
    own = Candidate(code="class ModelNew: pass")
    assert in_module(softmax_task(), own) == own
    assert in_module(TASK, Candidate(code="def kernel(): pass")).code == "def kernel(): pass"


def test_code_without_the_function_says_which_is_missing() -> None:
    judged = in_module(softmax_task(), Candidate(code="x = 1"))
    assert (judged.problem, judged.detail) == (Outcome.NO_ENTRY, "no function kernel(x)")


def test_code_that_is_not_python_is_left_to_the_judge() -> None:
    torn = Candidate(code="def kernel(x:")
    assert in_module(softmax_task(), torn) == torn


# -- plans alone, and what is known


def test_where_the_plan_alone_is_asked_for_the_printer_writes_the_code() -> None:
    printed = with_print(softmax_task(), Candidate(plan=pair().plan, problem=Outcome.NO_CODE))
    assert (printed.code, printed.problem) == (pair().code, None)


def test_what_is_no_plan_of_the_graph_has_no_code_and_says_why() -> None:
    said = with_print(
        softmax_task(), Candidate(plan="g1: softmax  nest row  warps 3", problem=Outcome.NO_CODE)
    )
    assert said.problem is Outcome.NO_CODE
    assert said.detail.startswith("no such plan: ")


def test_a_plans_decisions_count_and_not_how_it_names_the_operators() -> None:
    other = pair().plan.replace("softmax", "amax", 1)
    printed = with_print(softmax_task(), Candidate(plan=other, problem=Outcome.NO_CODE))
    assert (printed.code, printed.plan, printed.problem) == (pair().code, pair().plan, None)


def test_a_plan_for_operators_of_another_nest_is_no_plan_of_the_graph() -> None:
    said = with_print(
        softmax_task(), Candidate(plan="g1: tanh  nest map  block 1024  warps 4", problem=Outcome.NO_CODE)
    )
    assert said.detail == "no such plan: it is about tanh, and the graph is softmax"


def test_an_answer_with_plan_alone_is_judged_by_its_print() -> None:
    prompt = render("frontend", softmax_task(), style="compact", answer="plan")
    policy = SaidPolicy(lambda *_: f"<plan>\n{pair().plan}\n</plan>")
    [[rollout]] = roll(policy, [prompt], [softmax_task()], ReadJudge())
    assert rollout.candidate.code == pair().code
    asked_for_both = prompt.model_copy(update={"answer": "plan+code"})
    [[rollout]] = roll(policy, [asked_for_both], [softmax_task()], ReadJudge())
    assert rollout.candidate.code == ""


def test_what_memory_knows_is_not_judged() -> None:
    inner, known = ReadJudge(), rolled("correct 0.5")[0].verdict
    judge = Judge(inner, memory=lambda task, candidate: known if "0.5" in candidate.code else None)
    said = rolled("correct 0.5", "correct 2", judge=judge)
    assert [r.verdict.speedup() for r in said] == [2.0, 0.5]
    assert inner.judged == 1


def test_the_best_known_time_stands_beside_what_was_timed() -> None:
    policy = SaidPolicy(lambda *_: answer("correct 0.5"))
    [[rollout]] = roll(policy, [PROMPT], [TASK], ReadJudge(), known_us=[1000.0])
    assert rollout.verdict.timing is not None
    assert rollout.verdict.timing.known_ms == 1.0
    failed = rolled("wrong_value")[0].verdict
    assert with_known_time(failed, 1000.0) == failed


def test_where_no_time_is_known_the_fastest_of_a_prompts_samples_is() -> None:
    said = iter(("correct 0.5", "wrong_value", "correct 2"))
    policy = SaidPolicy(lambda *_: answer(next(said)))
    rolling = Rolling(policy, [PROMPT], [TASK], ReadJudge(), reward="plans", stage="", step=0, among=True)
    rolling.generate(3, temperature=1.0, top_p=1.0, seed=0)
    [[fast, wrong, slow]] = rolling.collect()
    assert fast.verdict.timing is not None
    assert slow.verdict.timing is not None
    assert fast.verdict.timing.known_ms == slow.verdict.timing.known_ms == fast.verdict.timing.candidate_ms
    assert (wrong.reward.plan, slow.reward.plan, fast.reward.plan) == (-1.0, -1.0, 0.0)


def test_a_model_that_goes_on_behind_its_plan_is_cut_there_with_its_tokens() -> None:
    pieces = ["<plan>\ng1", " x\n", "</plan>\n", "```python\n", "import"]
    said = Completion(
        text="".join(pieces), token_ids=(1, 2, 3, 4, 5), logprobs=(-1.0,) * 5, finish_reason="length"
    )
    kept = until_plan(said, pieces)
    assert (kept.text, kept.token_ids, kept.finish_reason) == (
        "<plan>\ng1 x\n</plan>\n",
        (1, 2, 3),
        "stop",
    )
    assert until_plan(kept, pieces[:3]) == kept
