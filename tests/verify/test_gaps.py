"""How much of its input a reference reads; no honest kernel is accused of reading less."""

import pytest
import torch
import torch.nn.functional as F

from kernelwright.hardware import TARGETS
from kernelwright.records import Task
from kernelwright.verify.reference.baseline import baseline

TASK = """
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 10

class Model(nn.Module):
    def forward(self, x, w):
        return {}

def get_inputs():
    return [torch.rand(2, 3, SIZE, 12), torch.rand(4, 3, 3, 3)]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("expression", "smooth"),
    [
        # A maximum has a gradient only at one element of each window.
        ("F.max_pool2d(x, 3)", "F.avg_pool2d(x, 3)"),
        ("F.max_pool2d(x, 2, 3, dilation=2)", "F.conv2d(x, torch.ones(1, 3, 2, 2), stride=3, dilation=2)"),
        ("F.avg_pool2d(x, 2, 4, padding=1)", ""),
        ("F.avg_pool1d(x.flatten(0, 1), 5)", ""),
        ("F.avg_pool1d(x.flatten(0, 2), 5)", ""),  # without a batch
        ("F.avg_pool2d(x, 3, ceil_mode=True)", ""),
        ("F.conv2d(x, w, stride=4)", ""),
        ("F.conv2d(x, w, stride=(5, 2), padding=1, dilation=(1, 2))", ""),
        ("F.conv_transpose2d(x, w.transpose(0, 1), stride=3)", ""),
        ("x.cumsum(0)", ""),
    ],
)
def test_the_share_is_that_of_the_elements_with_a_gradient(expression: str, smooth: str) -> None:
    x, w = torch.rand(2, 3, 10, 12, requires_grad=True), torch.rand(4, 3, 3, 3)
    eval(smooth or expression, {"x": x, "w": w, "F": F, "torch": torch}).sum().backward()
    assert x.grad is not None
    share = float((x.grad != 0).float().mean())
    task = Task(id="made/up", source=TASK.format(f"{expression} + w.sum()"))
    assert baseline(task, {}, TARGETS["h200"]).read_share == [pytest.approx(share), 1.0]


@pytest.mark.parametrize(
    ("expression", "share"),
    [
        ("F.hardswish(x.exp()).index_select(3, torch.tensor([2]))", 0.0),  # which, is a matter of the index
        ("x.exp().index_select(3, torch.tensor([2])) + x.sum()", 1.0),
        ("x.exp() + x.neg()", 1.0),
        ("F.avg_pool2d(F.gelu(x) * 2, 2, 4, padding=1)", 0.25),
        ("x.exp_().index_select(0, torch.tensor([0]))", 0.0),
        ("torch.softmax(x.exp(), -1).index_select(0, torch.tensor([0]))", 1.0),
    ],
)
def test_what_is_mapped_counts_as_read_as_far_as_the_map_is(expression: str, share: float) -> None:
    task = Task(id="made/up", source=TASK.format(f"{expression} + w.sum()"))
    found = baseline(task, {}, TARGETS["h200"]).read_share
    assert (found[0] > 0.0) == (share > 0.0)
    assert found[0] <= (share or 1.0)
    assert found[1] == 1.0
