"""Weights as inputs: what a design computes without its modules, and what its kernels are given."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from kernelwright import shapes
from kernelwright.data.families.freed import freed
from kernelwright.data.families.reference import Argument, write_reference
from kernelwright.data.families.spec import Design, Draw
from kernelwright.data.families.table import chosen, pair

FREED = (
    *("linear", "linear_fusion", "linear_chain", "conv1d", "conv2d_grouped", "conv2d_strided", "conv2d_depthwise", "conv2d_fusion"),
    *("conv2d_separable", "conv2d_pointwise", "conv3d_asymmetric", "conv3d_chain", "conv_transpose2d_chain"),
    *("conv_transpose1d", "conv_transpose3d_asymmetric", "conv_transpose2d", "layernorm", "groupnorm"),
    *("instancenorm", "batchnorm", "batchnorm_inference", "rmsnorm", "add_layernorm", "row_fusion"),
    *("embedding", "prelu", "input_chain"),
)  # fmt: skip
"""Families with weights of every kind."""


def designs(name: str, count: int = 30) -> list[tuple[Design, Design]]:
    """What is drawn and can be freed, with what it is then."""
    (family,) = chosen((name,))
    found = []
    for seed in range(count):
        draw = Draw(f"{name}{seed}", "k", family.levels[seed % len(family.levels)])
        design = family.draw(draw)
        if (other := freed(design, draw)) is not design:
            found.append((design, other))
    return found


def made(design: Design) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The reference, and its inputs by the names that the design has for them, at the small odd sizes."""
    arguments = [Argument(*given) for given in dict.fromkeys(given for op in design.ops for given in op.init)]
    inputs = list(dict.fromkeys(given for op in design.ops for given in op.inputs))
    source, sizes = write_reference(design, arguments, inputs, random.Random(0))
    scope: dict[str, Any] = {}
    exec(
        shapes.apply_shape(source, {sizes[name]: size.odd for name, size in design.sizes.items()}),
        scope,
    )
    torch.manual_seed(0)
    model = scope["Model"](*scope["get_init_inputs"]())
    return model, dict(zip([name for name, _ in inputs], scope["get_inputs"](), strict=True))


@pytest.mark.parametrize("name", FREED)
def test_a_freed_design_is_the_same_function_and_its_kernels_are_given_the_same(name: str) -> None:
    found = designs(name)
    assert found
    for design, other in found:
        model, given = made(design)
        freed, weighted = made(other)
        assert weighted.keys() > given.keys()
        weighted |= given
        for stage, new in zip(design.stages, other.stages, strict=True):
            for (parameter, before), (_, after) in zip(stage.takes, new.takes, strict=True):
                if "{x}" in before or not re.search(r"\bself\.", before):
                    assert after == before
                    continue
                old = eval(before, {"self": model})
                now = eval(after, {"self": freed, **weighted})
                if isinstance(old, torch.Tensor) and after.isidentifier():
                    assert (now.shape, now.dtype) == (old.shape, old.dtype), parameter
                    old.data.copy_(now)
                else:
                    assert now == old, parameter
        assert {n for n, _ in freed.named_parameters()} <= {n for n, _ in model.named_parameters()}
        with torch.no_grad():
            expected, got = model(*given.values()), freed(*weighted.values())
        torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def test_functions_are_called_in_many_ways() -> None:
    text = "\n".join(op.expression for name in FREED for _, freed in designs(name, 40) for op in freed.ops)
    for said in (
        r"F\.linear\(\{x\}, weight, bias\)",
        r"F\.linear\(\{x\}, weight, bias=bias\)",
        r"F\.conv2d\(\{x\}, weight\)",
        r"F\.conv2d\(\{x\}, conv_weight, ",
        r"F\.conv\dd\(.*, stride=\d, padding=\d",
        r"F\.conv3d\(.*, \(\d, \d, \d\)",
        r"self\.stride, self\.padding",
        r"groups=self\.channels",
        r"F\.conv_transpose2d\(.*output_padding=1",
        r"F\.layer_norm\(\{x\}, weight\.shape, weight, bias",
        r"F\.layer_norm\(\{x\}, \{x\}\.shape\[-3:\]",
        r"eps=1e-6",
        r"F\.group_norm\(\{x\}, self\.num_groups",
        r"F\.batch_norm\(\{x\}, None, None, weight, bias, training=True",
        r"F\.batch_norm\(\{x\}, running_mean, running_var, weight, bias, training=False",
        r"F\.instance_norm\(\{x\}, None, None, weight, bias\)",
    ):
        assert re.search(said, text), said


def test_arguments_that_nothing_reads_any_more_are_gone() -> None:
    for design, other in designs("conv2d_fusion"):
        names = {name for op in other.ops for name, _ in op.init}
        assert "kernel_size" not in names, design
        state = " ".join(line for op in other.ops for line in op.state)
        assert all(re.search(rf"\b{name}\b", state) for name in names)


def test_a_name_that_would_stand_for_two_things_keeps_the_weights() -> None:
    design, _ = designs("linear")[0]
    (op,) = design.ops
    taken = replace(
        op, state=(*op.state, "self.weight = linear_weight"), init=(*op.init, ("linear_weight", "2"))
    )
    taken = replace(taken, inputs=(*taken.inputs, ("weight", "torch.randn(1)")))
    assert freed(replace(design, ops=(op,)), Draw("a", "b")) is not design
    design = replace(design, ops=(taken,))
    assert freed(design, Draw("a", "b")) is design


def test_weights_are_drawn_as_large_as_they_should_be() -> None:
    (family,) = chosen(("conv2d_chain",))
    drawn = [pair(family, str(seed), "k", 3) for seed in range(80)]
    found = [text for one in drawn if (text := re.search(r"= (torch\.randn\(.*\) / .*)", one.task.source))]
    assert found
    for text in found:
        sizes = {name: 4 for name in re.findall(r"\b[A-Za-z_]\w*\b", text[1])} | {"torch": torch}
        weight = eval(text[1], {}, sizes)
        assert 0.5 < weight.std() * weight[0].numel() ** 0.5 < 2
