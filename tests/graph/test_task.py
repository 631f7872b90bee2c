"""A graph becomes a task in function form: its source runs alone, draws suitable inputs, and takes other sizes."""

from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from graph.building import Builder
from modules import Decoder, examples

from kernelwright.graph import sizes
from kernelwright.graph.agree import agree
from kernelwright.graph.capture import capture
from kernelwright.graph.draws import describe, index_bounds
from kernelwright.graph.execute import execute
from kernelwright.graph.shrink import generalise, running, shrink, with_symbols
from kernelwright.graph.task import to_task
from kernelwright.graph.text import to_text
from kernelwright.graph.types import Graph, TensorType
from kernelwright.records import Task
from kernelwright.shapes import apply_shape

EXAMPLES = examples()


def namespace(task: Task, shape: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {}
    exec(apply_shape(task.source, task.shapes[shape]) if shape else task.source, made)
    return made


def task_of(module: Any, args: tuple[Any, ...], **how: Any) -> Task:
    part = capture(module, args, **how).part
    return to_task(part.graph, "graph/test", values=part.arguments)


def outputs(made: dict[str, Any]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    torch.manual_seed(0)
    given = made["get_inputs"]()
    found = made["Model"](*made["get_init_inputs"]())(*given)
    return given, list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_text_runs_and_computes_what_the_graph_does(name: str) -> None:
    module, args = EXAMPLES[name]
    task = task_of(module, args)
    given, found = outputs(namespace(task))
    graph = Graph.model_validate_json(task.graph)
    assert [tuple(one.type.shape) for one in graph.arguments] == [tuple(one.shape) for one in given]
    torch.testing.assert_close(found, list(execute(graph, given)))
    assert all(bool(one.isfinite().all()) for one in found)


def test_symbols_become_constants_that_shape_sets_override() -> None:
    module, args = EXAMPLES["vit"]
    part = capture(module, args, dynamic=True).part
    task = to_task(part.graph, "graph/vit", values=part.arguments, shapes={"small": {"s0": 1, "s1": 5}})
    assert task.shapes["small"] == {"S0": 1, "S1": 5}
    assert outputs(namespace(task))[0][0].shape == (2, 17, 48)
    assert outputs(namespace(task, "small"))[1][0].shape == (1, 5, 48)


def test_bfloat16_arguments_are_drawn_in_bfloat16() -> None:
    task = task_of(Decoder().bfloat16().eval(), (torch.randn(2, 6, 64, dtype=torch.bfloat16),))
    assert task.dtype == "bfloat16"
    given, found = outputs(namespace(task))
    assert given[0].dtype == found[0].dtype == torch.bfloat16


def test_indices_are_bounded_by_what_they_index_and_weights_have_their_scale() -> None:
    module, args = EXAMPLES["language"]
    with torch.no_grad():
        module.head.weight.mul_(5.0)
        scale = float(module.head.weight.std())
    given, _ = outputs(namespace(task_of(module, args)))
    by_shape = {tuple(one.shape): one for one in given}
    ids = [one for one in given if one.dtype == torch.int64]
    assert all(int(one.min()) >= 0 and 50 < int(one.max()) < 101 for one in ids)
    assert 0.7 < float(by_shape[101, 32].std()) / scale < 1.5 or scale < 1.5


def test_variances_masks_and_distributions_stay_what_they_are() -> None:
    def function(x: torch.Tensor, p: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (x.log() * p).masked_fill(mask, 0.0)

    x, p = 0.5 + torch.rand(4, 8), torch.randn(4, 8).softmax(-1)
    given, _ = outputs(namespace(task_of(function, (x, p, torch.rand(4, 8) < 0.5))))
    assert float(given[0].min()) > 0
    torch.testing.assert_close(given[1].sum(-1), torch.ones(4))
    assert given[2].dtype == torch.bool
    batch = nn.BatchNorm2d(3).eval()
    given, _ = outputs(namespace(task_of(batch, (torch.randn(2, 3, 4, 4),))))
    assert (
        min(float(one.min()) for one in given if one.shape == (3,))
        < 0
        < max(float(one.min()) for one in given)
    )


@pytest.mark.parametrize("half", ["tril()", "triu(1)"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_one_half_of_ones_stays_one_so_that_a_softmax_has_no_row_without_any(
    half: str, dtype: torch.dtype
) -> None:
    mask = torch.ones(24, 24, dtype=dtype)
    mask = mask.tril() if half == "tril()" else mask.triu(1)
    part = capture(lambda x, mask: torch.where(mask > 0, x, -x), (torch.randn(24, 24), mask)).part
    drawn = describe(part.graph, part.arguments)[part.graph.arguments[1].name]
    assert torch.equal(drawn.draw(TensorType(dtype=str(dtype)[6:], shape=(24, 24))), mask)


def test_a_table_of_few_integers_is_written_out() -> None:
    table = torch.tensor([2, 0, 1])
    task = task_of(lambda x: x[:, table], (torch.randn(4, 3),))
    assert "torch.tensor([2, 0, 1], dtype=torch.int64)" in task.source


def test_channels_last_stays_channels_last() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    given, _ = outputs(namespace(task_of(lambda y: y * 2, (x,))))
    assert given[0].stride() == x.stride()


def test_the_printed_form_is_one_line_a_node() -> None:
    module, args = EXAMPLES["gru"]
    graph = capture(module, args).graph
    lines = to_text(graph).splitlines()
    assert len(lines) == len(graph.arguments) + len(graph.nodes) + 1
    assert lines[0] == "x1: f32[5,24]"
    assert "h1: f32[5,120] = linear(x1, w1, b1)" in lines
    assert lines[-1].startswith("return h")


def test_channels_last_of_free_sizes_is_drawn_channels_last() -> None:
    b = Builder()
    x = b.input(4, 16, 14, 14, dtype="bfloat16")
    graph = b.graph(b.op("aten.le.Scalar", x, 0))
    kind = TensorType(dtype="bfloat16", shape=(4, 16, 14, 14), strides=(3136, 1, 224, 16))
    strided = graph.model_copy(update={"arguments": (graph.arguments[0].model_copy(update={"type": kind}),)})
    small = shrink(strided)
    task = to_task(small.graph, "graph/test", shapes=small.shapes)
    for shape in ("", *task.shapes):
        (value,) = namespace(task, shape)["get_inputs"]()
        assert value.is_contiguous(memory_format=torch.channels_last)
        assert not value.is_contiguous()


def test_what_a_root_is_taken_of_is_drawn_positive() -> None:
    b = Builder()
    x, variance = b.input(64, 16), b.input(16)
    scale = b.op(
        "aten.reciprocal.default", b.op("aten.sqrt.default", b.op("aten.add.Tensor", variance, 1e-5))
    )
    task = to_task(b.graph(b.op("aten.mul.Tensor", x, scale)), "graph/test")
    values, drawn = namespace(task)["get_inputs"]()
    assert bool((drawn > 0).all())
    assert bool((values < 0).any())


def test_what_is_finite_for_positive_numbers_alone_is_drawn_positive() -> None:
    b = Builder()
    means = b.op("aten.mean.dim", b.input(64, 3), (1,))
    [drawn] = namespace(to_task(b.graph(b.op("aten.sqrt.default", means)), "graph/test"))["get_inputs"]()
    assert bool((drawn > 0).all())


def test_moments_of_zeros_are_drawn_from_zero_on_where_a_root_needs_it() -> None:
    def step(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return p - m.lerp(g, 0.1) / (v.mul(0.9).addcmul(g, g, value=0.1).sqrt() + 1e-8)

    args = (torch.randn(64), torch.randn(64), torch.zeros(64), torch.zeros(64))
    captured = capture(step, args)
    task = to_task(captured.graph, "graph/test", values=captured.part.arguments)
    drawn = namespace(task)["get_inputs"]()
    assert bool((drawn[3] >= 0).all())
    assert bool((drawn[1] < 0).any())


def test_ends_of_segments_are_drawn_in_order() -> None:
    def pooled(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        segment = torch.bucketize(torch.arange(x.shape[0]), ends, right=True)
        return torch.zeros(ends.shape[0]).index_add(0, segment, x)

    args = (torch.randn(24), torch.tensor([6, 9, 17, 24]))
    captured = capture(pooled, args)
    agree(captured.part)
    text = to_task(captured.graph, "t/pooled", values=captured.part.arguments).source
    assert "torch.tensor([6]), torch.randint(6, 25, (4 - 2,)).sort()[0], torch.tensor([24])" in text


def test_integers_that_any_operator_takes_are_drawn_at_random() -> None:
    captured = capture(lambda x, at: x * at, (torch.randn(4), torch.tensor([1, 2, 3, 4])))
    text = to_task(captured.graph, "t/times", values=captured.part.arguments).source
    assert "torch.randint(1, 5, (4,)" in text


def test_what_indexes_several_tables_is_bounded_by_the_smallest() -> None:
    def looked_up(at: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return F.embedding(at, a) + F.embedding(at, b) + F.embedding(at, c)

    part = capture(
        looked_up, (torch.tensor([0, 3]), torch.rand(6, 4), torch.rand(6, 4), torch.rand(6, 4))
    ).part
    graph = generalise(part.graph)
    rows = [graph.types()[name].shape[0] for name in ("x2", "x3", "x4")]  # type: ignore[union-attr]
    assert index_bounds(graph)["x1"] == f"min({', '.join(map(str, rows))})"


def test_indices_that_are_joined_are_all_bounded() -> None:
    def costs(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return x[:, torch.cat([a, b])]

    graph = generalise(capture(costs, (torch.rand(4, 9), torch.tensor([1, 8]), torch.tensor([0]))).graph)
    assert index_bounds(graph) == dict.fromkeys(("x2", "x3"), graph.types()["x1"].shape[1])  # type: ignore[union-attr]


def test_columns_of_one_table_are_drawn_below_their_ends() -> None:
    class Columns(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("begins", torch.tensor([0, 10, 17]))
            self.table = torch.nn.Embedding(21, 4)

        def forward(self, x: torch.Tensor) -> Any:
            return self.table(x + self.begins[None])

    part = capture(Columns(), (torch.randint(4, (8, 3)),)).part
    drawn = describe(part.graph, part.arguments)["x1"].draw(TensorType(dtype="int64", shape=(999, 3)))
    assert drawn.amin(0).tolist() == [0, 0, 0]
    assert drawn.amax(0).tolist() == [20, 10, 3]


def test_places_that_are_written_to_are_all_different_if_they_were() -> None:
    def kept(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor, also: torch.Tensor) -> torch.Tensor:
        return cache.index_copy(1, at, new)[:, also]

    places, read = torch.tensor([4, 5, 2]), torch.tensor([1, 3, 0])
    task = task_of(kept, (torch.rand(2, 6), places, torch.rand(2, 3), read))
    given, _ = outputs(namespace(task))
    assert "(torch.randperm(max(6, 3))[:3] % 6).to(torch.int64)" in task.source
    assert "torch.randint(0, 6, (3,)" in task.source
    assert given[1].unique().numel() == 3
    again = task_of(kept, (torch.rand(2, 6), torch.tensor([4, 4, 2]), torch.rand(2, 3), read))
    assert "randperm" not in again.source


def test_slots_and_rows_that_are_scattered_to_are_all_different_if_they_were() -> None:
    def paged(cache: torch.Tensor, slots: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        return cache.index_put((slots // 4, slots % 4), new)

    def spread(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).scatter(1, at, x)

    given, _ = outputs(namespace(task_of(paged, (torch.rand(5, 4), torch.tensor([19, 0, 7]), torch.rand(3)))))
    assert given[1].unique().numel() == 3
    rows = torch.stack([torch.randperm(9) for _ in range(4)])
    given, _ = outputs(namespace(task_of(spread, (torch.rand(4, 9), rows))))
    torch.testing.assert_close(given[1].sort(1)[0], torch.arange(9).expand(4, 9))


def test_labels_that_are_masked_before_they_pick_are_bounded() -> None:
    def picked(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        chosen = torch.where(b != -100, b, 0)
        return x.gather(1, a.masked_fill(a == -100, 0)) + x.gather(1, chosen)

    graph = capture(picked, (torch.rand(4, 9), torch.zeros(4, 2).long(), torch.ones(4, 2).long())).graph
    assert index_bounds(graph) == {"x2": 9, "x3": 9}


def test_an_index_to_which_a_number_is_added_ends_before_its_table_does() -> None:
    def gap(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return x[at + 2] - x[at]

    graph = capture(gap, (torch.rand(9), torch.tensor([1, 2]))).graph
    assert index_bounds(graph) == {"x2": 7}
    assert sizes.evaluate(index_bounds(generalise(graph))["x2"], {"s0": 5}) == 3


def test_an_index_behind_a_clamp_is_bounded_by_its_tables_and_may_be_missing() -> None:
    class Picked(torch.nn.Module):
        def forward(self, ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
            return torch.where(ids >= 0, table[ids.clamp(min=0)], 0.0)

    ids = torch.tensor([0, 5, -1, 2])
    graph = capture(Picked(), (ids, torch.randn(6))).graph
    given = {one.name: value for one, value in zip(graph.arguments, (ids, torch.randn(6)), strict=True)}
    drawn = describe(with_symbols(graph), given)[graph.arguments[0].name]
    assert drawn.text.startswith("torch.randint(-1, {bound}")
    assert str(drawn.bound).startswith("s")


def test_small_sizes_of_symbols_are_those_at_which_parts_are_not_empty() -> None:
    """`chunk(4)` of five elements has three parts."""

    def cut(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([one.sum() for one in x.split((x.shape[0] - 5, 2, 2, 1))])

    graph = capture(cut, (torch.randn(24),), dynamic=True).graph
    found = running(graph)
    assert found["small"].keys() == {one.name for one in graph.symbols}
    assert all(size >= 5 for size in found["small"].values())
