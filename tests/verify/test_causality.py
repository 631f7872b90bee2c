"""Which launches an output depends on, according to tapes."""

import json
from typing import Any

import pytest
import torch

from kernelwright.verify import causality
from kernelwright.verify.protocol import PROTOCOLS
from kernelwright.verify.reference.expected import expected_of
from kernelwright.verify.reference.operators import operators
from kernelwright.verify.trace.overlap import view_of
from kernelwright.verify.trace.tape import Tape, View

X = torch.arange(32.0).reshape(4, 8)
GIVEN = view_of(X)


def view(tensor: torch.Tensor, storage: int) -> list[Any]:
    return view_of(tensor, storage).to_json()


def tape(*steps: dict[str, Any], output: torch.Tensor = X) -> Tape:
    """Storage 0 is the input, 1 the output, 2 another one of the same size."""
    body = {"operations": steps, "output": {"view": view(output, 1)}, "foreign": {0: 128, 1: 128, 2: 128}}
    return Tape.read(json.loads(json.dumps(body)))


def copy(target: list[Any], source: list[Any]) -> dict[str, Any]:
    return {"kind": "copy", "target": target, "source": source}


def launch(tensor: list[Any]) -> dict[str, Any]:
    one = {"kernel": 0, "grid": [1, 1, 1], "arguments": {"p": {"view": tensor}}, "options": {}}
    return {"kind": "launch", "launches": [one]}


def test_a_copy_of_half_an_input_into_the_output_is_half_of_it() -> None:
    assert causality.copied_share(tape(copy(view(X[:2], 1), view(X[:2], 0))), [0]) == 0.5


def test_what_a_kernel_had_in_between_is_the_kernels() -> None:
    moved = copy(view(X, 2), view(X, 0)), launch(view(X, 2)), copy(view(X, 1), view(X, 2))
    assert causality.copied_share(tape(*moved), [0]) == 0.0
    assert causality.copied_share(tape(moved[0], moved[2]), [0]) == 1.0


def test_a_copy_through_halves_of_what_kernels_see_whole_is_a_cast() -> None:
    halves = X.view(torch.float16)[:, ::2]
    seen = view(torch.empty(4, 8, dtype=torch.float16), 2)
    steps = copy(seen, view(halves, 0)), launch(seen)
    assert "float16" in causality.recast(tape(*steps), [GIVEN])
    assert causality.recast(tape(copy(view(X, 2), view(X, 0))), [GIVEN]) == ""


def test_an_output_that_torch_has_laid_out_is_found_among_its_copies() -> None:
    steps = copy(view(X.view(8, 4), 2), view(X.view(4, 8).t(), 0)), launch(view(X, 2))
    expected = [expected_of(X.t().double(), X.t().contiguous())]
    assert causality.relaid(tape(*steps), expected, [-1]) == {0: 0}
    assert causality.relaid(tape(*steps), expected, [0]) == {}
    assert causality.agreement(X.t(), expected[0], PROTOCOLS["strict"]) == 1.0
    assert causality.agreement(X.view(8, 4), expected[0], PROTOCOLS["strict"]) < causality.SAME


def test_elements_that_are_zero_tell_nobody_whose_they_are() -> None:
    kept = torch.tril(torch.ones(4, 4))
    expected = [expected_of(kept.double(), kept)]
    assert causality.unmarked_share([kept != 0], expected) == 0.0
    assert causality.unmarked_share([torch.zeros(4, 4, dtype=torch.bool)], expected) == 1.0


@pytest.mark.parametrize(("body", "scatters"), [("y[0] = 1.0", True), ("y = y + 1.0", False)])
def test_a_reference_that_changes_a_part_of_a_copy_is_told_by_its_operators(
    body: str, scatters: bool
) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scope = {"y": x.clone()}
            exec(body, scope)
            return scope["y"]

    assert causality.scatters(operators(Model(), [X])) is scatters
    assert View.read(view(X, 0)) == GIVEN


def test_booleans_that_are_the_same_in_every_case_are_no_evidence() -> None:
    found, others = (expected_of(one, one) for one in (torch.tensor([True]), torch.tensor([False])))
    assert causality.constant([[found], [found]])
    assert not causality.constant([[found], [others]])
    number = expected_of(torch.ones(1, dtype=torch.float64), torch.ones(1))
    assert not causality.constant([[number], [number]])


def test_a_cast_through_a_third_memory_is_a_cast() -> None:
    halves = X.view(torch.float16)[:, 1::2]
    out = torch.empty(4, 8, dtype=torch.float16)
    steps = copy(view(X, 2), view(X, 0)), copy(view(out, 1), view(halves, 2))
    assert causality.recast(tape(*steps, output=out), [GIVEN])


def test_what_a_reference_leaves_in_its_place_is_nobodys_work() -> None:
    wanted = X.clone()
    wanted[0] = 99.0
    expected, marks = [expected_of(wanted.double(), wanted)], torch.zeros(4, 8, dtype=torch.bool)
    assert causality.unmarked_share([marks], expected) > 0.9
    assert causality.unmarked_share([marks], expected, [X]) == 0.25
    assert causality.unmarked_share([marks], expected, [X.flip(0)]) > 0.9


def test_a_movement_by_torch_counts_after_the_kernels_too() -> None:
    turned = X.view(8, 4).t()
    steps = launch(view(X, 2)), copy(view(torch.empty(4, 8), 1), view(turned, 2))
    assert causality.moved_share(tape(*steps), [GIVEN]) == 1.0
    assert causality.moved_share(tape(copy(view(X, 1), view(X, 0))), [GIVEN]) == 0.0
    assert causality.moves_only(["permute", "clone"])
    assert not causality.moves_only(["permute", "mul"])
