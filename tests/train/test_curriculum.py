"""A step's prompts: each in turn, easy ones first, undecided ones more often, families in a mixture, none held out."""

from collections import Counter
from pathlib import Path

import pytest
from fakes import ReadJudge, SaidPolicy, answer, task
from tiny import examples

from kernelwright.errors import UserError
from kernelwright.prompts import render
from kernelwright.records import Rollout, Task, write_jsonl
from kernelwright.rollouts import roll
from kernelwright.train.curriculum import FLOOR, Curriculum
from kernelwright.train.prompts import Ask, frontend_asks, midend_asks, refuse_heldout


def asks(count: int = 12) -> list[Ask]:
    """Tasks of difficulty 1, 2, 3 and of two families."""
    return [
        Ask(
            Task(
                id=f"t/{i}",
                suite="t",
                source=f"# {i}",
                difficulty=1 + i % 3,
                family="scan" if i % 4 == 0 else "norm",
            )
        )
        for i in range(count)
    ]


def judged(ask: Ask, right: int, wrong: int) -> list[Rollout]:
    kernels = ["correct 1"] * right + ["wrong_value"] * wrong
    policy = SaidPolicy(lambda _, sample, __: answer(kernels[sample]))
    [group] = roll(policy, [render("frontend", ask.task)], [ask.task], ReadJudge(), n=len(kernels))
    return group


def ids(drawn: list[Ask]) -> list[str]:
    return [ask.task.id for ask in drawn]


def test_easy_tasks_come_first_and_all_of_them_from_half_way_on() -> None:
    made = Curriculum(asks(), 0, kind="difficulty", steps=100)
    hardest = [max(a.task.difficulty for a in made.draw(step, 4)) for step in range(100)]
    assert set(hardest[:5]) == {1}
    assert max(hardest[20:25]) == 2
    assert {a.task.difficulty for step in range(50, 100) for a in made.draw(step, 4)} == {1, 2, 3}


def test_success_by_hand() -> None:
    """3 of 4 right: (3 + 1) / (4 + 2); weight FLOOR + (1 - FLOOR) * 4 * 2/3 * 1/3."""
    made = Curriculum(asks(2), 0, kind="success")
    made.observe(judged(made.asks[0], right=3, wrong=1))
    assert made.success(made.asks[0]) == pytest.approx(2 / 3)
    assert made.success(made.asks[1]) == 0.5
    assert made._weights(0) == pytest.approx([FLOOR + (1 - FLOOR) * 8 / 9, 1.0])


def test_undecided_tasks_are_asked_more_often_and_none_is_given_up() -> None:
    made = Curriculum(asks(3), 0, kind="success")
    made.observe(judged(made.asks[0], right=40, wrong=0))
    made.observe(judged(made.asks[1], right=20, wrong=20))
    made.observe(judged(made.asks[2], right=0, wrong=40))
    counts = Counter(ids([made.draw(step, 1)[0] for step in range(600)]))
    assert counts["t/1"] > 400
    assert min(counts["t/0"], counts["t/2"]) > 20


def test_what_was_not_heard_says_nothing() -> None:
    made = Curriculum(asks(1), 0, kind="success")
    policy = SaidPolicy(lambda *_: answer("crash"))
    [group] = roll(policy, [render("frontend", made.asks[0].task)], [made.asks[0].task], ReadJudge())
    made.observe(group)
    assert made.success(made.asks[0]) == 0.5


def test_a_mixture_weighs_families() -> None:
    """Three scans of weight 3 against nine norms of weight 1: half of the draws."""
    made = Curriculum(asks(), 0, weights={"scan": 3.0})
    drawn = Counter(made.draw(step, 1)[0].task.family for step in range(1000))
    assert drawn["scan"] == pytest.approx(500, abs=60)
    none = Curriculum(asks(), 0, weights={"scan": 0.0})
    assert {a.task.family for step in range(50) for a in none.draw(step, 6)} == {"norm"}
    with pytest.raises(UserError, match=r"norm, scan.*raise one"):
        Curriculum(asks(), 0, weights={"scan": 0.0, "norm": 0.0})


def test_difficulties_are_drawn_by_their_shares() -> None:
    """Difficulties 1, 2 and 3 are a third of the tasks each."""
    made = Curriculum(asks(), 0, difficulties={"1": 0.7, "2-9": 0.3})
    drawn = made.drawn(ask.task.id for step in range(250) for ask in made.draw(step, 4))
    assert drawn["difficulty"]["1"] == pytest.approx(700, abs=50)
    assert drawn["difficulty"]["2"] == pytest.approx(150, abs=40)
    assert sum(drawn["family"].values()) == 1000
    assert ids(Curriculum(asks(), 0, difficulties={"1": 0.7, "2-9": 0.3}).draw(9, 4)) == ids(made.draw(9, 4))
    with pytest.raises(UserError, match=r"some that no task has \(tasks have 1, 2, 3\); leave them out"):
        Curriculum(asks(), 0, difficulties={"1": 0.5, "4+": 0.5})


@pytest.mark.parametrize("kind", ["shuffle", "difficulty", "success"])
def test_a_draw_depends_on_seed_step_and_history_alone(kind: str) -> None:
    def fresh(seed: int = 0) -> Curriculum:
        made = Curriculum(asks(), seed, kind=kind, steps=10)  # type: ignore[arg-type]
        made.observe(judged(asks()[0], 1, 3))
        return made

    first = fresh()
    drawn = [ids(first.draw(step, 4)) for step in range(4)]
    assert ids(fresh().draw(3, 4)) == drawn[3], "a resumed run asks what the uninterrupted one did"
    assert [ids(fresh(1).draw(step, 4)) for step in range(4)] != drawn
    assert all(len(set(step)) == 4 for step in drawn[1:])


def test_a_refill_asks_others_than_another_round_did() -> None:
    made = Curriculum(asks(), 0)
    assert ids(made.more(2, 1, 5)) == ids(Curriculum(asks(), 0).more(2, 1, 5)) != ids(made.more(2, 2, 5))
    assert len(ids(Curriculum(asks(2), 0).more(0, 1, 5))) == 5


def test_what_is_held_out_is_never_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "examples.jsonl"
    write_jsonl(path, examples())
    train = [e.task for e in examples() if e.split == "train"]
    refuse_heldout(frontend_asks(train), path)
    copied = next(e.task for e in examples() if e.split == "heldout").model_copy(update={"id": "other/name"})
    with pytest.raises(UserError, match=r"1 tasks to train on are held out .* such as other/name"):
        refuse_heldout(frontend_asks([*train, copied]), path)


def test_the_back_end_is_told_its_target() -> None:
    made = midend_asks([e for e in examples() if e.split == "train"], [task("p")], target="h200")
    assert {(ask.agent, ask.target) for ask in made} == {("backend", "h200")}
    assert "h200" in made[0].prompt("chat", 64).messages[-1].content
