"""Every built-in task is valid: its gold is accepted, and answers that need no work are not.

The second half uses the oracle alone (no process, no static rule, no causality): even if they pass the other gates,
zeros, a constant, a returned input or the answer to other inputs have wrong values.
"""

import functools
from typing import Any

import pytest
import torch

from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Task
from kernelwright.tasks import load_suite
from kernelwright.verify import VerifierPool
from kernelwright.verify.protocol import PROTOCOLS
from kernelwright.verify.reference.cases import Case
from kernelwright.verify.reference.comparison import compare
from kernelwright.verify.reference.expected import Expected
from kernelwright.verify.reference.oracle import ShapeCases, shape_cases
from kernelwright.verify.structures import flatten

TASKS = load_suite("wright")
SECRET = 4_242


def _name(value: object) -> str | None:
    return value.id.removeprefix("wright/") if isinstance(value, Task) else None


@pytest.mark.parametrize("task", TASKS, ids=_name)
def test_a_gold_is_accepted_and_priced(task: Task, pool: VerifierPool) -> None:
    verdict = pool.verify(task, Candidate(code=gold(task.id)))
    assert verdict.correct, f"{verdict.outcome} at {verdict.gate}: {verdict.detail}"
    assert verdict.timing is not None
    assert verdict.timing.kind == "modelled"
    assert verdict.evidence.worst_error is not None
    assert verdict.evidence.worst_error <= 1.0


@functools.cache
def _cases(index: int, secret: int) -> ShapeCases:
    """Cases at the first sizes only, as the judge makes them."""
    task = TASKS[index]
    name = next(name for name in task.shapes if name.startswith("small"))
    return shape_cases(task, name, task.shapes[name], PROTOCOLS["strict"], secret, 0)


def _refused(case: Case, outputs: list[torch.Tensor]) -> bool:
    """Whether the oracle finds any of these outputs wrong, in shape, dtype or value."""
    for index, (got, expected) in enumerate(zip(outputs, case.expected, strict=True)):
        if tuple(got.shape) != expected.shape or got.dtype != expected.dtype:
            return True
        if compare(index, got, expected, PROTOCOLS["strict"]).kind:
            return True
    return False


def _like(case: Case, make: Any) -> list[torch.Tensor]:
    return [make(expected) for expected in case.expected]


def _plain(expected: Expected) -> torch.Tensor:
    return expected.value.reshape(expected.shape).to(expected.dtype)


@pytest.mark.parametrize("index", range(len(TASKS)), ids=lambda i: _name(TASKS[i]))
class TestAnswersThatNeedNoWork:
    def test_the_rounded_oracle_itself_passes(self, index: int) -> None:
        for case in _cases(index, SECRET).cases:
            assert not _refused(case, _like(case, _plain)), case.name

    def test_zeros_fail(self, index: int) -> None:
        zeros = lambda e: torch.zeros(e.shape, dtype=e.dtype)  # noqa: E731
        assert any(_refused(case, _like(case, zeros)) for case in _cases(index, SECRET).cases)

    def test_a_constant_fails(self, index: int) -> None:
        """The best constant: the mean of the expected values, in each case."""

        def mean(e: Expected) -> torch.Tensor:
            finite = e.value.double().nan_to_num(0.0, 0.0, 0.0)
            return torch.full(e.shape, float(finite.mean()), dtype=torch.float64).to(e.dtype)

        first = _cases(index, SECRET).cases[0]
        if all(expected.value.numel() == 1 for expected in first.expected):
            constant = _like(first, mean)  # one number: correct for one draw, wrong for the others
            others = _cases(index, SECRET + 1).cases + _cases(index, SECRET).cases[1:]
            assert any(_refused(case, constant) for case in others)
        else:
            assert _refused(first, _like(first, mean))

    def test_an_input_handed_back_fails(self, index: int) -> None:
        for position in range(len(flatten(_cases(index, SECRET).cases[0].inputs))):
            assert any(
                _refused(case, [flatten(case.inputs)[position]] * len(case.expected))
                for case in _cases(index, SECRET).cases
            )

    def test_the_answer_to_another_seed_fails(self, index: int) -> None:
        mine, theirs = _cases(index, SECRET).cases[0], _cases(index, SECRET + 1).cases[0]
        assert _refused(mine, _like(theirs, _plain))

    def test_the_answer_to_another_distribution_fails(self, index: int) -> None:
        """Unless the output does not depend on the scale of the input."""
        cases = _cases(index, SECRET).cases
        refused = [_refused(case, _like(cases[0], _plain)) for case in cases[1:]]
        assert any(refused)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["kernelbench", "toronto"])
def test_under_other_protocols_a_gold_is_refused_for_its_tolerance_only(
    protocol: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """These protocols compare with PyTorch in the task's own precision; a refusal must be one that PyTorch itself risks.

    Prints the list (`pytest -s`): task, first wrong index, and PyTorch's own distance from fp64.
    """
    with VerifierPool(workers=2, backend="interpret", protocol=protocol, secret=SECRET, kept=True) as pool:
        verdicts = pool.verify_many([(task, Candidate(code=gold(task.id))) for task in TASKS])
    refused = [
        (index, verdict)
        for index, (verdict, task) in enumerate(zip(verdicts, TASKS, strict=True))
        if not verdict.correct
    ]
    with capsys.disabled():
        for index, verdict in refused:
            error = max(expected.honest_error for expected in _cases(index, SECRET).cases[0].expected)
            print(
                f"\n{protocol} {TASKS[index].id}: {verdict.detail}; PyTorch's own error {error:.2g}", end=""
            )
    for index, verdict in refused:
        assert verdict.outcome.category.value == "wrong_result", verdict
        found = verdict.evidence.mismatch
        assert found is not None
        strict = _cases(index, SECRET).cases[0].expected[found.output]
        error = abs(found.got - found.expected)
        eps = torch.finfo(strict.dtype).eps
        rounding = 16 * strict.honest_error + 64 * eps * (abs(found.expected) + strict.typical)
        assert found.allowed < error <= rounding, f"{TASKS[index].id}: {verdict.detail}"
