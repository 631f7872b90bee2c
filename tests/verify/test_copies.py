"""Copies of references that share weights until they are written to, and what is made of weights once."""

import copy

import torch
from torch import nn

from kernelwright.records import Task
from kernelwright.verify.reference.copies import copied, doubled, once
from kernelwright.verify.reference.task_module import Reference


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(128, 128), nn.Linear(128, 128)
        self.other.weight = self.one.weight
        self.register_buffer("kept", torch.zeros(5000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.other(self.one(x))


def test_a_copy_is_like_a_deep_one_and_writes_stay_apart() -> None:
    module = Tied()
    before = copy.deepcopy(module)
    own, other = copied(module), copied(module)
    with torch.no_grad():
        own.one.weight[3, 5] = 7.0
        own.kept += 1.0
        module.one.bias.fill_(2.0)
    assert own.other.weight is own.one.weight
    assert own.other.weight[3, 5] == 7.0
    assert torch.equal(other.one.weight, before.one.weight)
    assert torch.equal(module.one.weight, before.one.weight)
    assert torch.equal(other.one.bias, before.one.bias)
    assert not bool(module.kept.any())


def test_double_precision_is_made_once_and_never_stale() -> None:
    module = Tied()
    wide, again = doubled(module), doubled(module)
    assert wide.other.weight is wide.one.weight
    assert wide.one.weight.dtype is torch.float64
    assert torch._C._data_address(wide.one.weight) == torch._C._data_address(again.one.weight)
    with torch.no_grad():
        wide.one.weight.add_(1.0)
        module.one.weight.mul_(2.0)
    assert torch.equal(again.one.weight * 2.0, doubled(module).one.weight)
    x = torch.rand(2, 128)
    torch.testing.assert_close(doubled(module)(x.double()).float(), module(x))


def test_what_is_made_of_weights_follows_their_values() -> None:
    weight = copied(Tied()).one.weight.detach()
    asked = []

    def square(one: torch.Tensor) -> torch.Tensor:
        asked.append(one)
        return one * one

    first = once(weight, "square", square)
    assert once(weight, "square", square) is first
    assert len(asked) == 1
    weight.add_(1.0)
    assert torch.equal(once(weight, "square", square), weight * weight)


SOURCE = """
import torch
rows, width = 4, 8
sizes = [rows, width]
class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, 600)
        self.scale = 1.0{more}
    def forward(self, x):
        return self.layer(x) * self.scale
def get_inputs():
    return [torch.rand(rows, width)]
def get_init_inputs():
    return [width]
"""


def test_modules_are_built_once_unless_a_size_matters_to_them() -> None:
    for more, shared in (("", True), (" * rows", False), (" * sizes[0]", False)):
        task = Task(id="t", source=SOURCE.replace("{more}", more))
        built = [Reference(task, {"rows": rows}).build(True, 5) for rows in (4, 6)]
        assert built[0] is not built[1]
        assert torch.equal(built[0].layer.weight, built[1].layer.weight)
        addresses = {torch._C._data_address(one.layer.weight) for one in built}
        assert (len(addresses) == 1) == shared
        assert built[1].scale == (1.0 if shared else 6.0)
        wider = Reference(task, {"width": 9}).build(True, 5)
        assert wider.layer.weight.shape == (600, 9)
