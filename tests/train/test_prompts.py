"""A stage's prompts: training tasks or practice tasks, verified kernels, never held-out tasks."""

from pathlib import Path

import pytest
from fakes import ReadJudge, SaidPolicy, answer, task
from functions import improving, pair, softmax_graph, written
from tiny import FAST, SLOW, code, examples, make_recipe

from kernelwright.archive import Archive, entry_of
from kernelwright.config import parse_recipe
from kernelwright.errors import UserError
from kernelwright.prompts import example_pair, render
from kernelwright.records import Rollout, write_jsonl
from kernelwright.rollouts import roll
from kernelwright.train.prompts import (
    frontend_asks,
    in_recipe_precision,
    inform_asks,
    midend_asks,
    read_splits,
    read_tasks,
)

TRAIN = [e for e in examples() if e.split == "train"]


def accepted(kernel: str, name: str) -> Rollout:
    one = task(name)
    policy = SaidPolicy(lambda *_: answer(kernel))
    [[rollout]] = roll(policy, [render("frontend", one)], [one], ReadJudge(), stage="frontend")
    return rollout


def test_only_the_training_split_is_read(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "examples.jsonl", examples())
    assert read_splits(tmp_path / "examples.jsonl")[0] == TRAIN


def test_practice_tasks_are_read_where_there_are_any(tmp_path: Path) -> None:
    assert read_tasks(tmp_path / "tasks.jsonl") == []
    write_jsonl(tmp_path / "tasks.jsonl", [task("p")])
    assert read_tasks(tmp_path / "tasks.jsonl") == [task("p")]


def test_a_file_without_training_examples_is_one_line(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "examples.jsonl", [e for e in examples() if e.split != "train"])
    with pytest.raises(UserError, match='no example with split = "train"'):
        read_splits(tmp_path / "examples.jsonl")[0]


def test_the_front_end_is_asked_about_each_task_once() -> None:
    asks = frontend_asks([task("a"), task("b", family="scan"), task("a")])
    assert [ask.task.id for ask in asks] == ["synth/a", "synth/b"]
    assert [ask.task.id for ask in frontend_asks([task("a"), task("b", family="scan")], ["scan"])] == [
        "synth/b"
    ]


def test_the_mid_end_is_asked_about_kernels_of_examples_and_of_the_front_end() -> None:
    practice = [task("p")]
    logged = [
        accepted(SLOW, "p"),
        accepted(SLOW, "p"),
        accepted("wrong_value", "p"),
        accepted(FAST, "unknown"),
    ]
    asks = midend_asks(TRAIN, practice, logged)
    assert [(ask.task.id, ask.kernel) for ask in asks] == [("synth/a", code(SLOW)), ("synth/p", code(SLOW))]
    assert asks[0].profile == "time: 2 ms"
    assert "modelled on h200" in asks[1].profile


def test_a_kernel_is_asked_about_once_however_often_it_was_accepted() -> None:
    shown = [accepted(SLOW, "p")] * 3
    assert len(midend_asks([], [task("p")], shown)) == 1


def test_an_improve_example_shows_its_kernel_and_profile_and_wants_the_better_one() -> None:
    improve = next(e for e in TRAIN if e.kind == "improve")
    prompt, said = example_pair(improve, "compact")
    assert prompt.agent == "midend"
    assert code(SLOW) in prompt.messages[0].content
    assert "time: 2 ms" in prompt.messages[0].content
    assert code(FAST) in said


def test_pairs_are_read_like_examples(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "examples.jsonl", [pair(), improving(), pair(split="heldout")])
    assert read_splits(tmp_path / "examples.jsonl")[0] == [pair(), improving()]


def test_asks_of_graphs_hold_the_plan_that_is_shown_and_the_best_time_that_is_known() -> None:
    [ask] = midend_asks([pair(), improving()])
    shown = improving().shown
    assert shown is not None
    assert (ask.kernel, ask.plan, ask.best_us) == (shown.code, shown.plan, 4.0)
    [ask] = frontend_asks([pair().task], examples=[pair(best_us=5.0), pair(best_us=3.0)])
    assert (ask.best_us, ask.precision) == (3.0, "default")


def test_the_archive_says_the_best_time_and_shows_kernels_beside(tmp_path: Path) -> None:
    graph = softmax_graph()
    entries = []
    for warps, us in ((1, 8.0), (2, 6.0), (4, 4.0), (8, 2.0)):
        plan, code = written(graph, warps=warps)
        entries.append(
            entry_of(pair().task, plan, code, target="h200", clock="modelled", us=us, source="search")
        )
    Archive(entries).write(tmp_path / "archive.jsonl")
    archive = {"archive": str(tmp_path / "archive.jsonl"), "backend": "interpret"}
    recipe = make_recipe(tmp_path, verify=archive)
    [ask] = inform_asks(midend_asks([pair(), improving()]), recipe, contrast=2)
    assert ask.best_us == 2.0
    assert [one.split(" us")[0] for one in ask.others] == ["2", "6"]
    [first] = inform_asks(frontend_asks([pair().task]), recipe, contrast=2)
    assert (first.best_us, first.others) == (2.0, ())


def test_a_modelled_best_time_is_no_measure_for_a_clock(tmp_path: Path) -> None:
    asks = midend_asks([pair(), improving()])
    modelled = make_recipe(tmp_path, verify={"backend": "interpret"})
    measured = make_recipe(tmp_path, verify={"backend": "cuda"})
    assert [ask.best_us for ask in inform_asks(asks, modelled)] == [4.0]
    assert [ask.best_us for ask in inform_asks(asks, measured)] == [None]


def test_a_task_that_the_corpus_drew_in_a_precision_stays_in_it() -> None:
    recipe = parse_recipe({"verify": {"precision": "ieee"}})
    drawn = task("t").model_copy(update={"graph": "{}", "precision": "tf32"})
    assert in_recipe_precision(drawn, recipe) is drawn
    for other in (task("t"), drawn.model_copy(update={"precision": "default"})):
        assert in_recipe_precision(other, recipe).precision == "ieee"
