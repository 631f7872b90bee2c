"""The large corpus: problems, hearings, chunks that survive kills, merging, benchmarks, bad input."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from judges import FakeJudge

from kernelwright.cli import main
from kernelwright.data.bulk import BulkConfig, benchmarks, card, merge, problems, shards, work
from kernelwright.data.bulk.hear import Entry, Heard, ask, decide
from kernelwright.data.bulk.problems import Kernel, Problem, Skipped, problem
from kernelwright.data.bulk.values import _run, same, varies
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.outcomes import Outcome
from kernelwright.policy.compiler import Answer
from kernelwright.records import Example, Task, read_jsonl, write_jsonl
from kernelwright.train.prompts import read_splits

SMALL = BulkConfig(
    families=10,
    graphs=8,
    inductor=0,
    practice=3,
    chunk=4,
    wordings=2,
    slower=1.0,
    faults=1.0,
    vocab_size=600,
    heldout_share=0.5,
)


def wrong_when_mutated(known: set[str]) -> FakeJudge:
    return FakeJudge(lambda code: Outcome.CORRECT if code in known else Outcome.WRONG_VALUE)


def heard(made: Problem, config: BulkConfig = SMALL) -> Heard:
    judge = wrong_when_mutated({kernel.code for kernel in made.kernels})
    return decide(config, ask(made, judge))


def lay(folder: Path, config: BulkConfig = SMALL) -> list[Entry]:
    """Parts as the workers write them, by a judge that is not there."""
    parts = folder / "parts"
    parts.mkdir(parents=True)
    (folder / "config.json").write_text(config.model_dump_json())
    found: list[Entry] = []
    for chunk in work.chunks(config, 0, 0):
        counts: Counter[str] = Counter()
        lines = []
        for number in range(chunk.start, chunk.stop):
            made = problem(config, chunk.teacher, number)
            if chunk.teacher == "practice":
                lines.append(hear_practice(made))
                continue
            result = heard(made, config)
            counts.update(result.counts)
            found += result.entries
            lines += [entry.model_dump_json() for entry in result.entries]
        (parts / f"{chunk.name}.jsonl").write_text("".join(line + "\n" for line in lines))
        (parts / f"{chunk.name}.rejected.jsonl").write_text("")
        (parts / f"{chunk.name}.done.json").write_text(json.dumps({"counts": counts, "seconds": 1.0}))
    return found


def hear_practice(made: Problem) -> str:
    from kernelwright.data.bulk.hear import practice

    return practice(made).model_dump_json()


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Entry], dict[str, Any]]:
    folder = tmp_path_factory.mktemp("bulk")
    entries = lay(folder)
    return folder, entries, merge(SMALL, folder)


def test_a_problem_hangs_on_its_number_alone() -> None:
    assert problem(SMALL, "families", 3) == problem(SMALL, "families", 3)
    assert problem(SMALL, "families", 3) != problem(SMALL, "families", 4)
    assert problem(SMALL.model_copy(update={"seed": 1}), "families", 3) != problem(SMALL, "families", 3)


def test_wordings_are_one_task_in_other_words() -> None:
    """Two draws may come to one text, which merging drops as a duplicate. A map may be a formula in one wording and a
    function in the other, which round otherwise: `same` drops such a wording. Both are few, and none differs by more."""
    alike = rounded = 0
    for number in range(40):
        first, second = problem(SMALL, "families", number).wordings
        alike += first.source == second.source
        rounded += not same(first, second)
        for sizes, others in zip(first.shapes.values(), second.shapes.values(), strict=True):
            one, other = _run(first, sizes), _run(second, others)
            assert one is not None
            assert other is not None
            assert list(one.state) == list(other.state)
            torch.testing.assert_close(one.state, other.state, rtol=0, atol=0)
            torch.testing.assert_close(one.inputs, other.inputs, rtol=0, atol=0)
            torch.testing.assert_close(one.output, other.output)
    assert alike <= 2
    assert rounded <= 2


def test_a_wording_that_computes_something_else_is_dropped_and_counted() -> None:
    made = problem(SMALL, "families", 1)
    task = made.wordings[1]
    other = task.model_copy(update={"source": task.source.replace("return ", "return 2 * ", 1)})
    result = heard(made.model_copy(update={"wordings": (made.wordings[0], other), "mutants": ()}))
    assert result.counts["dropped: wording differs"] == 1
    assert all(entry.example.task == made.wordings[0] for entry in result.entries)


def test_one_pool_makes_three_kinds() -> None:
    made = problem(SMALL, "graphs", 1)
    assert len(made.kernels) == 2
    kinds = Counter(entry.example.kind for entry in heard(made).entries)
    assert kinds["translate"] == 1
    assert kinds["repair"] == len(made.mutants)
    improve = [entry.example for entry in heard(made).entries if entry.example.kind == "improve"]
    assert all(example.kernel != example.code and example.feedback for example in improve)


def test_the_fastest_kernel_is_the_answer_whoever_wrote_it() -> None:
    made = problem(SMALL, "graphs", 1)
    swapped = made.model_copy(update={"kernels": made.kernels[::-1], "mutants": ()})
    answers = [
        {e.example.code for e in heard(p).entries if e.example.kind != "repair"} for p in (made, swapped)
    ]
    assert answers[0] == answers[1]


def test_a_rejected_kernel_is_kept_with_its_verdict_and_makes_no_example() -> None:
    made = problem(SMALL, "families", 2)
    result = decide(SMALL, ask(made, FakeJudge(lambda code: Outcome.WRONG_VALUE)))
    assert result.entries == ()
    assert {r.reason for r in result.rejected} == {"answer: wrong_value"}


def test_a_mutant_that_passes_is_no_repair() -> None:
    made = next(one for number in range(20) if (one := problem(SMALL, "families", number)).mutants)
    result = decide(SMALL, ask(made, FakeJudge()))
    assert result.counts["dropped: fault does not show"] == len(made.mutants) > 0
    assert all(entry.example.kind != "repair" for entry in result.entries)


def test_a_judge_that_fails_is_no_verdict() -> None:
    made = problem(SMALL, "families", 2)
    with pytest.raises(InfrastructureError):
        decide(SMALL, ask(made, FakeJudge(lambda code: Outcome.INFRASTRUCTURE_ERROR)))


def test_inductor_answers_beside_the_library() -> None:
    made = problem(SMALL, "inductor", 0, lambda task: Answer(code="import torch", graph="g"))
    assert [kernel.teacher for kernel in made.kernels] == ["inductor", "families"]
    with pytest.raises(Skipped, match=r"inductor: extern: aten\.mm"):
        problem(SMALL, "inductor", 0, lambda task: Answer(reason="extern: aten.mm"))


def test_examples_of_others_are_heard_too() -> None:
    given = Example(task=problem(SMALL, "graphs", 0).wordings[0], plan="p", code="c", teacher="llm")
    made = problem(SMALL, "examples", 0, given=given)
    assert made.kernels == (Kernel(teacher="llm", code="c", marked="c"),)
    assert made.graph


def test_a_task_that_hardly_varies_is_not_asked() -> None:
    source = (
        "import torch\nimport torch.nn as nn\nN = 64\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
        "        return {}\n\n\ndef get_inputs():\n    return [torch.randn(N)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    shapes = {"small": {"N": 16}}
    assert varies(Task(id="a", source=source.format("torch.relu(x)"), shapes=shapes))
    assert not varies(Task(id="b", source=source.format("x * 0 + 1"), shapes=shapes))
    assert not varies(Task(id="c", source=source.format("x / 0"), shapes=shapes))
    assert not varies(Task(id="d", source=source.format("nonsense"), shapes=shapes))


def test_merging_writes_shards_lines_tokenizer_and_card(
    laid: tuple[Path, list[Entry], dict[str, Any]],
) -> None:
    folder, _, found = laid
    examples = list(read_jsonl(folder / "examples.jsonl", Example))
    assert len(examples) == found["examples"] > 0
    key = Example.model_dump_json
    assert sorted(shards.read(folder / "shards"), key=key) == sorted(examples, key=key)
    assert (folder / "tokenizer" / "tokenizer.json").exists()
    assert all((folder / name).exists() for name in ("README.md", "lengths.svg", "categories.svg"))
    assert found["tokens"]["all"]["max"] <= 2048
    assert sum(pairs for _, _, pairs, _ in card.coverage(found)) == sum(
        example.kind == "translate" for example in examples
    )


def test_the_commands_show_and_split_a_corpus(
    laid: tuple[Path, list[Entry], dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _, _ = laid
    assert main(["data", "show", str(folder)]) == 0
    assert "convolution" in capsys.readouterr().out
    assert main(["data", "split", str(folder), "--against", str(tmp_path)]) == 2
    assert "holds no Python file" in capsys.readouterr().err
    assert main(["data", "show", str(tmp_path)]) == 2
    assert "holds no corpus" in capsys.readouterr().err
    assert main(["data", "make", str(tmp_path / "x"), "familes=1"]) == 2
    assert "did you mean families?" in capsys.readouterr().err


def test_nothing_held_out_is_trained_on(laid: tuple[Path, list[Entry], dict[str, Any]]) -> None:
    folder, _, _ = laid
    examples = list(read_jsonl(folder / "examples.jsonl", Example))
    held = {example.graph for example in examples if example.split == "heldout"}
    assert held
    assert held.isdisjoint(example.graph for example in examples if example.split != "heldout")
    practised = {task.source for task in read_jsonl(folder / "tasks.jsonl", Task)}
    assert practised.isdisjoint(example.task.source for example in examples)


def test_duplicates_and_near_duplicates_go(tmp_path: Path) -> None:
    entries = lay(tmp_path)
    part = sorted((tmp_path / "parts").glob("families-*0.jsonl"))[0]
    again = entries[0].model_dump_json()
    alike = [entries[0].model_copy(update={"form": f"other{i}"}).model_dump_json() for i in range(6)]
    part.write_text(part.read_text() + "".join(line + "\n" for line in [again, *alike]))
    dropped = merge(SMALL, tmp_path)["dropped"]
    assert dropped["duplicate"] >= 1
    assert dropped["near-duplicate: only numbers differ"] >= 2


def test_a_single_operator_is_trained_on_even_where_a_longer_graph_comes_to_it(tmp_path: Path) -> None:
    entries = lay(tmp_path)
    part = sorted((tmp_path / "parts").glob("families-*0.jsonl"))[0]
    one = next(e for e in entries if e.example.kind == "translate" and e.example.task.difficulty == 1)
    assert one.function
    example = one.example.model_copy(
        update={"split": "heldout", "graph": "with something that changes nothing"}
    )
    held = one.model_copy(update={"example": example, "form": "another"})
    part.write_text(part.read_text() + held.model_dump_json() + "\n")
    assert merge(SMALL, tmp_path)["dropped"]["held out, but a single operator's function"] == 1
    assert one.example in list(read_jsonl(tmp_path / "examples.jsonl", Example))


def test_lines_of_an_older_schema_and_torn_ones_are_counted(tmp_path: Path) -> None:
    entries = lay(tmp_path)
    part = sorted((tmp_path / "parts").glob("families-*0.jsonl"))[0]
    old = json.dumps({**json.loads(entries[0].model_dump_json()), "schema_version": 0})
    part.write_text(part.read_text() + old + "\n" + old[:50])
    assert merge(SMALL, tmp_path)["dropped"]["not a record of this version"] == 2


def test_what_a_benchmark_has_is_left_out_and_listed(tmp_path: Path) -> None:
    entries = lay(tmp_path / "corpus")
    bench = tmp_path / "bench" / "level1"
    bench.mkdir(parents=True)
    train = [entry for entry in entries if entry.example.split == "train"]
    rng = random.Random(0)
    reference = rng.choice(train).example.task
    # The same reference, spaced otherwise and at other sizes.
    (bench / "1_it.py").write_text(reference.source.replace("\n\n", "\n\n\n"))
    kernel = next(e.example for e in train if e.example.task != reference)
    (bench / "2_kernel.py").write_text(kernel.code.replace("x_ptr", "renamed_ptr"))
    (bench / "3_broken.py").write_text("def broken(:")
    found = merge(SMALL, tmp_path / "corpus", [tmp_path / "bench"])
    told = found["benchmarks"]
    assert (told["files"], told["references"]) == ({"bench": 3}, 1)
    assert told["unreadable"] == ["bench/level1/3_broken.py"]
    card = (tmp_path / "corpus" / "README.md").read_text()
    assert "of bench (3 files)." in card
    assert "No Python: bench/level1/3_broken.py and 0 more; is the checkout whole?" in card
    assert set(told["removed"]) >= {"source", "kernel"}
    kept = list(read_jsonl(tmp_path / "corpus" / "examples.jsonl", Example))
    assert all(example.task != reference for example in kept)
    leaks = [
        json.loads(line) for line in (tmp_path / "corpus" / "contamination.jsonl").read_text().splitlines()
    ]
    assert len(leaks) == sum(told["removed"].values())


def test_a_benchmark_is_known_by_its_syntax_tree_and_by_its_graph_with_shapes(tmp_path: Path) -> None:
    made = problem(SMALL, "families", 1)
    [entry, *_] = heard(made.model_copy(update={"mutants": ()})).entries
    task = entry.example.task
    sized = "\n".join(
        line.replace(line.split(" = ")[1], "33")
        if line[:1].isupper() and line.split(" = ")[-1].isdigit()
        else line
        for line in task.source.splitlines()
    )
    for number, text in enumerate((sized, made.wordings[1].source)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a.py").write_text(f"# other\n{text}")
        assert benchmarks.Benchmarks([folder]).leak(entry)[0] in ("syntax tree", "operator graph and shapes")


def test_frozen_tasks_are_left_out_too(tmp_path: Path) -> None:
    made = problem(SMALL, "families", 1)
    [entry, *_] = heard(made.model_copy(update={"mutants": ()})).entries
    path = tmp_path / "frozen.jsonl"
    write_jsonl(path, [entry.example.task])
    found = benchmarks.Benchmarks([path])
    assert found.references == 1
    assert found.leak(entry) == ("source", f"frozen.jsonl/{entry.example.task.id}")
    path.write_text("no task\n")
    with pytest.raises(UserError, match="not a Task record"):
        benchmarks.Benchmarks([path])


def test_files_of_two_checkouts_of_one_name_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, count in (("one", 1), ("two", 2)):
        (folder := tmp_path / place / "data").mkdir(parents=True)
        for number in range(count):
            (folder / f"{number}.py").write_text("")
    monkeypatch.chdir(tmp_path / "one" / "data")
    assert benchmarks.Benchmarks([Path("."), tmp_path / "two" / "data"]).files == {"data": 3}


def test_a_corpus_may_be_practice_alone(tmp_path: Path) -> None:
    lay(tmp_path)
    for path in (tmp_path / "parts").iterdir():
        if not path.name.startswith("practice-"):
            path.unlink()
    found = merge(SMALL, tmp_path)
    assert found["practice"] == len(list(read_jsonl(tmp_path / "tasks.jsonl", Task))) > 0
    assert found["examples"] == 0
    assert read_splits(tmp_path / "examples.jsonl", needed=False) == ([], [])
    assert read_splits(tmp_path / "nothing.jsonl", needed=False) == ([], [])


def test_a_folder_without_python_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no Python file"):
        benchmarks.Benchmarks([tmp_path])


def test_chunks_mix_the_teachers_and_cover_every_problem() -> None:
    found = work.chunks(BulkConfig(families=100, graphs=30, inductor=0, practice=0, chunk=10), 0, 25)
    assert {part.teacher for part in found[:4]} == {"families", "graphs", "examples"}
    assert Counter(
        {t: sum(p.stop - p.start for p in found if p.teacher == t) for t in ("families", "graphs")}
    ) == {
        "families": 100,
        "graphs": 30,
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"familes": 3}, "unknown key familes; did you mean families"),
        ({"names": "convolutoin"}, "unknown family 'convolutoin'.*did you mean convolution"),
        ({"target": "h2000"}, "h2000"),
        ({"lengths": [0]}, "at least 1 operator"),
        ({"heldout_share": 0.9, "validation_share": 0.2}, "leave nothing to train on"),
    ],
)
def test_a_bad_config_is_one_line(fields: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        BulkConfig.parse(fields)
    assert "\n" not in str(error.value)


def test_a_folder_belongs_to_one_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(SMALL.model_dump_json())
    with pytest.raises(UserError, match="other settings"):
        work.make(SMALL.model_copy(update={"seed": 9}), tmp_path, 1)


class Process:
    """A worker that is not there: writes empty parts, and dies when told to."""

    dies: list[str] = []  # noqa: RUF012
    made: list[str] = []  # noqa: RUF012

    def __init__(self, config: BulkConfig, parts: Path) -> None:
        self.parts = parts

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def make(self, chunk: work.Chunk) -> dict[str, Any]:
        if chunk.name in self.dies:
            self.dies.remove(chunk.name)
            raise InfrastructureError("died")
        self.made.append(chunk.name)
        (self.parts / f"{chunk.name}.done.json").write_text('{"counts": {"problems": 1}, "seconds": 1}')
        return {}


def test_a_worker_that_dies_is_replaced_and_a_stopped_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "WorkerProcess", Process)
    Process.made, Process.dies = [], ["families-000004"]
    wanted = SMALL.model_copy(update={"families": 8, "graphs": 4, "practice": 0})
    assert work.make(wanted, tmp_path, 2)["problems"] == 3
    assert sorted(Process.made) == ["families-000000", "families-000004", "graphs-000000"]
    (tmp_path / "parts" / "graphs-000000.done.json").unlink()  # as a kill leaves it
    Process.made = []
    work.make(wanted, tmp_path, 2)
    assert Process.made == ["graphs-000000"]


def test_a_chunk_that_kills_every_worker_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "WorkerProcess", Process)
    Process.dies = ["families-000000"] * 9
    with pytest.raises(InfrastructureError):
        work.make(SMALL, tmp_path, 1)


@pytest.mark.slow
@pytest.mark.skipif("SWEEP" not in os.environ, reason="a minute on two cores; set SWEEP=1")
def test_a_real_corpus_of_a_few_problems(tmp_path: Path) -> None:
    config = BulkConfig(
        families=2, graphs=1, inductor=1, practice=1, chunk=2, vocab_size=600, names=("activation",)
    )
    work.make(config, tmp_path, 1)
    assert merge(config, tmp_path)["examples"] > 3


def test_mutants_belong_to_training_only() -> None:
    held = [problem(SMALL, "graphs", number) for number in range(40)]
    assert all(not made.mutants for made in held if made.split != "train")
    assert problems.TRACED
