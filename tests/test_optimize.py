"""`kernelwright optimize`: tasks, files, classes and functions; output, files and exit codes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from search.making import Judge, Says, cannot, kernel

import kernelwright.search.cases  # noqa: F401  # it takes the rungs by name, before a test replaces them
from kernelwright.cli import main
from kernelwright.records import Candidate, Task, Verdict

MODULE = """
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x, *, mask=None):
        return torch.sigmoid(self.inner(x)) * mask


def doubled(x, mask):
    return 2 * x * mask


def get_init_inputs():
    return {"width": 8}


def get_inputs():
    return {"x": torch.rand(4, 8), "mask": torch.ones(4, 8)}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module, with a judge that answers at once and a compiler that writes `kernel(0.5)`."""

    @contextmanager
    def judge(*args: Any) -> Iterator[Judge]:
        yield Judge()

    monkeypatch.setattr("kernelwright.verify.opened.judge", judge)
    writes(monkeypatch, kernel(0.5).replace("(x)", "(*given)"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blocks_of_mine.py").write_text(MODULE)
    return tmp_path


def writes(monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    for name in ("compiler", "library"):
        rung = Says(name, said if name == "compiler" else cannot("no nest"))
        monkeypatch.setattr(f"kernelwright.search.rungs.{name.capitalize()}Rung", lambda *_, rung=rung: rung)


@pytest.mark.parametrize(
    ("spec", "out"),
    [
        ("blocks_of_mine:Gate", "blocks_of_mine-Gate_triton.py"),
        ("blocks_of_mine.py:doubled", "blocks_of_mine.py-doubled_triton.py"),
        ("wright/relu", "wright-relu_triton.py"),
    ],
)
def test_kernels_verdict_table_and_report_are_written(
    spec: str, out: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", spec, "--no-cache", "--rungs", "compiler,library"]) == 0
    said = capsys.readouterr()
    assert "class ModelNew" in (home / out).read_text()
    assert json.loads((home / out).with_suffix(".verdict.json").read_text())["outcome"] == "correct"
    run = (home / out).with_suffix(".run")
    assert json.loads((run / "found.json").read_text())["rows"][0]["rung"] == "compiler"
    assert "<html" in (run / "report.html").read_text()
    for part in ("operators", "share", "over compile", "compiler", "whole", "2.00x", "report"):
        assert part in said.out
    assert "compiler: verified" in said.err


class Pool(Judge):
    """The pool that `verify` opens."""

    def verify(self, task: Task, candidate: Candidate) -> Verdict:
        return self.submit(task, candidate).result()


@pytest.mark.parametrize("name", ["Gate", "doubled"])
def test_what_was_written_is_verified_against_the_same_file(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pools = [Pool(), Pool()]
    monkeypatch.setattr("kernelwright.verify.opened.judge", lambda *_, **__: nullcontext(pools[0]))
    monkeypatch.setattr("kernelwright.verify.opened.judge_at", lambda *_, **__: nullcontext(pools[1]))
    spec = f"blocks_of_mine.py:{name}"
    assert main(["optimize", spec, "-o", "fast.py", "--no-cache", "--rungs", "compiler"]) == 0
    assert main(["verify", "--task", spec, "--kernel", "fast.py"]) == 0
    assert pools[1].judged == pools[0].judged[-1:]
    text = (home / "fast.py").read_text()
    (home / "other.py").write_text(text.replace("class ModelNew", "class ModelOld"))
    capsys.readouterr()
    assert main(["verify", "--task", spec, "--kernel", "other.py"]) == 2
    assert "other.py: its ModelNew is not the one that optimize writes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def kernel(x): return 1", "it takes 1 arguments, and the graph has 2"),
        ("class ModelNew:\n    def forward(self, x, y, z): ...", "it takes 3 arguments, and the graph has 2"),
        ("y = 1", "it defines neither kernel(...) nor class ModelNew"),
        ("def", "it is not Python"),
    ],
)
def test_a_file_that_is_no_kernel_for_an_object_is_one_line(
    text: str, said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "mine.py").write_text(text)
    assert main(["verify", "--task", "blocks_of_mine.py:doubled", "--kernel", "mine.py"]) == 2
    assert f"kernelwright: mine.py: {said}" in capsys.readouterr().err


@pytest.mark.slow
def test_it_is_found_again_in_the_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(home / "cache"))
    command = ["optimize", "wright/relu", "-o", "relu.py", "--rungs", "compiler", "--json", "found.json"]
    assert main(command) == 0
    assert json.loads((home / "found.json").read_text())["cached"] is False
    text = (home / "relu.py").read_bytes()
    writes(monkeypatch, cannot("not today"))
    assert main(command) == 0
    assert json.loads((home / "found.json").read_text())["cached"] is True
    assert (home / "relu.py").read_bytes() == text


def test_why_nothing_was_verified_is_said(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    writes(monkeypatch, cannot("aten.relu has no kernel today"))
    command = [
        "optimize",
        "wright/relu",
        "-o",
        "relu.py",
        "--no-cache",
        "--rungs",
        "compiler,library",
        "--json",
        "-",
    ]
    assert main(command) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["reason"].startswith(
        "no kernel was verified (compiler: aten.relu has no kernel"
    )
    assert "the module stays as it is" in said.err
    assert not (home / "relu.py").exists()


def test_a_kernel_of_the_users_own_begins(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "mine.py").write_text(kernel(0.125))
    command = [
        "optimize",
        "wright/relu",
        "-o",
        "relu.py",
        "--no-cache",
        "--rungs",
        "compiler",
        "--kernel",
        "mine.py",
    ]
    assert main(command) == 0
    assert "return 0.125" in (home / "relu.py").read_text()
    assert "8.00x" in capsys.readouterr().out


@pytest.mark.slow
def test_a_kernel_by_the_model_is_judged_for_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "fast.py"
    command = [
        "optimize",
        "wright/softmax_rows",
        "-p",
        "gold",
        "--rungs",
        "model",
        "--no-cache",
        "--seconds",
        "200",
    ]
    assert main([*command, "-o", str(out)]) == 0
    assert "class ModelNew" in out.read_text()
    verdict = json.loads((tmp_path / "fast.verdict.json").read_text())
    assert (verdict["outcome"], verdict["task_id"]) == ("correct", "wright/softmax_rows")
    assert "model" in capsys.readouterr().out
