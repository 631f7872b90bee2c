"""The mutation tester: what counts, what is excluded, and a small run against the judge."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright import faults
from kernelwright.errors import UserError
from kernelwright.tasks import load_suite

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import mutants

FAULT = faults.Fault("dropped_term", 3, "a + b -> (a)", "code")
CHANGES = (
    ("offsets, mask=mask)", "offsets, mask=mask | (offsets < 1))"),
    ("tl.program_id(0)", "(tl.program_id(0) % 4096)"),
)
DIGITS = faults.Fault("half_loads", 4, "x -> x", "code")


@pytest.fixture(scope="module")
def pool() -> Iterator[mutants.Pool]:
    with mutants.Pool(workers=2, backend="interpret", deadline_s=120) as pool:
        yield pool


def ended(*states: mutants.State, fault: faults.Fault = FAULT) -> list[mutants.Mutant]:
    return [mutants.Mutant("wright/relu", fault, state, "wrong_value") for state in states]


def test_the_rate_is_over_mutants_that_compile_and_matter() -> None:
    found = mutants.summary(
        ended("killed", "killed", "killed", "survived", "stillborn", "equivalent", "unjudged")
    )
    assert found["all"]["rate"] == 0.75
    assert found["all"]["raw"] == 0.6
    assert found["precision"]["rate"] is None
    assert found["killed_as"] == {"wrong_value": 3}


def test_precision_stands_apart() -> None:
    found = mutants.summary([*ended("killed"), *ended("survived", fault=DIGITS)])
    assert (found["logic"]["rate"], found["precision"]["rate"], found["all"]["rate"]) == (1.0, 0.0, 0.5)
    assert found["kinds"]["half_loads"]["survived"] == 1


def test_survivors_come_with_their_code() -> None:
    kept, dropped = ended("survived", "killed")
    assert kept.to_json()["code"] == "code"
    assert "code" not in dropped.to_json()


def test_unknown_kinds_are_named_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="unknown kind of fault 'typo'; valid: mask_off_by_one"):
        mutants.plant(load_suite("wright/relu"), 1, kinds=["typo"])


@pytest.mark.slow
def test_the_judge_finds_what_is_planted_and_the_compiler_what_is_not(pool: mutants.Pool) -> None:
    task = load_suite("wright/softmax_rows")[0]
    planted = mutants.plant([task], 1, kinds=["mask_off_by_one", "wrong_axis", "dropped_term", "half_loads"])
    same = faults.Fault("wrong_operator", 1, "nothing", mutants.gold(task.id) + "\nUNUSED = 1\n")
    *judged, unchanged = mutants.run([*planted, (task, same)], pool)
    assert {m.state for m in judged} <= {"killed", "stillborn"}
    assert sum(m.state == "killed" for m in judged) >= 3
    assert (unchanged.state, unchanged.detail) == (
        "equivalent",
        "compiles to the same binaries, launched alike",
    )


def test_what_only_large_sizes_reach_is_no_equivalent(pool: mutants.Pool) -> None:
    """A redundant condition on a load changes nothing at any size; an index that wraps does so beyond the small sizes."""
    task = load_suite("wright/relu")[0]
    code = mutants.gold(task.id)
    needless, wrapped = (code.replace(*pair) for pair in CHANGES)
    assert len({code, needless, wrapped}) == 3
    pairs = [(task, mutants.Candidate(code=text)) for text in (code, needless, wrapped)]
    assert [verdict.correct for verdict in pool.verify_many(pairs)] == [True, True, False]
    assert pool.same_lanes(task, code, needless)
    assert not pool.same_lanes(task, code, wrapped)
    assert not pool.same_binaries(task, code, needless)


def test_races_are_looked_for_at_every_shape(pool: mutants.Pool) -> None:
    """Two programs collide only at the third shape."""
    planted = mutants.plant(load_suite("wright/loss_smooth_l1"), 1, kinds=["race"])
    (race,) = mutants.run(planted, pool)
    assert (race.state, race.outcome) == ("killed", "nondeterministic")


def test_the_command_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutants.main(["--suite", "wright/relu", "--kinds", "nonsense"]) == 2
    assert "unknown kind of fault 'nonsense'" in capsys.readouterr().err
