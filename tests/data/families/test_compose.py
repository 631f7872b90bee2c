"""Compositions: what is drawn of heads and tails, and that no two kernels of one answer share a name."""

from __future__ import annotations

import re

import pytest
import torch

from kernelwright import shapes
from kernelwright.data.families.compose import FAMILIES
from kernelwright.data.families.spec import Family
from kernelwright.data.families.table import chosen, pair
from kernelwright.data.families.write import Pair

STEPS = {
    "image": (r"pool2d\(|Pool2d", "GroupNorm", "InstanceNorm2d", "BatchNorm2d", "LayerNorm", "dim=1", "adaptive_avg|AdaptiveAvg",
              "centered - torch.mean", "skip", "original", "nn.Dropout|F.dropout", r"flatten\(1\)|dim=\[1, 2, 3\]"),
    "features": ("Pool1d|pool1d", "GroupNorm", "InstanceNorm[12]d", "BatchNorm1d", "LayerNorm", "linear2", "logsumexp"),
}  # fmt: skip
"""What references of compositions say somewhere, by the kind of their head."""


def drawn(family: Family, count: int) -> list[Pair]:
    return [
        pair(family, str(number), "k", family.levels[number % len(family.levels)]) for number in range(count)
    ]


@pytest.mark.parametrize(
    ("name", "kind"), [("conv_transpose2d_chain", "image"), ("linear_chain", "features")]
)
def test_every_kind_of_step_is_drawn(name: str, kind: str) -> None:
    family = next(family for family in FAMILIES if family.name == name)
    text = "\n".join(made.task.source for made in drawn(family, 150))
    for step in STEPS[kind]:
        assert re.search(step, text), step


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("linear_chain", "rejoin_kernel"),
        ("conv_transpose2d_chain", r"(?s)pool2d_kernel\[.*pool2d2?_kernel\["),
        ("conv2d_chain", r"(?s)(\w+pool2d)_kernel\[.*\1_kernel\["),
        ("conv3d_chain", r"(?s)pool3d_kernel\[.*return y.*conv3d_kernel\["),
        ("conv2d_chain", r"self\.bias = nn\.Parameter\(torch\.\w+\(bias_shape\)\)"),
        ("conv2d_chain", r"eps=\w+, momentum=\w+\)"),
        ("conv2d_chain", r"self\.\w+\.kernel_size\[0\]"),
        ("linear_chain", r"(?s) = acc [*+/-] (\w+)\n.* = acc [*+/-] \1\n"),
    ],
)
def test_forms_of_compositions_are_drawn(name: str, said: str) -> None:
    """The input that joins again, poolings in a row and before the head, and constructors as people write them."""
    family = next(family for family in FAMILIES if family.name == name)
    assert any(re.search(said, pair(family, f"form{seed}", "k", 4).code) for seed in range(600))


def test_what_is_one_number_is_reduced_again_among_the_maps_of_one_kernel() -> None:
    family = next(family for family in FAMILIES if family.name == "linear_chain")
    once = r".*dim=-?1, keepdim=True\)(?:\[0\]|\.values)?\n"
    again = rf"{once}(?:.*\n)?{once} +\w+ = (?!.*(?:keepdim|[dD]ropout)).*\n"
    made = [one for one in drawn(family, 400) if re.search(again, one.task.source)]
    assert any(len(re.findall(r"_kernel\[", one.code)) == 2 and "rejoin" not in one.code for one in made)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_compositions_are_as_long_as_asked_and_name_each_kernel_once(family: Family) -> None:
    for number, made in enumerate(drawn(family, 40)):
        names = re.findall(r"^def (\w+)\(", made.code, re.MULTILINE)
        assert len(names) == len(set(names)), made.code
        assert made.operators == family.levels[number % len(family.levels)], made.task.source


@pytest.mark.parametrize("name", ["row_fusion", "input_chain"])
def test_chains_of_one_kernel_take_what_they_share_once(name: str) -> None:
    (family,) = chosen((name,))
    for made in drawn(family, 300):
        compile(made.code, made.task.id, "exec")  # an argument that stands twice is a SyntaxError


def test_weights_may_be_inputs_of_the_reference_and_of_its_kernel() -> None:
    (family,) = chosen(("linear_fusion",))
    freed = [
        made
        for made in drawn(family, 120)
        if re.search(r"def forward\(self, \w+[^)]*, weight\b", made.task.source)
    ]
    assert len(freed) > 4
    for made in freed:
        scope: dict[str, object] = {}
        exec(shapes.apply_shape(made.task.source, made.task.shapes["small"]), scope)
        model = scope["Model"](*scope["get_init_inputs"]())  # type: ignore[operator]
        assert not any("linear" in name for name, _ in model.named_parameters())
        assert model(*scope["get_inputs"]()).isfinite().all()  # type: ignore[operator]
        assert re.search(r"def forward\(self, [^)]*\bweight\b", made.code)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_small_references_run_and_are_not_constant(family: Family) -> None:
    flat = 0
    for made in drawn(family, 12):
        for sizes in made.task.shapes.values():
            scope: dict[str, object] = {}
            exec(shapes.apply_shape(made.task.source, sizes), scope)
            with torch.no_grad():
                out = scope["Model"](*scope["get_init_inputs"]())(*scope["get_inputs"]())  # type: ignore[operator]
            assert torch.isfinite(out).all(), made.task.source
            flat += out.numel() > 1 and bool(out.std() < 1e-3 * out.abs().max())
    assert flat <= 4
