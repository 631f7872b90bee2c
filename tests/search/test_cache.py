"""The kernel cache: entries are found again, merged between processes, and harmless if damaged."""

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from graph.building import Builder

from kernelwright.graph.types import Graph
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Timing, Verdict
from kernelwright.search.cache import Answer, Entry, KernelCache, Key, against_inductor


def graph() -> Graph:
    b = Builder()
    return b.graph(b.op("aten.relu.default", b.input(4)))


KEY = Key.of(graph())


def answer(ms: float = 1.0, rung: Any = "compiler") -> Answer:
    timing = Timing(
        kind="modelled", target="h200", candidate_ms=ms, candidate_ci=(ms, ms), baseline_ms={"eager": 1.0},
        speedup_ci={"eager": (1 / ms, 1 / ms)},
    )  # fmt: skip
    verdict = Verdict(task_id="t", outcome=Outcome.CORRECT, gate=Gate.TIMING, timing=timing)
    return Answer(graph=KEY.graph, rung=rung, code=f"def kernel(x): return x  # {ms}", verdict=verdict)


def test_what_was_put_is_there_for_the_next_process(tmp_path: Path) -> None:
    entry = Entry(best=answer(), tried={"compiler": "verified"})
    KernelCache(tmp_path).put(KEY, entry)
    assert KernelCache(tmp_path).get(KEY) == entry
    assert KernelCache(tmp_path).get(KEY.model_copy(update={"precision": "bf16"})) is None
    assert KernelCache(tmp_path).get(KEY.model_copy(update={"contractions": "auto"})) is None
    assert KernelCache(tmp_path).get(KEY.model_copy(update={"protocol": "kernelbench"})) is None


def test_failures_are_kept_too(tmp_path: Path) -> None:
    KernelCache(tmp_path).put(KEY, Entry(tried={"compiler": "aten.sort has no kernel"}))
    known = KernelCache(tmp_path).get(KEY)
    assert known is not None
    assert known.best is None
    assert known.tried == {"compiler": "aten.sort has no kernel"}


def test_the_faster_kernel_stays(tmp_path: Path) -> None:
    one, other = KernelCache(tmp_path), KernelCache(tmp_path)
    one.put(KEY, Entry(best=answer(1.0), tried={"compiler": "verified"}))
    kept = other.put(KEY, Entry(best=answer(2.0, "library"), tried={"library": "verified"}))
    assert kept.best == answer(1.0)
    assert kept.tried == {"compiler": "verified", "library": "verified"}
    assert KernelCache(tmp_path).get(KEY) == kept


def _writes(folder: Path, number: int) -> None:
    cache = KernelCache(folder)
    for at in range(10):
        cache.put(KEY, Entry(best=answer(1.0 + number + at), tried={f"library {number} {at}": "verified"}))


def test_processes_that_write_one_entry_lose_nothing(tmp_path: Path) -> None:
    running = [
        multiprocessing.get_context("fork").Process(target=_writes, args=(tmp_path, n)) for n in range(4)
    ]
    for one in running:
        one.start()
    for one in running:
        one.join()
    known = KernelCache(tmp_path).get(KEY)
    assert known is not None
    assert len(known.tried) == 40
    assert known.best == answer(1.0)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda body: "{", "cannot be read"),
        (lambda body: "", "cannot be read"),
        (lambda body: json.dumps({**body, "format": 99}), "is of format 99, not 1"),
        (lambda body: json.dumps([1]), "is of format none"),
        (lambda body: json.dumps({**body, "entry": {"best": 3}}), "is damaged"),
        (
            lambda body: json.dumps({**body, "key": {**body["key"], "target": "a100"}}),
            "is for another kernel",
        ),
        (lambda body: json.dumps(rejected(body)), "was not accepted"),
    ],
    ids=["half a file", "empty", "another version", "a list", "damaged", "another key", "rejected"],
)
def test_a_bad_entry_is_left_out_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, said: str
) -> None:
    KernelCache(tmp_path).put(KEY, Entry(best=answer()))
    [path] = tmp_path.glob("*.json")
    path.write_text(change(json.loads(path.read_text())))
    cache = KernelCache(tmp_path)
    assert cache.get(KEY) is None
    assert cache.get(KEY) is None
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    cache.put(KEY, Entry(best=answer(0.5)))
    assert KernelCache(tmp_path).get(KEY) == Entry(best=answer(0.5))


def rejected(body: dict[str, Any]) -> dict[str, Any]:
    best = body["entry"]["best"]
    best["verdict"] |= {"outcome": "wrong_value", "timing": None}
    return body


def test_a_folder_that_cannot_be_written_costs_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    cache = KernelCache(tmp_path / "file" / "kernels")
    for _ in range(2):
        assert cache.put(KEY, Entry(best=answer())).best == answer()
    assert cache.get(KEY) == Entry(best=answer())
    assert capsys.readouterr().err.count("not kept for the next time") == 1


def test_torch_compile_is_modelled_no_faster_than_its_own_kernels() -> None:
    timing = Timing(
        kind="modelled", target="h200", candidate_ms=2.0, candidate_ci=(2.0, 2.0), baseline_ms={"eager": 4.0, "compile": 1.0},
        speedup_ci={"eager": (2.0, 2.0), "compile": (0.5, 0.5)},
    )  # fmt: skip
    verdict = Verdict(task_id="t", outcome=Outcome.CORRECT, gate=Gate.TIMING, timing=timing)
    fair = against_inductor(verdict, 2.5).timing
    assert fair is not None
    assert fair.baseline_ms == {"eager": 4.0, "compile": 2.5}
    assert fair.speedup_ci["compile"] == (1.25, 1.25)
    assert against_inductor(verdict, 0.5) == verdict
    measured = timing.model_copy(update={"kind": "measured"})
    clocked = verdict.model_copy(update={"timing": measured})
    assert against_inductor(clocked, 2.5) == clocked
