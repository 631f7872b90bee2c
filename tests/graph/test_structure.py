"""A function has one structure, however it is spelled and sized; other functions have others."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernelwright.graph.capture import capture
from kernelwright.graph.structure import structure, structure_text


def of(function: Callable[..., Tensor], *shapes: tuple[int, ...]) -> str:
    graph = capture(function, tuple(torch.randn(shape) for shape in shapes)).graph
    return structure(graph)


class Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.act = nn.Linear(width, 2 * width), nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.first(x)) * 0.5


SPELLINGS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "a bias": (lambda x, w, c: F.linear(x, w, c), lambda x, w, c: c + x @ w.t()),
    "silu": (lambda x, w, c: F.silu(x @ w) + c, lambda x, w, c: c + (y := x @ w) * torch.sigmoid(y)),
    "a scaling": (lambda x, w, c: (x @ w) / 3.0 + c, lambda x, w, c: torch.add(0.1 * torch.mm(x, w), c)),
    "a square": (lambda x, w, c: (x @ w + c) ** 2, lambda x, w, c: torch.square(c + torch.matmul(x, w))),
    "relu": (lambda x, w, c: F.relu(x @ w + c), lambda x, w, c: (x @ w + c).clamp(min=0)),
    "views": (lambda x, w, c: (x @ w + c).sum(), lambda x, w, c: (x @ w + c).view(1, -1).contiguous().sum()),
}  # fmt: skip


@pytest.mark.parametrize("what", SPELLINGS)
def test_spellings_and_sizes_share_a_structure(what: str) -> None:
    one, other = SPELLINGS[what]
    assert of(one, (4, 8), (8, 8), (8,)) == of(other, (6, 16), (16, 16), (16,))


def test_modules_and_functions_share_a_structure() -> None:
    x = torch.randn(3, 8)
    module = capture(Mlp(8), (x,)).graph
    assert structure(module) == of(lambda x, w, c: F.gelu(x @ w.T + c) / 7, (5, 4), (9, 4), (9,))


DIFFERENT: dict[str, Callable[..., Tensor]] = {
    "a sum": lambda x, w, c: x @ w + c,
    "a difference": lambda x, w, c: x @ w - c,
    "an activation": lambda x, w, c: torch.tanh(x @ w + c),
    "an activation before": lambda x, w, c: torch.tanh(x @ w) + c,
    "a reduction": lambda x, w, c: (x @ w + c).sum(1),
    "a maximum": lambda x, w, c: (x @ w + c).amax(1),
}


def test_other_functions_have_other_structures() -> None:
    assert len({of(one, (4, 8), (8, 8), (8,)) for one in DIFFERENT.values()}) == len(DIFFERENT)


def test_values_that_are_read_twice_do_not_double_the_text() -> None:
    def chain(x: Tensor) -> Tensor:
        for _ in range(12):
            x = torch.sin(x) * torch.cos(x)
        return x

    assert len(structure_text(capture(chain, (torch.randn(4),)).graph)) < 200
