"""Inputs that a task fills with one number get other values at the second size, if the reference uses them."""

import pytest
import torch

from kernelwright.records import Task
from kernelwright.verify.judge import Judge
from kernelwright.verify.protocol import PROTOCOLS
from kernelwright.verify.reference.start_values import even_places, with_others
from kernelwright.verify.structures import flatten

SOURCE = """
import torch
import torch.nn as nn

N = 8

class Model(nn.Module):
    def forward(self, x, start):
        return {body}

def get_inputs():
    return [torch.randn(N), {start}]

def get_init_inputs():
    return []
"""


def starts(body: str, start: str) -> list[torch.Tensor]:
    """The second input in the first case of each of two sizes."""
    source = SOURCE.format(body=body, start=start)
    made = Task(id="test/task", source=source, shapes={"small": {"N": 8}, "small_odd": {"N": 7}})
    return [one.cases[0].inputs[1] for one in Judge(PROTOCOLS["strict"], "h200", 1).cases(made)[:2]]


@pytest.mark.parametrize(
    ("body", "start", "least"),
    [
        ("x + start", "torch.zeros(N)", None),
        ("x * start.sqrt()", "torch.zeros(N)", 0.0),
        ("x * start", "torch.full((N,), 2.0)", 0.5),
    ],
)
def test_what_is_drawn_as_one_number_is_drawn_anew(body: str, start: str, least: float | None) -> None:
    first, second = starts(body, start)
    assert len(set(first.tolist())) == 1
    assert len(set(second.tolist())) == 7
    assert least is None or float(second.min()) >= least


@pytest.mark.parametrize(
    ("body", "start"),
    [
        ("x.cumsum(0) + 0 * start", "torch.zeros(N)"),
        ("x + start", "torch.zeros(N, dtype=torch.int64)"),
        ("x + start", "torch.zeros(N).bernoulli(0.5)"),
    ],
)
def test_what_means_nothing_or_is_drawn_stays(body: str, start: str) -> None:
    second = starts(body, start)[1]
    assert set(second.tolist()) <= {0.0, 1.0}


def test_only_what_is_even_in_every_draw_is_changed() -> None:
    def draw(number: int) -> list[torch.Tensor]:
        return [torch.zeros(3), torch.full((3,), float(number)), torch.ones(1), torch.zeros(())]

    assert even_places(draw(0), draw) == [0, 3]
    others = flatten(with_others(draw(0), {0: False}))
    assert bool((others[0] > 0).all())
    assert torch.equal(others[3], torch.zeros(()))


def test_identity_matrices_get_numbers_beside_their_diagonal() -> None:
    def draw(_: int) -> list[torch.Tensor]:
        return [torch.eye(3).repeat(2, 1, 1), torch.eye(3).tril() + torch.eye(3).flip(0).tril(-1)]

    assert even_places(draw(0), draw) == [0]
    moved = flatten(with_others(draw(0), {0: True}))[0]
    assert bool((moved != 0).all())


def test_floats_of_a_byte_are_looked_at() -> None:
    kept = torch.full((4,), 2.0).to(torch.float8_e4m3fn)
    assert even_places([kept], lambda number: [kept.clone()]) == [0]
    assert even_places([kept[:1]], lambda number: [kept[:1].clone()]) == []
