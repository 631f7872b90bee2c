"""The same module, its constructor in another hand."""

import random
import re
from typing import Any

import pytest
import torch
import torch.nn as nn

from kernelwright.prompts.constructors import varied
from kernelwright.records import Example, Task

HEAD = re.compile(r"\Aclass Model\(nn\.Module\):\n((?:    .*\n)+)(?:init: (.*)\n)?")
CONV = """    def __init__(self, in_channels, out_channels, kernel_size, bias=False):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, bias=bias)
        self.act = nn.ReLU()"""


def example(constructor: str = CONV, init: str = "3, 8, 5", extra: str = "", **more: Any) -> Example:
    task = Task(
        id="made/up",
        source="",
        lowered=f"class Model(nn.Module):\n{constructor}\ninit: {init}\nx: [1, 3, 8, 8]\nreturn x",
    )
    code = (
        f"class ModelNew(nn.Module):\n{constructor}\n{extra}\n    def forward(self, x):\n        return x\n"
    )
    return Example(kind="translate", task=task, code=code, plan="p").model_copy(update=more)


def module(text: str) -> nn.Module:
    """What a lowered reference's constructor makes of its arguments."""
    found = HEAD.match(text)
    assert found
    scope: dict[str, Any] = {"torch": torch, "nn": nn}
    exec(f"class Module(nn.Module):\n{found[1]}", scope)
    with torch.device("meta"):
        made = scope["Module"](*(eval(f"({found[2]},)") if found[2] else ()))
    assert isinstance(made, nn.Module)
    return made


def test_many_hands_one_module() -> None:
    given = example()
    made = [varied(given, random.Random(seed)) for seed in range(60)]
    texts = {one.task.lowered for one in made}
    assert len(texts) > 30
    for one in made:
        assert repr(module(one.task.lowered)) == repr(module(given.task.lowered))
        found = HEAD.match(one.task.lowered)
        assert found
        assert found[1] in one.code
        assert one.code.endswith("    def forward(self, x):\n        return x\n")
    joined = "\n".join(texts)
    for habit in (
        "stride=1, padding=0",
        "(1, 1)",
        "nn.Conv2d(3, ",
        "in_channels=in_channels",
        "groups=groups",
    ):
        assert habit in joined, habit


def test_what_the_rest_of_the_constructor_needs_stays_an_argument() -> None:
    given = example(extra="        self.size = kernel_size\n")
    made = [varied(given, random.Random(seed)) for seed in range(60)]
    assert all(re.search(r"def __init__\(self.*\bkernel_size\b", one.code) for one in made)
    assert any("in_channels" not in one.task.lowered.partition("):")[0] for one in made)


@pytest.mark.parametrize(
    "given",
    [
        example(constructor=CONV.replace("bias=False", "*more")),
        example(init="object()"),
        example(init="3, 8"),
        example(code="class ModelNew(nn.Module):\n    pass\n"),
        example(constructor=CONV.replace("Conv2d", "Mystery")),
        example(constructor=CONV.replace("bias=bias", "mode=bias")),
    ],
    ids=[
        "any number of arguments",
        "no literal",
        "too few",
        "another constructor",
        "unknown layer",
        "unknown option",
    ],
)
def test_what_cannot_be_read_stays(given: Example) -> None:
    assert all(varied(given, random.Random(seed)) == given for seed in range(20))


def test_an_argument_that_the_verifier_names_stays() -> None:
    given = example(kind="repair", feedback="missing argument 'kernel_size'", kernel=example().code)
    for seed in range(60):
        made = varied(given, random.Random(seed))
        assert "kernel_size" in made.code
        assert made.kernel.partition("forward")[0] == made.code.partition("forward")[0]
