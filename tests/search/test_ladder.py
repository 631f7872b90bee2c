"""The ladder asks rung by rung, judges and caches; a climber begins with the best so far; the deadline ends it."""

import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from running_programs import graph_of
from search.making import Judge, Prices, Says, cannot, graph, kernel

from kernelwright.errors import UserError
from kernelwright.policy.compiler.reasons import CannotCompile
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.search.cache import KernelCache
from kernelwright.search.ladder import Ladder, Tried, pose
from kernelwright.search.rung import CannotWrite, Climb, entry_of, key_of
from kernelwright.search.rungs import CompilerRung, LibraryRung, UserRung, rungs_of
from kernelwright.search.tune import TuneRung, print_kernels

GRAPH = graph()


def ladder(
    *rungs: Any, judge: Judge | None = None, cache: Path | None = None, watch: Any = lambda tried: None
) -> Ladder:
    return Ladder(judge or Judge(), rungs, KernelCache(cache), watch=watch)


def test_the_fastest_of_the_rungs_is_kept_and_each_says_what_came_of_it() -> None:
    entry = ladder(
        Says("compiler", kernel(0.5)), Says("library", kernel(0.25)), Says("model", cannot("not asked"))
    ).search(GRAPH)
    assert entry.best is not None
    assert (entry.best.rung, entry.best.ms) == ("library", 0.25)
    assert entry.tried == {"compiler": "verified", "library": "verified", "model": "not asked"}


def test_a_rung_with_a_bug_costs_that_rung() -> None:
    entry = ladder(Says("library", TypeError("no such number")), Says("compiler", kernel(0.5))).search(GRAPH)
    assert entry.best is not None
    assert entry.tried == {"library": "it raised TypeError: no such number", "compiler": "verified"}


def test_a_rung_that_was_asked_is_not_asked_again_and_others_are(tmp_path: Path) -> None:
    slow, fast = Says("compiler", kernel(0.5)), Says("library", kernel(0.25))
    ladder(slow, cache=tmp_path).search(GRAPH)
    entry = ladder(slow, fast, cache=tmp_path).search(GRAPH)
    assert (slow.asked, fast.asked) == (1, 1)
    assert entry.best is not None
    assert entry.best.rung == "library"


def test_what_was_rejected_is_said_as_the_judge_said_it() -> None:
    entry = ladder(Says("compiler", kernel("luck"))).search(GRAPH)
    assert entry.best is None
    assert entry.tried == {"compiler": "wrong value: no such luck"}


def test_a_rung_that_ran_out_of_time_is_asked_again(tmp_path: Path) -> None:
    late = Says("compiler", TimeoutError("timeout"))
    for _ in range(2):
        assert ladder(late, cache=tmp_path).search(GRAPH).tried == {}
    assert late.asked == 2
    began = time.monotonic()
    entry = ladder(Says("library", kernel(1.0)), judge=Judge(never=True)).search(GRAPH, until=began + 0.3)
    assert entry.tried == {}
    assert time.monotonic() - began < 1


def test_verdicts_under_way_that_time_runs_out_for_are_known() -> None:
    class Started(Judge):
        def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
            future = super().submit(task, candidate)
            future.set_running_or_notify_cancel()
            return future

    started, waiting = ladder(judge=Started(never=True)), ladder(judge=Judge(never=True))
    for one in (started, waiting):
        assert one.judged(pose(GRAPH), [kernel(1.0)], until=0.0) == [None]
    assert [len(one.abandoned) for one in (started, waiting)] == [1, 0]


class Slow(Judge):
    """Takes a fifth of a second."""

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        made, later = super().submit(task, candidate), Future[Verdict]()
        threading.Timer(0.2, lambda: later.set_result(made.result())).start()
        return later


def test_a_verdict_under_way_is_waited_for_and_no_other_rung_is_asked() -> None:
    late = Says("library", kernel(0.25))
    now = time.monotonic()
    entry = ladder(Says("compiler", kernel(0.5)), late, judge=Slow()).search(
        GRAPH, until=now + 0.15, wait=now + 30
    )
    assert entry.tried == {"compiler": "verified"}
    assert late.asked == 0


def test_all_that_was_judged_is_told() -> None:
    seen: list[Tried] = []
    ladder(Says("compiler", kernel(0.5)), Says("library", cannot("no nest")), watch=seen.append).search(GRAPH)
    assert [(one.rung, one.what, one.verdict is None) for one in seen] == [
        ("compiler", "verified", False), ("library", "no nest", True),
    ]  # fmt: skip
    assert isinstance(seen[0].candidate, Candidate)
    assert "class ModelNew" in seen[0].candidate.code


TUNED = """import torch
import triton
import triton.language as tl
BLOCK = 64


@triton.jit
def k(x, BLOCK: tl.constexpr):
    pass


def kernel(x):
    k[(1,)](x, BLOCK=BLOCK, num_warps=4)
    return x
"""


class Sized(Judge):
    """A judge for which larger blocks are faster, up to 256."""

    def submit(self, task: Any, candidate: Candidate) -> Any:
        block = int(candidate.code.split("BLOCK = ")[1].split()[0])
        warps = int(candidate.code.split("num_warps=")[1].split(")")[0])
        return super().submit(task, Candidate(code=kernel(64 / min(block, 256) + (warps != 4))))


@pytest.fixture
def no_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library has no schedules for any graph."""
    monkeypatch.setattr("kernelwright.search.tune.print_kernels", lambda *_: iter(()))


@pytest.mark.usefixtures("no_schedules")
def test_the_best_kernel_is_tuned() -> None:
    entry = ladder(Says("compiler", TUNED), TuneRung(), judge=Sized()).search(GRAPH)
    assert entry.best is not None
    assert entry.best.rung == "tune"
    assert "BLOCK = 256" in entry.best.code
    assert entry.tried == {"compiler": "verified", "tune": "verified"}


def test_schedules_of_the_library_are_tried_before_knobs_are_turned(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [kernel(0.5), kernel(0.125), kernel("luck"), kernel(0.25), kernel(0.75)]
    monkeypatch.setattr("kernelwright.search.tune.print_kernels", lambda *_: iter(texts))
    entry = ladder(Says("compiler", kernel(0.2)), TuneRung(at_once=2)).search(GRAPH)
    assert entry.best is not None
    assert (entry.best.rung, entry.best.ms) == ("tune", 0.125)


def test_the_librarys_schedules_of_a_graph_are_printed() -> None:
    texts = list(print_kernels(GRAPH, "h200", "ieee"))
    assert len(texts) > 4
    assert len(set(texts)) == len(texts)
    assert all("def kernel(" in one for one in texts)


@pytest.mark.usefixtures("no_schedules")
def test_without_a_kernel_there_is_nothing_to_tune() -> None:
    tried = ladder(Says("compiler", cannot("no")), TuneRung()).search(GRAPH).tried
    assert tried["tune"] == "there is no verified kernel to tune"
    tried = ladder(Says("compiler", kernel(1.0)), TuneRung()).search(GRAPH).tried
    assert "has no block size" in tried["tune"]


def test_a_climber_that_finds_nothing_faster_says_so() -> None:
    class Slower:
        name = "model"

        def climb(self, climb: Climb) -> None:
            assert climb.best is not None
            climb.judge([kernel(2.0), kernel(3.0)])

    entry = ladder(Says("compiler", kernel(1.0)), Slower()).search(GRAPH)
    assert entry.tried["model"] == "none of 2 is faster"
    assert entry.best is not None
    assert entry.best.rung == "compiler"


def test_a_users_kernel_must_take_what_the_graph_takes() -> None:
    two = UserRung("def kernel(x, y):\n    return x\n")
    assert ladder(two).search(GRAPH).tried[two.key].startswith("it takes 2 arguments, and the graph has 1: ")
    mine = UserRung(kernel(0.1))
    entry = ladder(mine).search(GRAPH)
    assert entry.best is not None
    assert entry.best.rung == "user"
    assert key_of(mine) != key_of(two)


@pytest.mark.parametrize(
    ("code", "entry"),
    [
        ("def kernel(x): pass", "kernel"),
        ("def run(x): pass", "run"),
        ("class ModelNew: pass", "module"),
        ("def run(x): pass\n\n\nclass ModelNew: pass", "module"),
    ],
)
def test_a_text_is_known_by_what_it_defines(code: str, entry: str) -> None:
    assert entry_of(code) == entry


@pytest.mark.parametrize(("code", "said"), [("x = 1", "defines neither"), ("def (", "not Python")])
def test_a_text_that_is_no_kernel_is_one_line(code: str, said: str) -> None:
    with pytest.raises(CannotWrite, match=said):
        entry_of(code)


def test_rungs_are_named() -> None:
    assert [one.name for one in rungs_of(("compiler", "library", "model", "tune"), "h200", "own")] == [
        "compiler", "library", "model", "tune",
    ]  # fmt: skip
    with pytest.raises(UserError, match="valid: compiler, library, model, tune"):
        rungs_of(("oracle",), "h200", "own")


def test_where_all_would_stay_with_aten_the_compiler_writes_contractions_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = {"auto": "def kernel(x):\n    return torch.relu(x)\n", "own": kernel(0.5)}
    texts["own"] = "@triton.jit\n" + texts["own"]
    monkeypatch.setattr(
        "kernelwright.search.rungs.write", lambda graph, contractions, **what: texts[contractions]
    )
    assert CompilerRung("h200", "auto").write(GRAPH, [], 10.0) == texts["own"]


def test_a_size_that_a_trace_fixes_is_fixed_with_contractions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def write(graph: Any, contractions: str, **what: Any) -> str:
        asked.append(contractions)
        raise CannotCompile("size", "specialised: Eq(s0, 4)")

    monkeypatch.setattr("kernelwright.search.rungs.write", write)
    with pytest.raises(CannotWrite, match="specialised"):
        CompilerRung("h200", "auto").write(GRAPH, [], 10.0)
    assert asked == ["auto"]


def test_a_kernel_that_is_priced_slower_than_asked_is_not_judged() -> None:
    pool = Prices()
    rungs = [Says("compiler", kernel(2.0)), Says("library", kernel(0.5))]
    entry = Ladder(pool, rungs, KernelCache(None)).search(GRAPH, least=0.98)
    assert entry.best is not None
    assert (entry.best.rung, len(pool.judge_of.judged), pool.priced) == ("library", 1, 2)
    assert entry.tried["compiler"].startswith("not judged: 0.50 times")
    model = Says("model", kernel(0.4))
    assert Ladder(pool, [rungs[1], model], KernelCache(None)).search(GRAPH, least=0.98).best is not None
    assert (model.asked, pool.priced) == (0, 3)
    assert Ladder(pool, rungs[:1], KernelCache(None)).search(GRAPH).best is not None
    assert pool.priced == 3


def test_steps_of_a_stencil_written_out_end_the_library_at_once() -> None:
    def steps(make: Any) -> Any:
        x = make.input("x", "float32", (1 << 15,))
        for shift in range(1, 14):
            here, there = (make.op("aten.roll.default", x, [by], [0]) for by in (1 << shift, -1))
            x = make.op("aten.sub.Tensor", here, make.op("aten.mul.Tensor", there, x))
        return x

    with pytest.raises(CannotWrite):
        LibraryRung("h200").write(graph_of(steps), [], 1.0)
