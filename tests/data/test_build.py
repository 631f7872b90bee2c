"""The engine as a whole: deterministic, resumable after a kill at any line, without leaks, one line on bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from judges import FakeJudge

from kernelwright.data import CorpusConfig, Rejected, build, synth, validate
from kernelwright.data.corpus import drafts
from kernelwright.data.split import Guard, split
from kernelwright.data.validate import structure_of
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.outcomes import Outcome
from kernelwright.records import Candidate, Example, Task, read_jsonl


def records(path: Path) -> list[Example]:
    return list(read_jsonl(path, Example))


def mutant(code: str) -> Outcome:
    """Correct as the library writes it, wrong after most faults."""
    return Outcome.CORRECT if "mask=mask" in code and "tl.program_id(0)" in code else Outcome.WRONG_VALUE


def test_one_config_makes_one_corpus(config: CorpusConfig) -> None:
    assert list(drafts(config)) == list(drafts(config))


def test_another_seed_makes_another(config: CorpusConfig) -> None:
    assert list(drafts(config)) != list(drafts(config.model_copy(update={"seed": 1})))


def test_build_writes_examples_tokenizer_and_card(config: CorpusConfig, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    card = build(config, tmp_path, FakeJudge(mutant), lambda *step: seen.append(step))
    examples = records(tmp_path / "examples.jsonl")
    assert len(examples) == card["examples"] == sum(card["splits"].values())
    assert json.loads((tmp_path / "card.json").read_text()) == card
    assert (tmp_path / "tokenizer" / "tokenizer.json").exists()
    assert list(dict.fromkeys(step for step, *_ in seen)) == ["synth", "validate", "split"]
    assert {kind.split()[1] for kind in card["kinds"]} == {"translate", "improve", "repair"}
    assert all(e.feedback for e in examples if e.kind != "translate")
    assert all(e.split == "train" for e in examples if e.teacher == "gold")


def test_a_finished_corpus_is_not_made_again(config: CorpusConfig, tmp_path: Path) -> None:
    card = build(config, tmp_path, FakeJudge())
    judge = FakeJudge()
    assert build(config, tmp_path, judge) == card
    assert judge.heard == []


def test_a_folder_belongs_to_one_config(config: CorpusConfig, tmp_path: Path) -> None:
    build(config, tmp_path, FakeJudge())
    with pytest.raises(UserError, match=r"other settings \(seed\); choose another folder"):
        build(config.model_copy(update={"seed": 1}), tmp_path, FakeJudge())


@pytest.mark.parametrize("after", [1, 9, 20])
def test_a_killed_build_goes_on_to_the_same_corpus(config: CorpusConfig, tmp_path: Path, after: int) -> None:
    build(config, tmp_path / "whole", FakeJudge(mutant))
    with pytest.raises(KeyboardInterrupt):
        build(config, tmp_path / "killed", FakeJudge(mutant, stop_after=after))
    assert not (tmp_path / "killed" / "examples.jsonl").exists()
    build(config, tmp_path / "killed", FakeJudge(mutant))
    for name in ("examples.jsonl", "accepted.jsonl", "rejected.jsonl", "tokenizer/tokenizer.json"):
        assert (tmp_path / "killed" / name).read_text() == (tmp_path / "whole" / name).read_text(), name


def test_a_torn_line_is_made_again(config: CorpusConfig, tmp_path: Path) -> None:
    synth(config, tmp_path / "whole.jsonl")
    text = (tmp_path / "whole.jsonl").read_text()
    (tmp_path / "torn.jsonl.part").write_text(text[: len(text) // 2])
    synth(config, tmp_path / "torn.jsonl")
    assert (tmp_path / "torn.jsonl").read_text() == text
    assert not (tmp_path / "torn.jsonl.part").exists()


def test_rejects_are_kept_with_their_verdict(config: CorpusConfig, tmp_path: Path) -> None:
    synth(config, tmp_path / "drafts.jsonl")
    ended = validate(
        config,
        tmp_path / "drafts.jsonl",
        tmp_path / "accepted.jsonl",
        FakeJudge(lambda code: Outcome.TIMEOUT),
    )
    rejected = list(read_jsonl(tmp_path / "rejected.jsonl", Rejected))
    assert records(tmp_path / "accepted.jsonl") == []
    assert {r.reason for r in rejected} == {"answer: timeout"}
    assert ended == {"accepted": 0, "answer: timeout": len(rejected)}
    assert all(r.verdict.outcome is Outcome.TIMEOUT for r in rejected)


def test_nothing_accepted_is_said_in_one_line(config: CorpusConfig, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no example for training was accepted; .*rejected.jsonl says why"):
        build(config, tmp_path, FakeJudge(lambda code: Outcome.WRONG_VALUE))


def test_a_judge_that_fails_stops_the_run_and_rejects_nothing(config: CorpusConfig, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="run again to go on"):
        build(config, tmp_path, FakeJudge(lambda code: Outcome.INFRASTRUCTURE_ERROR))
    assert (tmp_path / "rejected.jsonl.part").read_text() == ""


def test_an_improve_example_gains_and_a_repair_example_was_wrong(
    config: CorpusConfig, tmp_path: Path
) -> None:
    judge = FakeJudge(mutant)
    build(config, tmp_path, judge)
    verdicts = {code: judge.submit(task, Candidate(code=code)).result() for task, code in list(judge.heard)}
    shown = [e for e in records(tmp_path / "examples.jsonl") if e.kernel]
    assert {e.kind for e in shown} == {"improve", "repair"}
    for example in shown:
        before, after = verdicts[example.kernel], verdicts.get(example.code)
        if example.kind == "improve":
            assert before.timing is not None
            assert after is not None
            assert after.timing is not None
            assert before.timing.candidate_ms >= config.min_gain * after.timing.candidate_ms
        else:
            assert not before.correct


def test_hearings_are_shared_by_structure_but_not_where_each_is_wanted(
    config: CorpusConfig, tmp_path: Path
) -> None:
    counts = {}
    for check in ("structures", "each"):
        wanted, judge = config.model_copy(update={"check": check}), FakeJudge(mutant)
        build(wanted, tmp_path / check, judge)
        counts[check] = len(judge.heard)
        examples = records(tmp_path / check / "examples.jsonl")
        heard = {(task.digest, code) for task, code in judge.heard}
        if check == "each":
            assert all((e.task.digest, e.code) in heard for e in examples)
    assert counts["structures"] < counts["each"]


def test_every_structure_has_had_its_hearing(config: CorpusConfig, tmp_path: Path) -> None:
    judge = FakeJudge(mutant)
    build(config, tmp_path, judge)
    heard = {code for _, code in judge.heard}
    drafted = records(tmp_path / "drafts.jsonl")
    structures = {structure_of(e) for e in drafted if e.code in heard}
    structures |= {structure_of(e, e.kernel) for e in drafted if e.kernel in heard and e.kind == "improve"}
    assert {structure_of(e) for e in records(tmp_path / "accepted.jsonl")} <= structures


def test_practice_tasks_are_new_and_nothing_held_out(config: CorpusConfig, tmp_path: Path) -> None:
    card = build(config, tmp_path, FakeJudge())
    tasks = list(read_jsonl(tmp_path / "tasks.jsonl", Task))
    examples = records(tmp_path / "examples.jsonl")
    assert len(tasks) == card["practice"] == config.practice_graphs
    assert {task.source for task in tasks}.isdisjoint(e.task.source for e in examples)
    guard = Guard(e for e in examples if e.split == "heldout")
    digests = {task.id.removeprefix("synth/").partition("-")[0] for task in tasks}
    assert digests.isdisjoint(e.graph for e in examples)
    assert {guard.leak(task, "") for task in tasks} == {""}


def test_nothing_held_out_is_in_training(tmp_path: Path) -> None:
    config = CorpusConfig.parse({"train_graphs": 40, "heldout_graphs": 15, "golds": 8, "variants": 3})
    kept, dropped = split(drafts(config))
    train = [e for e in kept if e.split != "heldout"]
    heldout = [e for e in kept if e.split == "heldout"]
    assert len({e.graph for e in heldout}) == 15
    assert {e.graph for e in train} & {e.graph for e in heldout} == set()
    assert {e.graph for e in kept if e.split == "train"} & {
        e.graph for e in kept if e.split == "validation"
    } == set()
    assert dropped == {}


def test_a_leak_from_elsewhere_is_dropped_by_graph_by_sizes_and_by_function(config: CorpusConfig) -> None:
    heldout = next(e for e in drafts(config) if e.split == "heldout")

    def elsewhere(number: int, **changes: Any) -> Example:
        code = f"{heldout.code}\nSPARE = {number}\n"
        return heldout.model_copy(update={"split": "train", "code": code, **changes})

    resized = heldout.task.model_copy(update={"source": heldout.task.source.replace("B = ", "B = 7")})
    leaks = [elsewhere(1), elsewhere(2, graph="another"), elsewhere(3, graph="another", task=resized)]
    kept, dropped = split([heldout, *leaks, heldout])
    assert kept == [heldout]
    assert dropped == {"held-out graph": 1, "held-out sizes": 1, "held-out function": 1, "duplicate": 1}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"varaints": 3}, r"data: unknown key varaints; did you mean variants\?"),
        ({"variants": "many"}, r'data: variants = "many": '),
        ({"variants": 0}, r"data: variants = 0: .*greater than or equal to 1"),
        ({"operators": ["relu", "sofmax"]}, r"unknown operator 'sofmax' \(did you mean softmax\?\)"),
        ({"operators": ["add"]}, r"holds none of a single input, such as relu"),
        ({"lengths": []}, r"data: lengths = \[\]"),
        ({"lengths": [0]}, r"a graph has at least 1 operator"),
        ({"heldout_share": 0.7, "validation_share": 0.4}, r"leave nothing to train on"),
        ({"ranks": [4]}, r"data: ranks.0 = 4: "),
    ],
)
def test_a_bad_config_is_one_line(fields: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        CorpusConfig.parse(fields)
    assert "\n" not in str(error.value)


def test_too_many_graphs_for_the_operators_is_one_line(tmp_path: Path) -> None:
    config = CorpusConfig.parse({"operators": ["relu", "neg"], "lengths": [1]})
    with pytest.raises(
        UserError, match=r"only 0 of 32 different heldout graphs could be drawn; set heldout_graphs"
    ):
        synth(config, tmp_path / "drafts.jsonl")


def test_a_full_disk_says_so(config: CorpusConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kernelwright.data.streams.os.replace", full)
    with pytest.raises(UserError, match="disk is full"):
        synth(config, tmp_path / "drafts.jsonl")
