"""The archive: one entry per kernel, merged in any order; entries suffice to print a kernel again and to train on it."""

from pathlib import Path
from typing import Any

import pytest
from functions import softmax_graph, softmax_task, written

from kernelwright.archive import Archive, Entry, elite, entries_of, entry_of, improvements, table, verdicts
from kernelwright.errors import UserError
from kernelwright.graph.structure import structure
from kernelwright.outcomes import Outcome
from kernelwright.prompts import render
from kernelwright.records import Candidate, Completion, Rollout, Timing, Verdict

TASK = softmax_task()


def entry(us: float | None = 4.0, clock: str = "measured", **fields: Any) -> Entry:
    decisions = {name: fields.pop(name) for name in ("warps", "rows", "passes", "block") if name in fields}
    plan, code = written(softmax_graph(), **decisions)
    shared: dict[str, Any] = {"target": "h200", "clock": clock, "us": us, "source": "search"}
    if us is not None and clock == "measured":
        shared["interval"] = (0.99 * us, 1.01 * us)
    return entry_of(TASK, plan, code, **{**shared, **fields})


def test_what_the_printer_writes_is_not_stored_and_is_printed_again() -> None:
    one = entry(warps=8)
    assert one.code == ""
    assert Archive([one]).code_of(one) == written(softmax_graph(), warps=8)[1]


def test_code_that_is_nobodys_print_is_stored() -> None:
    own = entry_of(TASK, "a plan", "def kernel(x): ...", target="h200", clock="measured", source="model")
    assert Archive([own]).code_of(own) == "def kernel(x): ..."


def test_a_kernel_that_the_printer_writes_differently_by_now_is_not_given_out() -> None:
    old = entry(warps=8).model_copy(update={"digest": "0" * 16})
    assert Archive([old]).code_of(old) is None


def test_an_archive_is_read_as_it_was_written(tmp_path: Path) -> None:
    Archive([entry(4.0, warps=4), entry(2.0, warps=8)]).write(tmp_path / "a.jsonl")
    again = Archive.read([tmp_path / "a.jsonl"])
    assert [one.us for [race] in [again.races().values()] for one in race] == [2.0, 4.0]
    assert again.tasks == {softmax_graph().digest: TASK}
    again.write(tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_merging_does_not_depend_on_order() -> None:
    some = [
        entry(4.0, warps=4),
        entry(4.4, warps=4, interval=(4.3, 4.5)),
        entry(None, warps=8, outcome=Outcome.WRONG_VALUE),
    ]
    some.append(entry(1.0, warps=8))
    forward, backward = Archive(some), Archive(some[::-1])
    assert sorted(forward, key=str) == sorted(backward, key=str)
    kept = {one.plan.split("warps ")[1][0]: one for one in forward}
    assert kept["4"].us == 4.4 or kept["4"].us == 4.0
    assert kept["8"].outcome is Outcome.WRONG_VALUE


def test_modelled_and_measured_times_never_race() -> None:
    races = Archive([entry(4.0, warps=4), entry(2.0, clock="modelled", warps=8)]).races()
    assert [len(race) for race in races.values()] == [1, 1]


def test_the_elite_is_the_best_of_each_character_that_is_not_far_behind() -> None:
    [race] = Archive([
        entry(1.0, warps=8), entry(1.1, warps=4), entry(1.2, passes="loop", warps=4), entry(3.0, passes="online", warps=4),
    ]).races().values()  # fmt: skip
    assert [one.us for one in elite(race)] == [1.0, 1.2]


def test_improvements_show_slower_kernels_beyond_the_noise_only() -> None:
    pairs = list(improvements(Archive([entry(4.0, warps=8), entry(4.1, warps=4), entry(8.0, warps=1)])))
    shown = [one.shown.us for one in pairs if one.kind == "improve" and one.shown]
    assert shown == [8.0]
    assert [one.us for one in pairs if one.kind == "write"] == [4.0]
    assert all(one.best_us == 4.0 and one.source == "archive" for one in pairs)


def test_graphs_that_are_held_out_give_no_pairs() -> None:
    held = frozenset([structure(softmax_graph(128, 512))])
    assert list(improvements(Archive([entry(4.0)]), held=held)) == []


def test_the_librarys_table_takes_what_a_clock_has_measured() -> None:
    found = table(
        Archive([entry(4.0, warps=8), entry(1.0, clock="modelled", warps=1)]), {"map/x": {"90": {}}}
    )
    assert found["map/x"] == {"90": {}}
    [(_, row)] = [(key, row) for key, row in found.items() if key.startswith("row/")]
    assert row["90"]["warps"] == 8


def test_a_runs_log_becomes_entries() -> None:
    plan, code = written(softmax_graph(), warps=8)
    timing = Timing(kind="modelled", target="h200", candidate_ms=0.004, candidate_ci=(0.003, 0.005),
                    baseline_ms={"eager": 0.01}, speedup_ci={"eager": (2.0, 3.0)})  # fmt: skip
    made = Rollout(
        task_id=TASK.id, stage="midend", prompt=render("frontend", TASK), completion=Completion(text=""),
        candidate=Candidate(plan=plan, code=code),
        verdict=Verdict(task_id=TASK.id, outcome=Outcome.CORRECT, gate="timing", timing=timing),
    )  # fmt: skip
    [one] = entries_of([made], {TASK.id: TASK}, "h200", "laptop")
    assert (one.us, one.clock, one.source, one.code) == (4.0, "modelled", "laptop/midend", "")


def test_a_missing_archive_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no archive at"):
        Archive.read([tmp_path / "none.jsonl"])


# -- as a memory


def test_an_archive_answers_for_what_it_holds() -> None:
    code = written(softmax_graph(), warps=8)[1]
    remember = verdicts(Archive([entry(4.0, warps=8, eager_us=8.0)]), "h200", "measured")
    found = remember(TASK, Candidate(code=code))
    assert found is not None
    assert found.speedup() == 2.0
    assert remember(TASK, Candidate(code="def kernel(x): ...")) is None


def test_an_archive_answers_for_its_own_target_and_clock_alone() -> None:
    archive, said = (
        Archive([entry(4.0, warps=8, eager_us=8.0)]),
        Candidate(code=written(softmax_graph(), warps=8)[1]),
    )
    assert verdicts(archive, "h200", "modelled")(TASK, said) is None
    assert verdicts(archive, "a100", "measured")(TASK, said) is None


def test_where_nothing_is_judged_the_unknown_has_no_reward() -> None:
    remember = verdicts(Archive([]), "h200", "measured", missing=True)
    found = remember(TASK, Candidate(code="def kernel(x): ..."))
    assert found is not None
    assert not found.outcome.judged
    broken = remember(TASK, Candidate(problem=Outcome.NO_CODE))
    assert broken is not None
    assert broken.outcome is Outcome.NO_CODE
