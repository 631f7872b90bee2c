"""Groups: one contraction or a chain of reductions, each with its maps; together they compute the graph."""

import random
from typing import Any

import pytest
import torch
from graph.building import Builder, attention_block, linear, rms_norm, values_of

from kernelwright.graph import operators
from kernelwright.graph.capture import capture
from kernelwright.graph.execute import execute
from kernelwright.graph.partition import Group, Left, Partition, part_of, partition
from kernelwright.graph.shrink import shrink
from kernelwright.graph.stitch import stitch
from kernelwright.graph.types import Argument, DtypeArg, Graph, Node, Ref, Size, Symbol, TensorType, Value


def shown(found: Partition) -> list[str]:
    """Groups by their operators, calls left to ATen in brackets."""
    return [
        step.operators if isinstance(step, Group) else f"[{operators.packet(step.nodes[-1].op)}]"
        for step in found.steps
    ]


def played(found: Partition, values: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """The whole graph's results, computed step by step."""
    known = dict(values)
    for step in found.steps:
        if isinstance(step, Left):
            names = [v.name for node in step.nodes for v in node.outputs if v is not None]
            reads = dict.fromkeys(n for node in step.nodes for n in node.refs() if n not in names)
            types = found.graph.types()
            from kernelwright.graph.types import Argument

            part = Graph(
                arguments=tuple(Argument(name=n, type=types[n]) for n in reads),
                nodes=step.nodes,
                results=tuple(names),
            )
            known.update(zip(names, execute(part, [known[n] for n in reads]), strict=True))
        else:
            made = execute(step.graph, [known[name] for name in step.inputs])
            known.update(zip(step.outputs, made, strict=True))
    return [known[name] for name in found.graph.results]


def agrees(graph: Graph) -> None:
    """Assert that the parts compute the whole, each group obeys the rules, and merging gives the graph back."""
    found, values = partition(graph), values_of(graph)
    for ours, whole in zip(played(found, values), execute(graph, values), strict=True):
        torch.testing.assert_close(ours, whole)
    for group in found.groups:
        parts = [part_of(node) for node in group.nodes]
        assert parts.count("contraction") <= 1
        assert "other" not in parts
    merged = found.merged()
    assert partition(merged).steps == found.steps
    assert set(merged.nodes) <= set(graph.nodes)


def test_maps_after_a_product_belong_to_it() -> None:
    b = Builder()
    x = b.input(8, 16)
    h = b.op("aten.gelu.default", linear(b, x, 16, 32))
    y = b.op("aten.mul.Tensor", linear(b, h, 32, 16), 0.5)
    graph = b.graph(b.op("aten.add.Tensor", y, x))
    assert shown(partition(graph)) == ["linear+gelu", "linear+mul+add"]
    agrees(graph)


def test_a_norm_by_hand_is_one_group() -> None:
    b = Builder()
    graph = b.graph(rms_norm(b, b.input(8, 16), 16))
    assert shown(partition(graph)) == ["pow+mean+add+rsqrt+mul"]
    agrees(graph)


def test_reductions_over_the_same_axes_form_a_chain_and_others_do_not() -> None:
    b = Builder()
    x = b.input(4, 8, 16)
    soft = b.op("aten._softmax.default", x, -1, False)
    again = b.op("aten.sum.dim_IntList", soft, (-1,), True)
    other = b.op("aten.sum.dim_IntList", soft, (0,), True)
    graph = b.graph(again, other)
    assert shown(partition(graph)) == ["softmax+sum", "sum"]
    agrees(graph)


def test_the_same_layer_twice_is_one_group_to_write() -> None:
    b = Builder()
    x = b.input(2, 8, 32)
    for _ in range(3):
        x = attention_block(b, x, 2, 8, 32, 4)
    found = partition(b.graph(x))
    assert len(found.groups) == 3 * 10
    assert len(found.distinct()) <= 7
    assert sum(map(len, found.distinct().values())) == len(found.groups)
    agrees(b.graph(x))


def test_views_are_made_anew_by_who_reads_them() -> None:
    b = Builder()
    x = b.input(2, 6)
    parts = b.op("aten.split.Tensor", x, 3, 1)
    y = b.op("aten.mul.Tensor", b.op("aten.sigmoid.default", parts[0]), parts[1])
    graph = b.graph(b.op("aten.t.default", y))
    found = partition(graph)
    assert shown(found) == ["sigmoid+mul", "[t]"]
    assert found.groups[0].inputs == ("a0",)
    agrees(graph)


def test_random_numbers_stay_with_aten() -> None:
    b = Builder()
    x = b.input(8, 16)
    kept = b.op("aten.native_dropout.default", b.op("aten.relu.default", x), 0.5, True)
    graph = b.graph(b.op("aten.tanh.default", kept[0]))
    assert shown(partition(graph)) == ["relu", "[native_dropout]", "tanh"]


def test_what_reads_no_tensor_stays_with_aten() -> None:
    b = Builder()
    x = b.input(4)
    steps = b.op("aten.exp.default", b.op("aten.arange.default", 4))
    graph = b.graph(
        b.op(
            "aten.mm.default",
            b.op("aten.reshape.default", x, (1, 4)),
            b.op("aten.reshape.default", steps, (4, 1)),
        )
    )
    assert shown(partition(graph)) == ["[exp]", "mm"]
    agrees(graph)


def test_a_cast_for_one_product_belongs_to_it() -> None:
    b = Builder()
    x, w = b.input(8, 16, dtype="bfloat16"), b.weight(4, 16)
    low = b.op("aten._to_copy.default", w, dtype=DtypeArg(dtype="bfloat16"))
    graph = b.graph(b.op("aten.linear.default", x, low))
    assert shown(partition(graph)) == ["to_copy+linear"]
    agrees(graph)


def test_scales_that_one_group_reads_are_made_in_it() -> None:
    b = Builder()
    x, variance = b.input(64, 16), b.weight(16)
    scale = b.op("aten.sigmoid.default", b.op("aten.add.Tensor", variance, 1.0))
    product = b.op("aten.mm.default", x, b.weight(16, 16))
    graph = b.graph(b.op("aten.relu.default", b.op("aten.mul.Tensor", product, scale)))
    assert shown(partition(graph)) == ["add+sigmoid+mm+mul+relu"]
    agrees(graph)
    kept = b.graph(b.op("aten.relu.default", b.op("aten.mul.Tensor", product, scale)), scale)
    assert shown(partition(kept))[0] == "add+sigmoid"
    agrees(kept)


def test_no_two_groups_wait_for_each_other() -> None:
    b = Builder()
    x = b.input(8, 8)
    a = b.op("aten.relu.default", x)
    product = linear(b, a, 8, 8)
    graph = b.graph(b.op("aten.add.Tensor", a, product))
    assert shown(partition(graph)) == ["relu", "linear+add"]
    agrees(graph)


def test_pooling_opens_a_group() -> None:
    b = Builder()
    x = b.input(2, 3, 8, 8)
    made = b.op(
        "aten.convolution.default", x, b.weight(4, 3, 3, 3), None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1
    )
    pooled = b.op("aten.avg_pool2d.default", b.op("aten.relu.default", made), (2, 2))
    graph = b.graph(b.op("aten.sigmoid.default", pooled))
    assert shown(partition(graph)) == ["convolution+relu", "avg_pool2d+sigmoid"]
    agrees(graph)


def test_a_value_that_nobody_reads_is_left_out() -> None:
    b = Builder()
    x = b.input(4)
    b.op("aten.exp.default", x)
    graph = b.graph(b.op("aten.relu.default", x))
    assert shown(partition(graph)) == ["relu"]


@pytest.mark.parametrize("seed", range(25))
def test_any_graph_comes_back_from_its_groups(seed: int) -> None:
    agrees(drawn(random.Random(seed)))


def drawn(rng: random.Random) -> Graph:
    """Operators of every kind on 8 x 8 values in random order."""
    b = Builder()
    known: list[Ref] = [b.input(8, 8), b.input(8, 8)]
    for _ in range(rng.randint(3, 25)):
        x, y = rng.choice(known), rng.choice(known)
        made = rng.choice([
            lambda x=x, y=y: b.op("aten.add.Tensor", x, y),
            lambda x=x: b.op("aten.tanh.default", x),
            lambda x=x, y=y: b.op("aten.mm.default", x, y),
            lambda x=x: linear(b, x, 8, 8),
            lambda x=x: b.op("aten.t.default", x),
            lambda x=x: b.op("aten._softmax.default", x, rng.choice([0, 1]), False),
            lambda x=x: b.op("aten.expand.default", b.op("aten.amax.default", x, (rng.choice([0, 1]),), True), (8, 8)),
            lambda x=x: rms_norm(b, x, 8),
            lambda x=x, y=y: b.op("aten.slice.Tensor", b.op("aten.cat.default", (x, y), 1), 1, 4, 12),
            lambda x=x: b.op("aten.sort.default", x)[0],
            lambda x=x: b.op("aten.sub.Tensor", x, b.op("aten.mean.dim", x, (1,), True)),
        ])()  # fmt: skip
        known.append(made)
    return b.graph(*rng.sample(known, k=rng.randint(1, 3)))


def test_a_group_is_given_the_sizes_that_what_it_reads_does_not_tell() -> None:
    heads, size = Symbol(name="s0", hint=4), Symbol(name="s1", hint=8)
    x = Argument(name="x", type=TensorType(dtype="float32", shape=(2, "s0*s1")))
    w = Argument(name="w", type=TensorType(dtype="float32", shape=("s0", "s1")))
    apart = TensorType(dtype="float32", shape=(2, "s0", "s1"))
    view = Node(
        op="aten.reshape.default",
        args=(Ref(ref="x"), (2, Size(size="s0"), Size(size="s1"))),
        outputs=(Value(name="v", type=apart),),
    )
    y = Node(op="aten.relu.default", args=(Ref(ref="v"),), outputs=(Value(name="y", type=apart),))
    whole = partition(Graph(arguments=(x, w), nodes=(view, y), results=("y",), symbols=(heads, size)))
    (group,) = whole.groups
    assert group.inputs == ("x", "s0", "s1")
    assert [one.name for one in group.graph.arguments] == ["x0", "s0", "s1"]
    value = torch.randn(2, 32)
    (made,) = execute(group.graph, [value, 4, 8])
    torch.testing.assert_close(made, value.view(2, 4, 8).relu())
    text = stitch(
        whole,
        {
            group.graph.digest: "import torch\n\n\ndef kernel(x, s0, s1):\n    return x.view(2, s0, s1).relu()\n"
        },
    )
    space: dict[str, Any] = {}
    exec(text, space)
    torch.testing.assert_close(space["run"](value, torch.empty(4, 8))[0], made)


class Windows(torch.nn.Module):
    """Two layers on windows of an image whose tokens lie in a line: no weight tells a window's sides."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(12) for _ in range(2))
        self.mixers = torch.nn.ModuleList(torch.nn.Linear(12, 12) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.sigmoid().flatten(1, 2)
        for norm, mix in zip(self.norms, self.mixers, strict=True):
            y = norm(x).view(3, 8, 4, 2, 4, 12).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 12)
            y = mix(y.softmax(-2)).tanh()
            x = x + y.view(3, 8, 2, 4, 4, 12).permute(0, 1, 3, 2, 4, 5).reshape(3, 256, 12)
        return x


def test_sizes_that_groups_take_as_numbers_are_named_by_place_too() -> None:
    module = Windows().eval()
    x = torch.randn(3, 32, 8, 12)
    part = capture(module, [x], breaks=False).part
    graph = shrink(part.graph, part.arguments).graph
    found = partition(graph)
    hints = {one.name: one.hint for one in graph.symbols}
    known: dict[str, Any] = {**part.arguments, **hints}
    for step in found.steps:
        assert isinstance(step, Group)
        known |= zip(step.outputs, execute(step.graph, [known[one] for one in step.inputs]), strict=True)
    torch.testing.assert_close(known[graph.results[0]], module(x))
    groups = [group for group in found.groups if group.operators == "softmax"]
    assert [one.name for one in groups[0].graph.arguments] == ["x0", "s1", "s2"]
    assert {*groups[0].inputs[1:]} < {*hints}
    assert len(groups) == 2
    assert groups[0].graph.digest == groups[1].graph.digest
