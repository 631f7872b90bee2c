"""Kernels in the order and with the constructor that a policy can write."""

import pytest

from kernelwright.data.arrangement import arranged
from kernelwright.data.families.table import chosen, pair
from kernelwright.tasks import lowered

LOWERED = """class Model(nn.Module):
    def __init__(self, width, slope=0.1):
        super().__init__()
        self.proj = nn.Linear(width, 6)
        self.act = nn.LeakyReLU(slope)
init: 8
x: [4, 8]
return x"""
CODE = """import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    pass


def launch(x, weight, bias, slope):
    kernel[(1,)](x, x, BLOCK=BLOCK)
    return x


class ModelNew(nn.Module):
    def __init__(self, width, slope=0.1):
        super().__init__()
        self.slope = slope
        self.proj = nn.Linear(
            width, 6,
        )

    def forward(self, x):
        return launch(x, self.proj.weight, self.proj.bias, self.slope)
"""


def test_class_first_then_launches_then_kernels_with_the_references_constructor() -> None:
    head, rest = CODE.replace("\nBLOCK = 64\n", "").replace("BLOCK)", "64)").split("\n\n\n@triton.jit")
    kernel, launch, model = ("@triton.jit" + rest).rstrip().split("\n\n\n")
    model = """class ModelNew(nn.Module):
    def __init__(self, width, slope=0.1):
        super().__init__()
        self.proj = nn.Linear(width, 6)
        self.act = nn.LeakyReLU(slope)

    def forward(self, x):
        return launch(x, self.proj.weight, self.proj.bias, self.act.negative_slope)"""
    assert arranged(CODE, LOWERED) == "\n\n\n".join([head, model, launch, kernel]) + "\n"


def test_arranging_twice_changes_nothing_and_a_number_that_no_module_holds_is_kept() -> None:
    once = arranged(CODE, LOWERED)
    assert arranged(once, LOWERED) == once
    functional = LOWERED.replace("        self.act = nn.LeakyReLU(slope)\n", "")
    assert "        self.proj = nn.Linear(width, 6)\n        self.slope = slope\n" in arranged(
        CODE, functional
    )
    assert "LeakyReLU" not in arranged(CODE, functional)


def test_a_reference_without_a_constructor_leaves_the_kernels_own() -> None:
    assert "self.proj = nn.Linear(\n            width, 6,\n        )" in arranged(CODE, "x: [4, 8]\nreturn x")


def test_a_kernel_without_a_constructor_gets_the_references() -> None:
    code = (
        CODE[: CODE.index("    def __init__")]
        + "    def forward(self, x):\n        return launch(x, x, x, 1)\n"
    )
    asked = "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.act = nn.GELU()\nx: [4]"
    assert "        super().__init__()\n        self.act = nn.GELU()\n\n    def forward" in arranged(
        code, asked
    )


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("width, slope=0.1):\n        super", "wide, slope=0.1):\n        super", "other arguments"),
        ("self.slope = slope", "self.proj2 = self.act = slope", "an attribute with another meaning"),
        ("self.slope = slope", "torch.manual_seed(0)", "a statement that sets nothing"),
    ],
)
def test_a_constructor_that_does_not_fit_stays(old: str, new: str, why: str) -> None:
    code = CODE.replace(old, new)
    made = arranged(code, LOWERED)
    assert made != code, "the order is another still"
    assert "self.proj = nn.Linear(\n" in made, why


@pytest.mark.parametrize(
    "code",
    [
        CODE.replace("def launch", "kernel = triton.autotune([], [])(kernel)\n\n\ndef launch"),
        CODE.replace("def forward(self, x):", "def forward(self, x, launch=launch):"),
        CODE.replace("class ModelNew", "class Other"),
        CODE.replace("def launch(", "def launch(("),
        "",
    ],
)
def test_what_is_put_together_otherwise_stays(code: str) -> None:
    assert arranged(code, LOWERED) == code


def test_constructors_of_all_families_are_word_for_word() -> None:
    for family in chosen(("all",)):
        made = pair(family, "arranged", "arranged:kernel", max(family.levels))
        asked = lowered(made.task)
        text = arranged(made.code, asked)
        head = asked.split("class Model(nn.Module):\n")[-1].split("\ninit: ")[0].split("\nx: ")[0]
        wanted = [line for line in head.splitlines() if line.startswith("    ")]
        assert [line for line in wanted if line not in text.splitlines()] == [], family.name
