"""Other names, the same program."""

import ast
import random

import pytest

from kernelwright.prompts.renaming import _exchanged, _siblings, _Source, relabelled, renamed, renamed_task
from kernelwright.records import Example, Task
from kernelwright.tasks import lowered

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width, bias=True):
        super().__init__()
        self.proj = nn.Linear(width, 6, bias=bias)
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x):
        return self.proj(x) * self.scale

def get_inputs():
    return [torch.rand(4, 8)]

def get_init_inputs():
    return [8]
"""
CODE = """
import torch
import torch.nn as nn

def linear(x, weight, bias, scale):
    return (x @ weight.T + bias) * scale

class ModelNew(nn.Module):
    def __init__(self, width, bias=True):
        super().__init__()
        self.proj = nn.Linear(
            width, 6, bias=bias,
        )
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x):
        return linear(x, self.proj.weight, self.proj.bias, self.scale)
"""


def example(**more: object) -> Example:
    task = Task(id="made/up", source=SOURCE)
    task = task.model_copy(update={"lowered": lowered(task)})
    return Example(kind="translate", task=task, code=CODE, plan="one kernel").model_copy(update=more)


def names(code: str) -> tuple[list[str], list[str]]:
    tree = next(node for node in ast.parse(code).body if isinstance(node, ast.ClassDef))
    init = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    stored = [n.attr for n in ast.walk(init) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
    return [one.arg for one in init.args.args[1:]], stored


@pytest.mark.parametrize("seed", range(5))
def test_names_are_exchanged_everywhere_and_nothing_else_is(seed: int) -> None:
    made = renamed(example(), random.Random(seed))
    (width, bias), (proj, scale) = names(made.code)
    assert not {width, bias, proj, scale} & {"width", "bias", "proj", "scale"}
    assert len({width, bias, proj, scale}) == 4
    attributes = {proj: "proj", scale: "scale"}
    back = _exchanged(_Source(made.code), {width: "width", bias: "bias"}, attributes, {scale: "scale"})
    assert back == CODE
    assert f"def linear(x, weight, bias, {scale})" in made.code
    assert f"bias={bias}," in made.code
    assert f"self.{proj}.bias" in made.code


def test_the_reference_is_lowered_to_what_a_renamed_reference_would_be() -> None:
    made = renamed(example(), random.Random(0))
    (width, bias), (proj, scale) = names(made.code)
    source = _exchanged(_Source(SOURCE), {"width": width, "bias": bias}, {"proj": proj, "scale": scale})
    assert made.task.lowered == lowered(Task(id="made/up", source=source))
    assert made.task.source == SOURCE


@pytest.mark.parametrize("seed", range(5))
def test_a_task_under_other_names_is_lowered_to_the_text_it_carries(seed: int) -> None:
    made = renamed_task(example().task, random.Random(seed))
    assert "self.proj" not in made.source + made.lowered
    assert made.lowered == lowered(Task(id="made/up", source=made.source))


def test_an_attribute_called_like_a_layers_own_has_a_2_in_the_kernels() -> None:
    like_a_layer = 0
    for seed in range(200):
        made = renamed(example(), random.Random(seed))
        _, (_, scale) = names(made.code)
        like_a_layer += scale in ("bias", "weight")
        called = f"{scale}2" if scale in ("bias", "weight") else scale
        assert f"def linear(x, weight, bias, {called})" in made.code
        assert f", self.{scale})" in made.code
        assert f"\nself.{scale}: [6]" in made.task.lowered
    assert 20 <= like_a_layer <= 60


def test_of_what_has_a_2_in_the_kernels_half_keeps_its_name() -> None:
    code = CODE.replace("self.scale", "self.bias").replace("scale", "bias2")
    task = Task(id="made/up", source=SOURCE.replace("scale", "bias"))
    given = example(code=code, task=task.model_copy(update={"lowered": lowered(task)}))
    kept = 0
    for seed in range(100):
        made = renamed(given, random.Random(seed))
        _, (_, bias) = names(made.code)
        called = "bias2" if bias == "bias" else "weight2" if bias == "weight" else bias
        assert f"def linear(x, weight, bias, {called})" in made.code
        kept += bias == "bias"
    assert 35 <= kept <= 65


def test_siblings_differ_in_one_place() -> None:
    for seed in range(40):
        first, second, *_ = _siblings(random.Random(seed))
        assert sum(a != b for a, b in zip(first.split("_"), second.split("_"), strict=True)) == 1


def test_the_kernel_that_is_shown_has_the_same_names() -> None:
    made = renamed(example(kind="improve", kernel=CODE), random.Random(0))
    assert made.kernel == made.code


@pytest.mark.parametrize(
    "more",
    [{"kernel": "def ("}, {"feedback": "missing argument 'width'"}, {"code": "x = 1"}],
    ids=["a mutant that is not Python", "the verifier names it", "no module"],
)
def test_what_cannot_be_renamed_stays(more: dict[str, str]) -> None:
    given = example(**more)
    assert renamed(given, random.Random(0)) == given


def test_without_a_lowered_reference_nothing_changes() -> None:
    given = example()
    given = given.model_copy(update={"task": given.task.model_copy(update={"lowered": ""})})
    assert renamed(given, random.Random(0)) == given


KERNELS = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def scale_kernel(x_ptr, scale_ptr, eps, max, n, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    scale = tl.load(scale_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.maximum(tl.load(x_ptr + at) * scale + eps, max), mask=at < n)

def scaled(x, scale, eps, max):
    out = torch.empty_like(x)
    scale_kernel[(8,)](x, scale, eps=eps, max=max, n=x.numel(), out_ptr=out, BLOCK=8)
    return out

class ModelNew(nn.Module):
    def __init__(self, width, eps, max, n):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.eps = eps
        self.max = max
        self.n = n

    def forward(self, x):
        return scaled(x, self.scale, self.eps, self.max)
"""


def with_kernels(code: str) -> Example:
    text = (
        "class Model(nn.Module):\n\n"
        + code.partition("class ModelNew(nn.Module):\n")[2].partition("    def forward")[0]
    )
    task = Task(id="made/up", source=SOURCE, lowered=f"{text.rstrip()}\ninit: 8\nh1 = mul(x, self.scale)\n")
    plan = "scale_kernel: 8 programs\nreads x, scale; * scale, + eps, maximum max; writes out"
    return Example(kind="translate", task=task, code=code, plan=plan)


@pytest.mark.parametrize("seed", range(5))
def test_parameters_of_kernels_follow_the_attributes_that_they_are_called_like(seed: int) -> None:
    made = renamed(with_kernels(KERNELS), random.Random(seed))
    _, (scale, eps, top, count) = names(made.code)
    assert f"def scale_kernel(x_ptr, {scale}_ptr, {eps}, {top}, {count}, out_ptr" in made.code
    assert f"{scale} = tl.load({scale}_ptr + at, mask=at < {count})" in made.code
    assert (
        f"scale_kernel[(8,)](x, {scale}, {eps}={eps}, {top}={top}, {count}=x.numel(), out_ptr=out"
        in made.code
    )
    assert (
        made.plan
        == f"scale_kernel: 8 programs\nreads x, {scale}; * {scale}, + {eps}, maximum {top}; writes out"
    )


def test_a_name_that_means_something_else_as_well_stays() -> None:
    local = KERNELS.replace("    out = torch.empty_like(x)\n", "    out = torch.empty_like(x)\n    n = 8\n")
    made = renamed(with_kernels(local), random.Random(1))
    assert "    n = 8\n" in made.code
    assert ", n, out_ptr" in made.code
    function = KERNELS.replace("tl.maximum(tl.load(x_ptr + at) * scale + eps, max)", "tl.max(scale)")
    made = renamed(with_kernels(function), random.Random(1))
    assert ", max):" in made.code.partition("class")[0]
    keyword = KERNELS.replace("torch.empty_like(x)", "torch.sum(x, n=0)")
    assert "torch.sum(x, n=0)" in renamed(with_kernels(keyword), random.Random(1)).code


def test_the_attributes_own_parameter_beside_a_layers_of_that_name_stays() -> None:
    both = KERNELS.replace("scale, eps, max):", "scale, eps, max, eps2=0):")
    made = renamed(with_kernels(both), random.Random(1))
    assert "eps, " in made.code.partition("class")[0]
    assert "eps2=0" in made.code


def test_an_attribute_may_be_called_like_a_launch_and_no_two_alike() -> None:
    made = [renamed(example(), random.Random(seed)) for seed in range(200)]
    attributes = [names(one.code)[1] for one in made]
    assert any("linear" in one for one in attributes)
    assert all(len(set(one)) == len(one) for one in attributes)
    assert any(len(name) <= 3 for one in attributes for name in one)


@pytest.mark.parametrize("seed", range(5))
def test_launches_and_their_kernels_are_renamed_together(seed: int) -> None:
    code = KERNELS.replace("scale_kernel", "scaled_kernel")
    given = with_kernels(code).model_copy(
        update={"feedback": "scaled_kernel: at 9:20: broken", "plan": "scaled_kernel: 8 programs"}
    )
    made = relabelled(given, random.Random(seed))
    called = made.code.partition("        return ")[2].partition("(")[0]
    assert called != "scaled"
    assert made.code == code.replace("scaled", called)
    assert made.feedback == f"{called}_kernel: at 9:20: broken"
    assert made.plan == f"{called}_kernel: 8 programs"
    assert made.task == given.task


@pytest.mark.parametrize(
    "more",
    [
        {"feedback": "scaled() takes 4 arguments"},
        {"code": KERNELS.replace("eps, max, n, out_ptr", "eps, max, n, scaled")},
        {"kernel": "def ("},
    ],
    ids=["the verifier names it", "a parameter has that name", "no Python"],
)
def test_launches_whose_names_mean_more_stay(more: dict[str, str]) -> None:
    given = with_kernels(KERNELS).model_copy(update=more)
    assert relabelled(given, random.Random(0)) == given
