"""Execution: sizes and scales by symbol, operators by torch alone."""

import pytest
import torch

from kernelwright.errors import UserError
from kernelwright.graph import Argument, Graph, Node, Ref, TensorType, Value, sizes
from kernelwright.graph.execute import execute
from kernelwright.graph.fx import to_fx
from kernelwright.graph.text import to_text
from kernelwright.graph.types import Scale, Size, Symbol

ROWS = TensorType(dtype="float32", shape=("s0", "2*s1"))
SCALED = Graph(
    arguments=(Argument(name="x1", type=ROWS),),
    nodes=(
        Node(
            op="aten.mul.Tensor",
            args=(Ref(ref="x1"), Scale(scale="(2*s1)**-0.5")),
            outputs=(Value(name="h1", type=ROWS),),
        ),
        Node(
            op="aten.reshape.default",
            args=(Ref(ref="h1"), (Size(size="2*s0*s1"),)),
            outputs=(Value(name="h2", type=TensorType(dtype="float32", shape=("2*s0*s1",))),),
        ),
    ),
    results=("h2",),
    symbols=(Symbol(name="s0", hint=3), Symbol(name="s1", hint=2)),
)


def test_sizes_and_scales_follow_the_arguments() -> None:
    x = torch.ones(5, 16)
    (found,) = execute(SCALED, [x])
    assert found.shape == (80,)
    assert float(found[0]) == 0.25


def test_static_leaves_no_symbol() -> None:
    fixed = sizes.static(SCALED, {"s1": 8})
    assert fixed.nodes[0].args[1] == 0.25
    assert fixed.symbols == ()
    assert "s0" not in to_text(fixed)


def test_sizes_that_do_not_fit_are_told() -> None:
    with pytest.raises(UserError, match="x1 is 7 long in dimension 1"):
        execute(SCALED, [torch.ones(5, 7)])
    with pytest.raises(UserError, match="needs a value for x1"):
        execute(SCALED, {})


def test_a_size_that_is_only_in_a_product_has_its_hint() -> None:
    flat = SCALED.model_copy(
        update={
            "arguments": (Argument(name="x1", type=TensorType(dtype="float32", shape=("s0*s1",))),),
            "nodes": (),
            "results": ("x1",),
        }
    )
    assert sizes.bind(flat, {"x1": (12,)}, {}) == {"s0": 3, "s1": 4}


@pytest.mark.parametrize("text", ["__import__('os')", "s0.bit_length()", "[1]", "s0 if s0 else 1"])
def test_nothing_but_arithmetic_is_evaluated(text: str) -> None:
    with pytest.raises(ValueError, match=r"arithmetic|expression"):
        sizes.parse(text)
    with pytest.raises((ValueError, KeyError)):
        sizes.scale(text, {"s0": 2})


def test_fx_makes_scales_of_sizes() -> None:
    x = torch.ones(5, 16)
    torch.testing.assert_close(to_fx(SCALED, {"s0": 5, "s1": 8})(x), execute(SCALED, [x]))
