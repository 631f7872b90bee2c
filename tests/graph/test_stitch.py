"""Stitching: names do not clash, the file computes the graph, and the same input gives the same bytes."""

from typing import Any

import pytest
import torch
from graph.building import Builder, attention_block, linear, values_of

from kernelwright.errors import UserError
from kernelwright.graph.capture import capture
from kernelwright.graph.execute import execute
from kernelwright.graph.partition import alone, partition
from kernelwright.graph.stitch import Entry, candidate, number_names, state_of, stitch
from kernelwright.graph.types import Graph

KERNEL = '''"""A kernel."""
import torch
import math

BLOCK = 64
FACTOR = BLOCK * 2


def helper(x, BLOCK=BLOCK):
    # helper is not renamed here, nor is "helper"
    return x * BLOCK


def kernel(x, w):
    FACTOR = [BLOCK for BLOCK in range(3)]
    made = helper(x, BLOCK=BLOCK)
    return made + len(FACTOR) + math.pi
'''


def loaded(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(compile(text, "stitched", "exec"), found)
    return found


def block() -> Graph:
    b = Builder()
    x = b.input(2, 8, 32)
    for _ in range(2):
        x = attention_block(b, x, 2, 8, 32, 4)
    return b.graph(x, name="blocks")


def by_aten(graph: Graph) -> dict[str, str]:
    """A kernel for each group: its ATen calls."""
    return {
        digest: stitch(partition(groups[0].graph), {})
        .replace("def run", "def kernel")
        .replace("return (", "return _one(")
        + "\n\ndef _one(*made):\n    return made if len(made) > 1 else made[0]\n"
        for digest, groups in partition(graph).distinct().items()
    }


def test_names_of_a_kernel_are_told_apart_by_scope() -> None:
    imports, text = number_names(KERNEL, 7)
    assert imports == ["import torch", "import math"]
    assert "def helper_7(x, BLOCK=BLOCK_7):" in text
    assert "return x * BLOCK\n" in text
    assert "FACTOR_7 = BLOCK_7 * 2" in text
    assert "FACTOR = [BLOCK for BLOCK in range(3)]" in text
    assert "made = helper_7(x, BLOCK=BLOCK_7)" in text
    assert loaded("import math\n" + text)["kernel_7"](1.0, None) == pytest.approx(67 + torch.pi)


@pytest.mark.parametrize("with_kernels", [False, True], ids=["aten only", "a kernel a group"])
def test_the_file_runs_as_the_graph_does(with_kernels: bool) -> None:
    graph = block()
    kernels = by_aten(graph) if with_kernels else {}
    text = stitch(partition(graph), kernels)
    assert text.count("def kernel_") == len(kernels)
    values = values_of(graph)
    ours = loaded(text)["run"](**values)
    for mine, whole in zip(ours, execute(graph, values), strict=True):
        torch.testing.assert_close(mine, whole)


def test_the_same_input_gives_the_same_bytes() -> None:
    assert stitch(partition(block()), by_aten(block())) == stitch(partition(block()), by_aten(block()))


def test_a_kernel_for_some_groups_leaves_the_others_to_aten() -> None:
    graph = block()
    one = dict(list(by_aten(graph).items())[:1])
    text = stitch(partition(graph), one, notes=dict.fromkeys(one, "compiler"))
    assert "# 1: pow+mean+add+rsqrt+mul, 4 times (compiler)" in text
    assert "torch.nn.functional.linear(" in text


def test_groups_with_the_same_text_share_it() -> None:
    graph = block()
    first, *others = partition(graph).distinct()
    text = stitch(
        partition(graph), {first: KERNEL, others[0]: KERNEL, others[1]: KERNEL + "\n# another\nX = 1\n"}
    )
    assert text.startswith('"""blocks: 2 kernels."""')
    assert text.count("def kernel_") == 2
    assert text.count(" = kernel_1(") == sum(
        map(len, (partition(graph).distinct()[one] for one in (first, others[0])))
    )


def test_the_module_has_the_state_of_the_one_that_was_captured() -> None:
    b = Builder()
    x = b.input(4, 8)
    w, bias = b.weight(6, 8, origin="net.0.weight"), b.weight(6, origin="net.0.bias")
    gain = b.input(6, role="buffer", origin="gain")
    graph = b.graph(b.op("aten.mul.Tensor", b.op("aten.linear.default", x, w, bias), gain))
    module = loaded(stitch(partition(graph), {}, state=state_of(graph), name="Net"))["ModelNew"](3, "unused")
    assert {name: tuple(one.shape) for name, one in module.state_dict().items()} == {
        "net.0.weight": (6, 8), "net.0.bias": (6,), "gain": (6,),
    }  # fmt: skip
    assert sorted(name for name, _ in module.named_parameters()) == ["net.0.bias", "net.0.weight"]
    values = values_of(graph)
    module.load_state_dict({one.origin: values[one.name] for one in graph.arguments if one.origin})
    torch.testing.assert_close(module(values["a0"]), execute(graph, values)[0])


def test_the_module_writes_to_its_buffers_and_inputs_what_the_captured_one_does() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            self.total += rows.relu_().sum(0)
            return rows * self.total

    graph = capture(Counting(), (torch.randn(2, 3),)).graph
    module = loaded(stitch(partition(graph), {}, state=state_of(graph)))["ModelNew"]()
    other, x, y = Counting(), torch.arange(-3.0, 3.0).reshape(2, 3), torch.arange(-3.0, 3.0).reshape(2, 3)
    for _ in range(2):
        torch.testing.assert_close((module(rows=x), x, module.total), (other(y), y, other.total))


def test_no_module_is_written_around_a_buffer_that_no_state_dict_has() -> None:
    """Its values would be zeros."""

    class Angles(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("inv_freq", 10.0 ** -torch.arange(4.0), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.inv_freq).cos()

    graph = capture(Angles(), (torch.randn(3, 4),)).graph
    with pytest.raises(UserError, match="no state_dict has"):
        stitch(partition(graph), {}, state=state_of(graph))


def test_a_state_may_have_names_that_the_graph_does_not_read() -> None:
    b = Builder()
    graph = b.graph(linear(b, b.input(4, 8), 8, 8))
    state = (*state_of(graph), Entry("steps", (), "int64", False))
    module = loaded(stitch(partition(graph), {}, state=state))["ModelNew"]()
    assert module.state_dict()["steps"].dtype is torch.int64


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def kernel(:", "is not Python"),
        ("x = 1", r"defines no kernel\(...\)"),
    ],
)
def test_what_is_no_kernel_is_refused(code: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        number_names(code, 1)


def test_a_tensor_that_no_state_dict_has_is_refused_in_benchmark_form() -> None:
    b = Builder()
    graph = b.graph(b.op("aten.mul.Tensor", b.input(4), b.input(4, role="constant", origin="lifted_0")))
    stitch(partition(graph), {})
    with pytest.raises(UserError, match="register them as buffers"):
        stitch(partition(graph), {}, state=state_of(graph))


def test_a_whole_graph_may_be_one_group() -> None:
    graph = block()
    whole = alone(graph)
    digest = whole.groups[0].graph.digest
    text = stitch(whole, {digest: by_aten_of(whole.groups[0].graph)})
    values = values_of(graph)
    model = loaded(candidate(text, graph, "run"))["ModelNew"]()
    torch.testing.assert_close(model(*values.values()), execute(graph, values)[0])


def by_aten_of(graph: Graph) -> str:
    return candidate(stitch(partition(graph), {}), graph, "run") + (
        "\n\ndef kernel(*given):\n    return ModelNew()(*given)\n"
    )


def test_a_kernel_is_a_candidate_with_a_module_behind() -> None:
    b = Builder()
    graph = b.graph(b.op("aten.relu.default", b.input(4)))
    text = candidate("import torch\n\n\ndef kernel(x0):\n    return x0.relu()\n", graph)
    assert text.startswith("import torch\nimport torch.nn as nn\n")
    assert loaded(text)["ModelNew"]()(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    "head",
    ["import torch, math\n", '"""Ours."""\n\nfrom __future__ import annotations\n\nfrom torch import relu\n'],
)
def test_a_kernel_may_import_torch_in_any_way(head: str) -> None:
    b = Builder()
    graph = b.graph(b.op("aten.relu.default", b.input(4)))
    text = candidate(f"{head}\n\ndef kernel(x0):\n    return x0.relu()\n", graph)
    assert loaded(text)["ModelNew"]()(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
