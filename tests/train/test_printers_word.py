"""Printed code is accepted without judging once one of its kind was judged correct; all other code is judged."""

from concurrent.futures import Future
from typing import Any

import pytest
from functions import pair, softmax_graph, softmax_task, written

from kernelwright.config import parse_recipe
from kernelwright.errors import UserError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.rollouts import Judge
from kernelwright.train.printers_word import PrintersWord, print_of


class Counting:
    """A judge that always gives one outcome, and counts."""

    def __init__(self, outcome: Outcome = Outcome.CORRECT) -> None:
        self.outcome, self.asked = outcome, 0

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        self.asked += 1
        answer: Future[Verdict] = Future()
        answer.set_result(Verdict(task_id=task.id, outcome=self.outcome, gate=Gate.FULL))
        return answer


def prints(**decisions: Any) -> Candidate:
    plan, code = written(softmax_graph(), **decisions)
    return Candidate(plan=plan, code=code)


def said_of(judge: Counting, *candidates: Candidate, judged: float = 0.0) -> list[Verdict]:
    with PrintersWord(judge, judged, "h200", workers=1) as word:
        before = Judge(word)
        return [before.submit(softmax_task(), one).result(60) for one in candidates]


@pytest.mark.slow
def test_one_of_a_kind_is_judged() -> None:
    judge = Counting()
    verdicts = said_of(judge, *(prints(warps=warps) for warps in (1, 2, 4, 8)))
    assert judge.asked == 1
    assert [verdict.protocol for verdict in verdicts] == ["strict", "printed", "printed", "printed"]
    assert all(verdict.correct for verdict in verdicts)
    cost = verdicts[-1].evidence.cost
    assert cost is not None
    assert cost.bytes > 0


def test_a_share_of_them_is_judged_all_the_same() -> None:
    judge = Counting()
    said_of(judge, *(prints(warps=warps) for warps in (1, 2, 4, 8)), judged=1.0)
    assert judge.asked == 4


@pytest.mark.slow
def test_nothing_is_believed_of_a_kind_that_was_wrong() -> None:
    judge = Counting(Outcome.WRONG_VALUE)
    verdicts = said_of(judge, *(prints(warps=warps) for warps in (1, 2, 4, 8)))
    assert judge.asked == 4
    assert not any(verdict.correct for verdict in verdicts)


@pytest.mark.slow
@pytest.mark.parametrize("change", [("tl.exp", "tl.exp2"), ("import torch\n", "import torch  # mine\n")])
def test_any_other_code_is_judged(change: tuple[str, str]) -> None:
    judge, right = Counting(), prints(warps=4)
    other = right.model_copy(update={"code": right.code.replace(*change)})
    assert other.code != right.code
    said_of(judge, right, prints(warps=2), other)
    assert judge.asked == 2


def test_a_plan_of_another_graph_is_no_print() -> None:
    one = pair()
    other = Candidate(plan=one.plan.replace("softmax", "amax"), code=one.code)
    assert print_of(softmax_task(), other, "h200") is None


def test_plans_alone_may_be_priced_by_a_judge_of_prints() -> None:
    made = parse_recipe({"name": "r", "midend": {"judge": "model", "answer": "plan"}})
    judging = made.judging("midend")
    assert (judging.backend, judging.printed, judging.priced) == ("interpret", True, True)
    assert not made.judging("frontend").printed
    with pytest.raises(UserError, match=r'midend.judge = "model" is for printed kernels'):
        parse_recipe({"name": "r", "midend": {"judge": "model"}})


def test_what_is_clocked_is_not_taken_at_a_word() -> None:
    with pytest.raises(UserError, match=r"frontend\.judged"):
        parse_recipe({"name": "r", "stages": ["frontend"], "frontend": {"judged": 0.1}})
