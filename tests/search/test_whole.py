"""Which groups of a whole share a kernel."""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from threading import Event
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from search.making import Judge, Prices, Says, graph, kernel, timing
from torch import nn

from kernelwright.errors import UserError
from kernelwright.graph import Graph
from kernelwright.graph.capture import capture
from kernelwright.graph.execute import execute
from kernelwright.graph.neighbours import rows
from kernelwright.graph.partition import Partition, partition
from kernelwright.graph.shrink import freed
from kernelwright.graph.sizes import evaluate
from kernelwright.graph.stitch import stitch
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Candidate, Task, Timing, Verdict
from kernelwright.search import whole
from kernelwright.search.cache import KernelCache
from kernelwright.search.cases import of_task
from kernelwright.search.rung import CannotWrite
from kernelwright.search.whole import (
    Settings,
    _alike,
    _for_all,
    _kind,
    _repeats,
    _Search,
    search_whole,
    shrunk,
    sizes_of,
)  # fmt: skip


def test_stages_of_a_network_share_kernels_and_their_widest_bounds() -> None:
    def stage(channels: int, more: int) -> list[nn.Module]:
        return [nn.Conv2d(channels, more, 3, 2, 1, bias=False), nn.BatchNorm2d(more), nn.ReLU()]

    net = nn.Sequential(*stage(3, 16), *stage(16, 24), *stage(24, 40)).eval()
    part = capture(net, [torch.randn(2, 3, 64, 64)], breaks=False).part
    graph, _ = shrunk(part.graph, part.arguments)
    groups = partition(graph).groups
    leasts = [max(one.least for one in group.graph.symbols) for group in groups]
    assert len(groups) == 3
    assert len({_kind(one.graph) for one in groups}) == 1
    assert len(set(leasts)) > 1
    assert max(one.least for one in _for_all(groups).symbols) == min(leasts)


class Steps(nn.Module):
    """A recurrent cell, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = x.new_zeros(x.shape[0], 12)
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
        return state


class Farthest(nn.Module):
    """Points that are farthest from those before, one by one, then layers of products."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        far = (x - x[:1]).square().sum(-1)
        for _ in range(5):
            far = torch.minimum(far, (x - x.index_select(0, far.argmax()[None])).square().sum(-1))
        return ((far[:, None] * x) @ x.mT) @ x


class Attention(nn.Module):
    """One block, whose groups are all different."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.RMSNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).sigmoid().chunk(3, -1)
        return x + self.out(torch.softmax(q @ k.mT, -1) @ v).tanh()


class Few(nn.Module):
    """Three layers of four groups, each of few operators: compiling each kind of group takes longer than compiling the whole."""

    def __init__(self) -> None:
        super().__init__()
        self.products = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for at in range(0, 12, 4):
            one, two, three, four = self.products[at : at + 4]
            x = three(two(one(x).relu()).tanh() + x).sigmoid() * x
            x = four(x).softmax(-1) + x
        return x


def test_a_stack_of_layers_is_told_from_a_recurrence_and_from_one_block() -> None:
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(12)))
    modules = [
        (Steps(), (3, 6, 8), False),
        (Farthest(), (9, 8), False),
        (Attention(), (3, 6, 8), False),
        (Few(), (3, 8), False),
        (layers, (3, 8), True),
    ]
    for module, shape, repeats in modules:
        part = capture(module.eval(), [torch.randn(shape)], breaks=False).part
        assert _repeats(partition(part.graph)) == repeats


class Accepts(Judge):
    """Accepts what is stitched, and no kernel of a group by itself."""

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        self.judged.append(candidate.code)
        stitched = candidate.code.count("def _kernel") + candidate.code.count("def run") > 0
        outcome = Outcome.CORRECT if stitched else Outcome.WRONG_VALUE
        future: Future[Verdict] = Future()
        future.set_result(
            Verdict(
                task_id=task.id, gate=Gate.TIMING, outcome=outcome, timing=timing(0.5) if stitched else None
            )
        )
        return future


@pytest.mark.parametrize("gpu", ["", "a GPU"])
def test_layers_are_stitched_and_judged_before_groups_are_searched(gpu: str) -> None:
    layer = [nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()]
    net = nn.Sequential(*[one for _ in range(18) for one in layer]).eval()
    part = capture(net, [torch.randn(4, 8)], breaks=False).part
    judge = Accepts()
    found = search_whole(
        part.graph, part.arguments, lambda: nullcontext(judge), lambda: [Says("library", kernel(1.0))],
        KernelCache(None), Settings(rungs=("library",), gpu=gpu),
    )  # fmt: skip
    assert found.answer is not None
    assert "def run" in judge.judged[0]


def test_kernels_of_the_dearest_kinds_are_judged_while_there_is_time_for_a_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(whole, "time", clock)

    class Slow(Says):
        def write(self, graph: Graph, sizes: Sequence[Any], seconds: float) -> str:
            clock.now += 30.0
            return super().write(graph, sizes, seconds)

    layers = [[nn.Linear(8, 8), nn.RMSNorm(8)] for _ in range(5)] + [
        [nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()] for _ in range(25)
    ]
    net = nn.Sequential(*[one for layer in layers for one in layer]).eval()
    part = capture(net, [torch.randn(4, 8)], breaks=False).part
    judge, rung = Accepts(), Slow("library", kernel(1.0))
    settings = Settings(70.0, rungs=("library",), contractions="auto")
    found = search_whole(
        part.graph, part.arguments, lambda: nullcontext(judge), lambda: [rung], KernelCache(None), settings
    )
    assert rung.asked == 1
    assert "def run" in judge.judged[0]
    assert [(row.count, row.rung) for row in found.rows if row.rung != "aten"] == [(25, "library")]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.product, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.product(self.norm(x))


@pytest.mark.parametrize(("contractions", "groups"), [("auto", "add+layer_norm"), ("own", "linear+add")])
def test_what_lies_between_two_products_is_one_group_where_products_stay_with_aten(
    contractions: Literal["auto", "own"], groups: str
) -> None:
    net = nn.Sequential(*(Residual() for _ in range(30))).eval()
    part = capture(net, [torch.randn(4, 8)], breaks=False).part
    found = search_whole(
        part.graph, part.arguments, lambda: nullcontext(Accepts()), lambda: [Says("library", kernel(1.0))],
        KernelCache(None), Settings(rungs=("library",), contractions=contractions),
    )  # fmt: skip
    assert groups in {row.operators for row in found.rows}


def test_a_slow_whole_does_not_count_for_a_rung_that_ran_out_of_time() -> None:
    late, cache = Says("compiler", TimeoutError("timeout")), KernelCache(None)
    settings = Settings(seconds=300.0, rungs=("library", "compiler"))

    def search(*rungs: Any) -> Any:
        return search_whole(graph(), None, lambda: nullcontext(Judge()), lambda: rungs, cache, settings)

    found = search(Says("library", kernel(2.0)), late)
    assert (found.cached, found.answer.ms) == (False, 2.0)
    again = Says("library", kernel(2.0))
    found = search(again, Says("compiler", kernel(0.5)))
    assert (again.asked, found.answer.rung, found.answer.ms) == (0, "compiler", 0.5)
    assert search().cached


def test_out_of_time_says_what_became_of_the_whole_and_asks_for_seconds_only_if_none_were_left() -> None:
    def too_late(seconds: float) -> str:
        cache, settings = KernelCache(None), Settings(seconds=seconds)
        search = _Search(graph(), None, nullcontext, list, cache, settings, time.monotonic(), print, None, "")
        search.failed = {"library": "no nest fits", "in one piece": "time ran out while the judge tried it"}
        return search._too_late("while compiler wrote a kernel")

    said = too_late(1e6)
    assert (
        "while compiler wrote a kernel (library: no nest fits; in one piece: time ran out while the judge"
        in said
    )
    assert said.endswith("; nothing is begun after 70% of the budget")
    assert too_late(1e-9).endswith("; give more seconds")


def test_a_graph_that_disagrees_with_its_module_ends_the_search_beside_it() -> None:
    class Waits(Says):
        def write(self, graph: Graph, sizes: Sequence[Any], seconds: float) -> str:
            begun.set()
            assert checked.wait(60)
            return super().write(graph, sizes, seconds)

    def check() -> None:
        assert begun.wait(60)
        checked.set()
        raise UserError("the graph is not used")

    begun, checked, rung = Event(), Event(), Waits("library", kernel(0.5))
    cache = KernelCache(None)
    with pytest.raises(UserError, match="not used"):
        search_whole(
            graph(), None, lambda: nullcontext(Judge()), lambda: [rung], cache, Settings(rungs=("library",)), check=check
        )  # fmt: skip
    assert rung.asked == 1


class Stitched(Prices):
    """Prices stitched groups as slow, and judges them as it priced them; what is in one piece is fast."""

    def price(self, task: Task, candidate: Candidate) -> Future[Timing | None]:
        self.priced += 1
        future: Future[Timing | None] = Future()
        future.set_result(timing(2.0))
        return future

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        calls = candidate.code.count("= kernel_")
        self.judge_of.judged.append(str(calls))
        future: Future[Verdict] = Future()
        time = timing(0.5 if calls == 1 else 2.0)
        found = Verdict(
            task_id=task.id, gate=Gate.TIMING, outcome=Outcome.CORRECT, timing=time, candidate_digest=candidate.digest
        )  # fmt: skip
        future.set_result(found)
        return future


class Writes(Says):
    """Writes graphs of at most so many nodes."""

    def __init__(self, most: int) -> None:
        super().__init__("library", kernel(1.0))
        self.most = most

    def write(self, graph: Graph, sizes: Sequence[Any], seconds: float) -> str:
        if len(graph.nodes) > self.most:
            raise CannotWrite("it is long")
        return super().write(graph, sizes, seconds)


@pytest.mark.parametrize(("most", "judged"), [(100, ["1"]), (50, ["18"])])
def test_stitched_groups_that_are_priced_slower_are_judged_only_if_nothing_is_faster_in_one_piece(
    most: int, judged: list[str]
) -> None:
    layer = [nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()]
    net = nn.Sequential(*[one for _ in range(18) for one in layer]).eval()
    part, judge = capture(net, [torch.randn(4, 8)], breaks=False).part, Stitched()
    found = search_whole(
        part.graph, part.arguments, lambda: nullcontext(judge), lambda: [Writes(most)],
        KernelCache(None), Settings(rungs=("library",)),
    )  # fmt: skip
    assert found.answer is not None
    assert judge.judge_of.judged == judged
    assert bool(found.slower) == (most == 50)


WIDENING = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        widths, layers = (3, 8, 8, 16, 16, 24, 24), []
        for before, after in zip(widths, widths[1:]):
            step = 1 if before == after else 2
            layers += [torch.nn.Conv2d(before, after, 3, step, 1, bias=False), torch.nn.BatchNorm2d(after), torch.nn.ReLU()]
        self.layers = torch.nn.Sequential(*layers)
    def forward(self, x):
        return self.layers(x).mean((2, 3))
batch, height, width = 8, 512, 512
def get_inputs():
    return [torch.rand(batch, 3, height, width)]
def get_init_inputs():
    return []
"""


class Centred(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean((0, 2, 3), keepdim=True)


def test_layers_with_rows_of_other_lengths_are_of_other_kinds() -> None:
    def norm(channels: int, side: int) -> Graph:
        net = Centred()
        part = capture(net, [torch.randn(4, channels, side, side)], breaks=False).part
        graph = freed(part.graph)
        assert graph is not None
        return graph

    assert _kind(norm(64, 56)) == _kind(norm(128, 50)) != _kind(norm(128, 28))
    assert _kind(norm(256, 14)) == _kind(norm(512, 7))


def test_layers_of_a_task_that_differ_in_width_and_extent_are_of_one_kind() -> None:
    shapes = {
        "small": {"batch": 2, "height": 32, "width": 32},
        "small_odd": {"batch": 3, "height": 33, "width": 35},
    }
    case = of_task(Task(id="t", source=WIDENING, shapes=shapes), "auto")
    cut = rows(case.graph)
    made = _alike(cut)
    assert [one.outputs for one in made.groups] == [one.outputs for one in cut.groups]
    assert all(
        set(one.inputs) <= set(other.inputs) for one, other in zip(made.groups, cut.groups, strict=True)
    )

    def kinds(whole: Partition) -> set[str]:
        return {_kind(one.graph) for one in whole.groups if "var_mean" in one.operators}

    assert len(kinds(cut)) == 3
    assert len(kinds(made)) == 1
    text = stitch(made, {})
    code: dict[str, Any] = {}
    exec(text, code)
    values = [torch.rand([evaluate(n, {"batch": 2, "height": 37, "width": 45}) for n in one.type.shape])  # type: ignore[union-attr]
              for one in case.graph.arguments]  # fmt: skip
    torch.testing.assert_close(code["run"](*values)[0], execute(case.graph, values)[0])
    for group in made.groups:
        if "var_mean" in group.operators:
            found = sizes_of(case.graph, case.shapes, group)
            assert all(len(one) == len(group.graph.symbols) for one in found.values())
