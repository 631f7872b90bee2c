"""Agreement: a graph that computes something else than its module is detected, whatever the initial weights."""

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from modules import Decoder, examples

from kernelwright.errors import UserError
from kernelwright.graph.agree import _distance, agree
from kernelwright.graph.capture import Part, capture
from kernelwright.graph.types import Node

EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_captured_agrees_in_both_precisions(name: str) -> None:
    module, args = EXAMPLES[name]
    found = agree(capture(module, args).part)
    assert found.native < 1e-5
    assert found.fp64 is not None
    assert found.fp64 < 1e-12


def test_bfloat16_agrees_and_fp64_has_no_roundings() -> None:
    x = torch.randn(2, 6, 64, dtype=torch.bfloat16)
    found = agree(capture(Decoder().bfloat16().eval(), (x,)).part)
    assert found.fp64 is not None
    assert found.fp64 < 1e-12


def test_training_statistics_agree_and_the_module_keeps_its_own() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).train()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    assert agree(capture(module, (torch.randn(2, 3, 6, 6),)).part).native < 1e-5
    assert all(torch.equal(value, module.state_dict()[key]) for key, value in before.items())


def test_state_that_is_rebound_is_put_back() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.ones(4))
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            self.calls += 1
            return x - self.mean

    module = Counter()
    part = capture(module, (torch.randn(3, 4),)).part
    agree(part)
    assert [one.mutated for one in part.graph.arguments] == [False, True]
    assert (module.calls, module.mean.tolist()) == (0, [1.0] * 4)


def changed(part: Part, target: str, **what: Any) -> Part:
    """The part with the first node of that operator altered."""
    nodes = list(part.graph.nodes)
    at = next(i for i, node in enumerate(nodes) if node.op == target)
    nodes[at] = Node(**{**dict(nodes[at]), **what})
    return dataclasses.replace(part, graph=part.graph.model_copy(update={"nodes": tuple(nodes)}))


@pytest.mark.parametrize("op", ["relu", "tanh"])
def test_another_function_is_found_out(op: str) -> None:
    part = capture(nn.Sequential(nn.Linear(4, 4), nn.GELU()), (torch.randn(3, 4),)).part
    with pytest.raises(UserError, match="away from the module's; the graph is not used"):
        agree(changed(part, "aten.gelu.default", op=f"aten.{op}.default"))


def test_a_bias_of_zeros_that_is_dropped_is_found_out() -> None:
    layer = nn.Linear(4, 4)
    nn.init.zeros_(layer.bias)
    part = capture(layer, (torch.randn(3, 4),)).part
    with pytest.raises(UserError, match="away from the module's"):
        agree(changed(part, "aten.linear.default", args=part.graph.nodes[0].args[:2]))


def test_a_small_constant_is_found_out_in_fp64_alone() -> None:
    part = capture(lambda x: F.layer_norm(x, (8,), eps=1e-5), (torch.randn(3, 8),)).part
    wrong = changed(part, "aten.layer_norm.default", args=(*part.graph.nodes[0].args[:4], 1.1e-5))
    assert agree(wrong, fp64=False).native < 1e-4
    with pytest.raises(UserError, match="away from the module's"):
        agree(wrong)


def test_every_part_of_a_broken_module_agrees() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y.exp() if y.sum() > 0 else y.sin()

    for part in capture(function, (torch.ones(3, 4),)).parts:
        assert agree(part).native < 1e-5


def test_positive_inputs_stay_positive() -> None:
    part = capture(lambda x: x.log().sqrt(), (1.5 + torch.rand(8, 8),)).part
    assert agree(part).native < 1e-5


def test_random_operators_are_told() -> None:
    with pytest.raises(UserError, match="draws random numbers; call eval"):
        agree(capture(nn.Dropout(0.5).train(), (torch.randn(4),)).part)


def test_a_masks_least_number_is_another_one_in_fp64_and_hides_no_difference() -> None:
    never = torch.tensor([-3.4e38, 1.0, 2.0])
    assert _distance(never, torch.tensor([-1.7e308, 1.0, 2.0], dtype=torch.float64)) == 0.0
    assert _distance(never, torch.tensor([-3.4e38, 1.0, 3.0])) > 0.1
    assert _distance(never, torch.tensor([3.4e38, 1.0, 2.0])) > 0.1


def test_numbers_made_of_sizes_are_in_fp64_on_both_sides() -> None:
    class Grid(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.linspace(-1, 1, x.shape[-1]) + torch.full((x.shape[-1],), 0.1)

    fp64 = agree(capture(Grid(), (torch.randn(3, 24),)).part, seed=0).fp64
    assert fp64 is not None
    assert fp64 < 1e-12


def test_what_a_module_itself_errs_in_bf16_is_no_difference() -> None:
    """A softmax of large scores: rounding one score changes a result by several per cent, in the module and the graph alike."""

    class Sharp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(512, 2048), nn.BatchNorm1d(2048)
            self.scale = nn.Parameter(torch.full((1,), 8.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.softmax(self.scale * self.norm(self.linear(x)), 1)

    captured = capture(Sharp().to(torch.bfloat16), (torch.randn(64, 512, dtype=torch.bfloat16),))
    far = [agree(captured.part, seed=seed) for seed in range(4)]
    assert max(one.fp64 or 0.0 for one in far) < 1e-9
    assert max(one.native for one in far) > 0.04


def test_likelihoods_are_drawn_as_such() -> None:
    """binary_cross_entropy raises for a target above 1."""

    def loss(x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return nn.functional.binary_cross_entropy(x.sigmoid(), wanted, reduction="sum")

    part = capture(loss, (torch.randn(64, 64), torch.rand(64, 64))).part
    for seed in range(5):
        agree(part, seed=seed)


def test_a_number_written_into_a_tensor_has_its_digits_in_fp64() -> None:
    class Step(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            step = torch.eye(4, dtype=x.dtype)
            step[0, 2] = 0.1
            moved = (x @ step)[:, 2] - x[:, 2]
            return 1.0 / (moved - 0.0999 * x[:, 0])

    part = capture(Step(), (torch.rand(32, 4) + 1,)).part
    apart = agree(part, seed=1).fp64
    assert apart is not None
    assert apart > 1e-6
    [times] = [node for node in part.graph.nodes if node.op == "aten.mul.Tensor"]
    with pytest.raises(UserError, match="away from the module"):
        agree(changed(part, times.op, args=(times.args[0], 0.09991)), seed=1)


def test_what_memory_does_not_hold_is_said_before_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    part = capture(lambda x: x.expand(1 << 10, 64, 64).exp(), (torch.randn(64, 64),)).part
    size = 4 << 22
    monkeypatch.setattr("kernelwright.graph.agree.memory", lambda: (3 * size, 9 * size))
    with pytest.raises(UserError, match="give a smaller example"):
        agree(part)
    monkeypatch.setattr("kernelwright.graph.agree.memory", lambda: (5 * size, 9 * size))
    assert agree(part).why == "memory does not suffice"
    monkeypatch.setattr("kernelwright.graph.agree.memory", lambda: (9 * size, 9 * size))
    assert agree(part).fp64 == 0.0
