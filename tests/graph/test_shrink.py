"""Shrinking finds a captured graph's free sizes; at their hints it is the captured graph; small sets run and differ."""

from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from modules import Decoder, examples

from kernelwright.graph import sizes
from kernelwright.graph.capture import capture
from kernelwright.graph.dims import Expr, Unknowns
from kernelwright.graph.execute import execute
from kernelwright.graph.shrink import counted_to, cut_into, generalise, scaled_by, shrink, terms_of
from kernelwright.graph.task import to_task
from kernelwright.graph.types import Graph, TensorType
from kernelwright.shapes import apply_shape

EXAMPLES = examples()


def shape(graph: Graph, name: str) -> tuple[Any, ...]:
    kind = graph.types()[name]
    assert isinstance(kind, TensorType)
    return kind.shape


def general(function: Any, *args: Any) -> Graph:
    graph = capture(function, args).graph
    made = generalise(graph)
    assert sizes.static(made, {}) == graph
    return made


@pytest.mark.parametrize("name", EXAMPLES)
def test_at_its_hints_it_is_the_captured_graph_and_small_sets_run(name: str) -> None:
    module, args = EXAMPLES[name]
    part = capture(module, args).part
    small = shrink(part.graph, part.arguments)
    assert sizes.static(small.graph, {}) == part.graph
    assert set(small.shapes) - {"small_even"} == {"small", "small_odd"}
    assert small.shapes["small"] != small.shapes["small_odd"]
    task = to_task(small.graph, "graph/x", values=part.arguments, shapes=small.shapes)
    made: dict[str, Any] = {}
    for shapes in task.shapes.values():
        exec(apply_shape(task.source, shapes), made)
        given = made["get_inputs"]()
        lower = {key.lower(): size for key, size in shapes.items()}
        expected = execute(sizes.static(small.graph, lower), given)
        found = made["Model"]()(*given)
        torch.testing.assert_close(list(found) if isinstance(found, tuple) else [found], list(expected))


FREE = {
    "decoder": 7,
    "vit": 6,
    "convnext": 5,
    "bottleneck": 7,
    "swin": 9,
    "gru": 3,
    "diffusion": 7,
    "language": 5,
    "einsum": 7,
}
"""Sizes that may vary. Decoder: batch, sequence, width, half of a head, kv heads, heads per kv head, hidden size, and
the size of a value's head."""


@pytest.mark.parametrize("name", FREE)
def test_the_free_sizes_are_found(name: str) -> None:
    module, args = EXAMPLES[name]
    assert len(generalise(capture(module, args).graph).symbols) >= FREE[name]


def test_a_decoder_at_real_sizes_shrinks() -> None:
    with torch.device("cpu"):
        module, x = Decoder(512, 8, 2, 1376).bfloat16().eval(), torch.randn(2, 64, 512, dtype=torch.bfloat16)
    part = capture(module, (x,)).part
    small = shrink(part.graph, part.arguments)
    elements = [
        torch.Size(kind.shape).numel()
        for kind in sizes.static(small.graph, small.shapes["small"]).types().values()
    ]
    assert sum(elements) < 300_000
    assert all(small.shapes["small"][one.name] < one.hint for one in small.graph.symbols if one.hint > 4)


def test_heads_and_their_size_are_two_sizes() -> None:
    graph = general(lambda x: x.view(2, 5, 4, 8).transpose(1, 2), torch.randn(2, 5, 32))
    assert shape(graph, "x1") == ("s0", "s1", "s2*s3")
    assert shape(graph, graph.results[0]) == ("s0", "s2", "s1", "s3")


def test_sizes_that_are_tied_are_one() -> None:
    graph = capture(lambda x, y: x @ y, (torch.randn(6, 8), torch.randn(8, 6))).graph
    first, second = (one.name for one in graph.arguments)
    assert len(generalise(graph).symbols) == 3
    made = generalise(graph, ties=[[(first, 0), (second, 1)]])
    assert shape(made, first) == tuple(reversed(shape(made, second)))


def test_what_scales_by_the_root_of_a_size_is_found() -> None:
    graph = capture(lambda x, y: x @ y.T / x.shape[-1] ** 0.5, (torch.randn(6, 16), torch.randn(5, 16))).graph
    first, second = (one.name for one in graph.arguments)
    assert scaled_by(graph) == [(first, 1), (second, 1)]
    assert shape(generalise(graph, scaled_by(graph)), first)[1] == 16


def test_what_is_counted_to_by_a_number_stays() -> None:
    def lengths(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        place = (torch.arange(x.shape[0])[:, None] >= ends[1:]).sum(-1)
        return (place == torch.arange(ends.shape[0] - 1)[:, None]).float() @ x

    graph = capture(lengths, (torch.randn(24, 8), torch.arange(0, 25, 4))).graph
    _, ends = (one.name for one in graph.arguments)
    assert counted_to(graph) == [(ends, 0)]
    made = generalise(graph, counted_to(graph))
    assert shape(made, ends) == (7,)
    (rows, drawn) = (one.name for one in graph.arguments)
    assert cut_into(graph, {drawn: torch.arange(0, 25, 4)}) == [(rows, 0)]
    assert not cut_into(graph, {drawn: torch.arange(0, 28, 4)[torch.randperm(7)]})
    assert len(made.symbols) == 2
    assert not counted_to(capture(lambda x: x + torch.arange(x.shape[1]), (torch.randn(6, 8),)).graph)


def test_halves_make_a_size_even() -> None:
    graph = general(lambda x: torch.cat((-x[..., 8:], x[..., :8]), -1), torch.randn(3, 16))
    assert shape(graph, "x1") == ("s0", "2*s1")
    assert shape(graph, graph.results[0]) == ("s0", "2*s1")


def test_a_few_elements_cut_off_stay_a_few() -> None:
    graph = general(lambda x: x[:, 1:] - x[:, :-1], torch.randn(3, 16))
    assert shape(graph, "x1") == ("s0", "s1")
    assert shape(graph, graph.results[0]) == ("s0", "s1 - 1")


def test_sums_are_kept() -> None:
    graph = general(
        lambda x, y, w: F.linear(torch.cat((x, y), -1), w),
        torch.randn(3, 6),
        torch.randn(3, 10),
        torch.randn(7, 16),
    )
    assert shape(graph, "x3") == ("s3", "s1 + s2")


def test_uneven_parts_are_sizes_of_their_own() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        q, k, v = F.linear(x, w).split((32, 8, 8), -1)
        return q.unflatten(-1, (4, 8)).mean(-2) * k + v

    graph = general(function, torch.randn(3, 6), torch.randn(48, 6))
    assert len(graph.symbols) == 4


def test_one_product_is_tried_at_sizes_that_divide_by_tiles_where_the_full_ones_do() -> None:
    graph = capture(nn.Linear(1024, 320), (torch.randn(3, 577, 1024),)).part.graph
    small = shrink(graph)
    depth = small.graph.arguments[0].type
    assert isinstance(depth, TensorType)
    assert small.shapes["small_even"][str(depth.shape[-1])] == 128
    assert "small_even" not in shrink(capture(nn.LayerNorm(64), (torch.randn(3, 64),)).part.graph).shapes


def test_strides_make_multiples() -> None:
    graph = general(nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.randn(2, 3, 16, 15))
    assert shape(graph, "x1")[2:] == ("2*s2", "2*s3 + 1")
    assert shape(graph, graph.results[0])[2:] == ("s2", "s3 + 1")


def test_depthwise_groups_follow_the_channels_and_others_do_not() -> None:
    depthwise = nn.Conv1d(6, 6, 3, groups=6)
    pair = general(nn.Sequential(depthwise, nn.Conv1d(6, 4, 1)), torch.randn(2, 6, 9))
    assert shape(pair, "x1") == ("s0", "s1", "s2")
    alone = general(depthwise, torch.randn(2, 6, 9))
    assert shape(alone, "x1") == ("s0", "s1", "s2")
    twice = general(nn.Conv1d(6, 12, 3, groups=6), torch.randn(2, 6, 9))
    assert shape(twice, "x1") == ("s0", 6, "s1")
    grouped = general(nn.Conv1d(6, 4, 3, groups=2), torch.randn(2, 6, 9))
    assert shape(grouped, "x1")[1] == "2*s1"


def test_things_told_apart_by_index_stay_as_many() -> None:
    graph = general(lambda x: x[0] + x[1] * x[2], torch.randn(3, 16))
    assert shape(graph, "x1")[0] == 3


def test_a_scalar_made_of_a_size_stays() -> None:
    graph = general(lambda q, k: (q @ k.mT) / q.shape[-1] ** 0.5, torch.randn(5, 16), torch.randn(7, 16))
    assert shape(graph, "x1")[1] == "s1"
    assert graph.nodes[-1].args[1] == 4.0


def test_permuted_memory_keeps_its_strides() -> None:
    graph = general(lambda x: x * 2, torch.randn(4, 6, 8).permute(0, 2, 1))
    assert graph.arguments[0].type.strides == ("s1*s2", 1, "s1")


def test_what_is_not_understood_keeps_its_numbers() -> None:
    graph = general(
        lambda x: F.fold(F.unfold(x, 3, padding=1), (8, 8), 3, padding=1), torch.randn(2, 4, 8, 8)
    )
    assert shape(graph, "x1") == (2, 4, 8, 8)


def test_unknowns_that_cannot_be_solved_are_pinned() -> None:
    known = Unknowns()
    a, b = known.fresh(6), known.fresh(4)
    c = known.fresh(24)
    known.unify(a * b, c)
    assert known.hint(c) == 24
    assert len(known.now(c).unknowns) == 2
    d, e = known.fresh(5), known.fresh(7)
    known.unify(d * d + e, known.fresh(8) * 4)
    assert known.now(d).constant == 5
    assert isinstance(known.now(d), Expr)


RULES: dict[str, tuple[Any, tuple[torch.Tensor, ...], int]] = {
    "prelu": (lambda x, w: F.prelu(x, w), (torch.randn(2, 12, 10), torch.rand(12)), 3),
    "windows": (lambda x: x.unfold(1, 4, 2).sum(-1), (torch.randn(3, 20),), 2),
    "patches": (lambda x: F.unfold(x, 3, stride=2, padding=1), (torch.randn(2, 6, 16, 20),), 4),
    "grid": (lambda x, g: F.grid_sample(x, g), (torch.randn(2, 6, 9, 10), torch.rand(2, 7, 8, 2)), 6),
    "nearest": (
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest-exact"),
        (torch.randn(2, 6, 9, 10),),
        4,
    ),
    "ceil": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), (torch.randn(2, 6, 16, 21),), 4),
    "instance norm": (lambda x: F.instance_norm(x), (torch.randn(2, 6, 16, 20),), 4),
}


def test_what_is_put_or_gathered_has_the_sizes_of_where() -> None:
    places = torch.tensor([0, 2, 1, 3, 3])
    put = general(
        lambda x, at, y: x.index_put([at], y, accumulate=True), torch.zeros(6, 4), places, torch.randn(5, 4)
    )
    assert shape(put, "x1")[1] == shape(put, "x3")[1]
    assert shape(put, "x2")[0] == shape(put, "x3")[0]
    read = general(
        lambda x, at: x.gather(1, at), torch.randn(5, 7), places[:, None].expand(5, 3).contiguous()
    )
    assert shape(read, "x1")[0] == shape(read, "x2")[0]
    added = general(lambda x, at, y: x.scatter_add(0, at, y), torch.zeros(9), places, torch.randn(5))
    assert shape(added, "x2") == shape(added, "x3") != shape(added, "x1")


@pytest.mark.parametrize("name", RULES)
def test_these_operators_leave_their_sizes_free(name: str) -> None:
    function, given, free = RULES[name]
    part = capture(function, given).part
    small = shrink(part.graph, part.arguments)
    assert len(small.graph.symbols) >= free
    assert set(small.shapes) - {"small_even"} == {"small", "small_odd"}


def test_several_products_are_tried_at_sizes_that_divide_by_tiles_where_the_full_ones_do() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = nn.Linear(512, 512), nn.Linear(512, 300)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            heads = self.into(x).unflatten(-1, (8, 64)).transpose(1, 2)
            return self.out((heads @ heads.mT @ heads).transpose(1, 2).flatten(2))

    small = shrink(capture(Heads(), (torch.randn(2, 128, 512),)).part.graph)
    even = sizes.static(small.graph, small.shapes["small_even"])
    linears = [shape(even, node.args[0].ref) for node in even.nodes if node.op == "aten.linear.default"]
    assert len(linears) == 2
    assert all(int(one[-1]) % 32 == 0 for one in linears)


class Rows(nn.Module):
    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.reshape(-1, x.shape[-1]) @ weight, -1)


def test_symbols_that_a_graph_has_already_keep_name_and_range() -> None:
    graph = capture(Rows(), (torch.randn(6, 96, 128), torch.randn(128, 160)), dynamic=True).part.graph
    assert graph.symbols
    own = {one.name: one for one in graph.symbols}
    small = shrink(graph)
    hints = {one.name: one.hint for one in small.graph.symbols if one.name not in own}
    assert own.keys() < {one.name for one in small.graph.symbols}
    assert set(own.values()) < set(small.graph.symbols)
    for more in (0, 1, 7):
        size = {name: one.hint + more for name, one in own.items()}
        assert sizes.static(small.graph, size | hints) == sizes.static(graph, size)
    assert {"small", "small_odd"} <= small.shapes.keys()


def test_a_size_that_is_no_sum_of_products_is_one_term() -> None:
    assert terms_of("2*s0*s1 - s1 + 3") == [(2, ("s0", "s1")), (1, ("s1",)), (3, ())]
    assert terms_of("(s1*s1 + s0) // max(2, s1)") == [(1, ("s1", "s0"))]


def test_the_terms_of_a_product_of_8_bit_integers_stay_as_many() -> None:
    args = tuple(torch.randint(-9, 9, shape, dtype=torch.int8) for shape in ((40, 64), (64, 48)))
    one, two = (node.type.shape for node in general(torch._int_mm, *args).arguments)
    assert one[1] == two[0] == 64
    assert isinstance(one[0], str)
    assert isinstance(two[1], str)


def test_a_size_from_which_a_number_was_made_keeps_its_value_and_others_shrink() -> None:
    """The rank of a quantile is a number in the graph."""

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return torch.quantile(x.flatten(1), 0.9, dim=1) * x.sum((1, 2))

    graph = capture(scaled, (torch.rand(64, 60, 50),)).graph
    assert [one.hint for one in generalise(graph).symbols] == [64, 60, 50]
    small = shrink(graph)
    assert [one.hint for one in small.graph.symbols] == [64]
    assert set(small.shapes) == {"small", "small_odd"}
