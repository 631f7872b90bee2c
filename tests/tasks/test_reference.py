"""References executed in this process, and on meta tensors."""

import pytest
import torch

from kernelwright.tasks.reference import Reference, on_meta

SOURCE = """
import torch
COUNT = 3
class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.proj = torch.nn.Linear(features, features)
    def forward(self, x, scale):
        return self.proj(x) * scale + torch.ones(COUNT, 4)
def get_inputs(): return (torch.randn(COUNT, 4), 2.0)
def get_init_inputs(): return (4,)
"""


def test_a_reference_makes_its_module_and_inputs_anew_each_time() -> None:
    reference = Reference(SOURCE)
    assert reference.namespace["COUNT"] == 3
    assert reference.init_inputs() == [4]
    first, second = reference.module(), reference.module([4])
    assert not torch.equal(first.proj.weight, second.proj.weight)
    (x, scale), (other, _) = reference.inputs(), reference.inputs()
    assert scale == 2.0
    assert not torch.equal(x, other)
    assert first(x, scale).shape == (3, 4)


def test_on_meta_nothing_has_data_and_nothing_a_gradient() -> None:
    with on_meta(SOURCE) as (module, inputs):
        made = module(*inputs)
        assert {tensor.device.type for tensor in (*module.parameters(), inputs[0], made)} == {"meta"}
        assert inputs[1] == 2.0
        assert not made.requires_grad
    assert torch.ones(1).device.type == "cpu"


@pytest.mark.parametrize("manner", [Reference, lambda source: on_meta(source).__enter__()])
def test_what_a_source_raises_is_handed_on(manner) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ZeroDivisionError):
        manner("1 / 0")
