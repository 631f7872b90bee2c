"""A corpus made with a judge that needs no interpreter: pairs, splits, parts that add up, the card."""

import itertools
import json
from pathlib import Path

import pytest
from judges import FakeJudge

from kernelwright.data import CorpusSettings, build, merge
from kernelwright.data.card import count_accepted, survivors, text
from kernelwright.data.problems import problem
from kernelwright.errors import UserError
from kernelwright.graph.structure import structure
from kernelwright.graph.types import Graph
from kernelwright.outcomes import Outcome
from kernelwright.records import Pair, Task, read_jsonl
from kernelwright.synth.plan import parse_plan

SETTINGS = CorpusSettings(
    graphs=24,
    practice=5,
    schedules=3,
    faults=1,
    chunk=8,
    heldout=0.25,
    vocab_size=600,
    max_tokens=0,
    forms=("map", "row", "norm"),
)


def rule(code: str) -> Outcome:
    """Rejects about every third kernel."""
    return Outcome.CORRECT if len(code) % 3 else Outcome.WRONG_VALUE


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    build(SETTINGS, folder, FakeJudge(rule))
    return folder


@pytest.fixture(scope="module")
def pairs(corpus: Path) -> list[Pair]:
    return list(read_jsonl(corpus / "examples.jsonl", Pair))


def test_all_kinds_are_there(pairs: list[Pair]) -> None:
    assert {pair.kind for pair in pairs} == {"write", "improve", "repair"}


def test_answers_are_function_form_with_a_plan_that_parses(pairs: list[Pair]) -> None:
    for pair in pairs:
        label, schedule = parse_plan(pair.plan)
        assert (label, schedule.model_dump_json()) == (pair.label, pair.schedule)
        assert "\ndef kernel(" in pair.code
        assert "ModelNew" not in pair.code


def test_several_schedules_a_graph(pairs: list[Pair]) -> None:
    plans: dict[str, set[str]] = {}
    for pair in pairs:
        plans.setdefault(pair.digest, set()).add(pair.plan)
    assert sum(len(one) > 1 for one in plans.values()) > len(plans) / 2


def test_improvements_take_less_time_by_the_least_gain(pairs: list[Pair]) -> None:
    for pair in (one for one in pairs if one.kind == "improve"):
        assert pair.shown is not None
        assert pair.us is not None
        assert pair.shown.us is not None
        assert pair.shown.us >= SETTINGS.min_gain * pair.us
        assert pair.us == pair.best_us


def test_splits_share_no_structure(pairs: list[Pair], corpus: Path) -> None:
    found: dict[str, set[str]] = {}
    for pair in pairs:
        found.setdefault(pair.structure, set()).add(pair.split)
    assert all(len(splits) == 1 for splits in found.values())
    away = {name for name, splits in found.items() if splits != {"train"}}
    assert away
    for task in read_jsonl(corpus / "tasks.jsonl", Task):
        assert structure(Graph.model_validate_json(task.graph)) not in away


def test_what_the_judge_refuses_is_kept_and_counted(corpus: Path) -> None:
    card = json.loads((corpus / "card.json").read_text())
    right, judged = count_accepted(card["judged"])
    refused = sum(path.read_text().count("\n") for path in (corpus / "parts").glob("*.rejected.jsonl"))
    assert 0 < right < judged
    assert refused == judged - right
    assert survivors(card["judged"])[1] > 0
    assert "In distribution" in text(card)


def test_a_stopped_corpus_goes_on_to_the_same(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        build(SETTINGS, tmp_path, FakeJudge(rule, stop_after=45))
    assert list((tmp_path / "parts").glob("*.done.json"))
    build(SETTINGS, tmp_path, FakeJudge(rule))
    for name in ("examples.jsonl", "tasks.jsonl"):
        assert (tmp_path / name).read_text() == (corpus / name).read_text()


def test_another_corpus_is_not_gone_on_with(corpus: Path) -> None:
    with pytest.raises(UserError):
        build(SETTINGS.model_copy(update={"seed": 1}), corpus, FakeJudge(rule))


def test_parts_of_machines_add_up(corpus: Path, pairs: list[Pair], tmp_path: Path) -> None:
    other = SETTINGS.model_copy(update={"seed": 1, "graphs": 4, "practice": 0})
    build(other, tmp_path / "other", FakeJudge(rule))
    card = merge(SETTINGS, tmp_path / "all", [corpus, tmp_path / "other"])
    assert card["pairs"] > len(pairs)
    twice = merge(SETTINGS, tmp_path / "all", [corpus, corpus])
    assert twice["pairs"] == len(pairs)
    assert twice["dropped"]["twice"] >= len(pairs)


def test_a_benchmarks_structure_is_left_out(corpus: Path, pairs: list[Pair], tmp_path: Path) -> None:
    theirs = next(pair for pair in pairs if "+" in pair.label and pair.split == "train")
    (tmp_path / "tasks.jsonl").write_text(theirs.task.model_dump_json() + "\n")
    card = merge(SETTINGS, tmp_path / "clean", [corpus], [tmp_path / "tasks.jsonl"])
    left = list(read_jsonl(tmp_path / "clean" / "examples.jsonl", Pair))
    assert theirs.structure not in {pair.structure for pair in left}
    assert card["benchmarks"]["pairs removed"] > 0
    assert "harvest" not in card["sources"]


def test_a_number_is_one_problem() -> None:
    one, other = problem(SETTINGS, 3), problem(SETTINGS, 3)
    assert (one.task, one.answers, one.broken) == (other.task, other.answers, other.broken)


def test_a_judge_finds_small_sizes_in_every_task() -> None:
    """The sixth of these is drawn again: rotary embedding by `chunk` has no free size."""
    settings = CorpusSettings(graphs=8, catalogue=1.0)
    assert all(problem(settings, number).task.shapes for number in range(8))


def test_an_unknown_form_is_one_line() -> None:
    with pytest.raises(UserError, match="no form 'maps': choose from map, row"):
        CorpusSettings.parse({"forms": ("maps",)})


def test_a_share_of_the_graphs_may_be_taken_at_the_printers_word(tmp_path: Path) -> None:
    asked = SETTINGS.model_copy(update={"judged": 0.4, "practice": 0})
    made = build(asked, tmp_path, FakeJudge(rule))
    pairs = list(read_jsonl(tmp_path / "examples.jsonl", Pair))
    taken = [pair for pair in pairs if not pair.judged]
    assert {(pair.kind, pair.us, pair.cases) for pair in taken} == {("write", None, 0)}
    assert {pair.kind for pair in pairs if pair.judged} > {"write"}
    assert made["answers"] == {"at the printer's word": len(taken), "judged": len(pairs) - len(taken)}
    assert [
        task for task in {pair.task.id for pair in taken} if task in {p.task.id for p in pairs if p.judged}
    ] == []


def test_what_is_not_judged_can_be_priced_and_improved(tmp_path: Path) -> None:
    asked = SETTINGS.model_copy(update={"judged": 0.4, "practice": 0, "priced": True})
    judge, pricing = FakeJudge(rule), FakeJudge()
    made = build(asked, tmp_path, judge, pricing=pricing)
    priced = [pair for pair in read_jsonl(tmp_path / "examples.jsonl", Pair) if not pair.judged]
    assert {pair.kind for pair in priced} == {"write", "improve"}
    assert all(pair.us and pair.best_us for pair in priced)
    assert {task.id for task, _ in judge.judged}.isdisjoint({pair.task.id for pair in priced})
    assert count_accepted(made["judged"])[1] < len(judge.judged)  # some were planted faults
    assert sum(n for name, n in made["judged"].items() if name.startswith("priced ")) == len(pricing.judged)


def test_pairs_of_a_graph_stay_together(pairs: list[Pair]) -> None:
    order = [pair.digest for pair in pairs]
    assert sum(one != other for one, other in itertools.pairwise(order)) == len(set(order)) - 1
    assert order != sorted(order)
