"""Capture: a live module with example inputs becomes a task that computes the same, or one line that says why not."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernelwright.errors import UserError
from kernelwright.shapes import constants
from kernelwright.tasks.capture import capture, digest_of
from kernelwright.tasks.form import check_reference

SCALE = 3


def widened(width: int) -> int:
    return SCALE * width


class Norm(nn.Module):
    """Keeps its arguments under other names."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.epsilon = eps
        self.weight = nn.Parameter(torch.rand(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon) * self.weight


class Block(nn.Module):
    """Uses another class and a function of its module; keeps none of its arguments."""

    def __init__(self, width: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = Norm(width)
        self.up = nn.Linear(width, widened(width))
        self.drop = nn.Dropout(dropout)
        self.down = nn.Linear(widened(width), width)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return residual + self.down(self.drop(F.gelu(self.up(self.norm(x)))))


class Around(nn.Module):
    def __init__(self, inner: nn.Module, factor: float) -> None:
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x: Tensor) -> Tensor:
        return x + self.factor * self.inner(x)


class Loss(nn.Module):
    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels)


class Told(nn.Module):
    def __init__(self, offset: float) -> None:
        super().__init__()
        self.shift = math.exp(offset)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.shift


def rows(*shape: int, **options: Any) -> Tensor:
    return torch.randn(*shape, **options)


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Any, ...]], str, dict[str, int]]] = {
    "own class": (lambda: Norm(96, 1e-5), lambda: (rows(32, 96),), "", {"DIM": 96, "BATCH": 32}),
    "sizes found by trying": (
        lambda: Block(64).eval(),
        lambda: (rows(8, 16, 64), rows(8, 16, 64)),
        "layer.",
        {"WIDTH": 64, "BATCH": 8, "LENGTH": 16},
    ),
    "linear": (lambda: nn.Linear(48, 80, bias=False), lambda: (rows(8, 48),), "layer.", {"IN_FEATURES": 48}),
    "layer norm": (lambda: nn.LayerNorm([96]), lambda: (rows(5, 96),), "layer.", {"NORMALIZED_SHAPE": 96}),
    "softmax": (lambda: nn.Softmax(dim=-1), lambda: (rows(8, 100),), "layer.", {"DIM": 100}),
    "convolution": (
        lambda: nn.Conv2d(8, 16, 3, stride=2, padding=1),
        lambda: (rows(5, 8, 12, 12),),
        "layer.",
        {"IN_CHANNELS": 8, "OUT_CHANNELS": 16, "BATCH": 5, "HEIGHT": 12},
    ),
    "sequence": (
        lambda: nn.Sequential(nn.Linear(24, 40), nn.ReLU(), Norm(40)),
        lambda: (rows(8, 24),),
        "layer.",
        {"IN_FEATURES": 24, "OUT_FEATURES": 40},
    ),
    "batch norm": (lambda: nn.BatchNorm1d(24).eval(), lambda: (rows(8, 24),), "layer.", {"NUM_FEATURES": 24}),
    "module inside": (
        lambda: Around(nn.Linear(24, 24), 0.5),
        lambda: (rows(8, 24),),
        "",
        {"IN_FEATURES": 24},
    ),
    "labels": (
        Loss,
        lambda: (rows(8, 50), torch.randint(0, 50, (8,))),
        "",
        {"BATCH": 8, "DIM": 50},
    ),
    "half": (
        lambda: Norm(96).to(torch.bfloat16),
        lambda: (rows(8, 96, dtype=torch.bfloat16),),
        "layer.",
        {"DIM": 96},
    ),
    "plain value": (lambda: nn.Flatten(), lambda: (rows(8, 5, 6),), "layer.", {}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_task_computes_what_the_module_does(case: Any) -> None:
    make, draw, prefix, sizes = case
    module, inputs = make(), draw()
    found = capture(module, inputs)
    check_reference(found.task.source, "captured")
    assert found.prefix == prefix
    assert sizes.items() <= constants(found.task.source).items()
    space: dict[str, Any] = {}
    exec(found.task.source, space)
    made = space["Model"](*space["get_init_inputs"]())
    made.load_state_dict({prefix + name: one for name, one in module.state_dict().items()})
    with torch.no_grad():
        torch.testing.assert_close(made(*inputs), module(*inputs))
    drawn = space["get_inputs"]()
    assert [(one.shape, one.dtype) for one in drawn] == [(one.shape, one.dtype) for one in inputs]


def test_a_class_inside_a_function_is_one_too() -> None:
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.relu(x) * SCALE

    found = capture(Inner(), (rows(8, 24),))
    assert "class Model(nn.Module)" in found.task.source
    assert "SCALE = 3" in found.task.source


def test_arguments_that_cannot_be_read_back_can_be_given() -> None:
    module = Told(0.5)
    with pytest.raises(UserError, match=r"argument offset|computes something else"):
        capture(module, (rows(4, 8),))
    assert "return [0.5]" in capture(module, (rows(4, 8),), {"offset": 0.5}).task.source


class Codec(nn.Module):
    def __init__(self, table: dict[str, int]) -> None:
        super().__init__()
        self.table = table

    def forward(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize(
    ("module", "inputs", "said"),
    [
        (Codec({}), (rows(2),), "argument table is a dict"),
        (Norm(8), (rows(2, 9),), "raises RuntimeError on the example inputs"),
        (Norm(8), (), "no tensor among the example inputs"),
        (Norm(8), ([rows(2, 8)], rows(2, 8)), "example input 0 is a list"),
        (Norm(8), (rows(8, 2).t(),), "not contiguous"),
        (Block(8), (rows(2, 8), rows(2, 8)), "call .eval\\(\\)"),
        (F.relu, (rows(2),), "is no nn.Module"),
    ],
    ids=["argument", "raises", "no tensor", "list", "strides", "training", "function"],
)
def test_what_cannot_be_captured_is_one_line(module: Any, inputs: Any, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        capture(module, inputs)
    assert "\n" not in str(caught.value)


def test_the_digest_knows_class_arguments_and_shapes_but_no_values() -> None:
    assert digest_of(Norm(8)) == digest_of(Norm(8))
    others = {
        digest_of(Norm(9)),
        digest_of(Norm(8, 1e-5)),
        digest_of(nn.Linear(8, 8)),
        digest_of(Norm(8).half()),
    }
    assert len(others | {digest_of(Norm(8))}) == 5
