"""Twenty files of fused modules are recognised when respelled and resized; single operators are kept."""

import random
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from respelled import FILES
from torch import nn

from kernelwright.data.contamination import Benchmarks
from kernelwright.graph.capture import capture
from kernelwright.graph.structure import operator_count, structure
from kernelwright.graph.types import Graph
from kernelwright.records import Pair, Task
from kernelwright.synth.catalogue import ROWS


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory: pytest.TempPathFactory) -> Benchmarks:
    folder: Path = tmp_path_factory.mktemp("bench")
    for name, (text, _) in FILES.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    (folder / "single.py").write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, 1)\n"
        "def get_inputs():\n    return [torch.rand(4, 9)]\ndef get_init_inputs():\n    return []\n"
    )
    return Benchmarks.of([folder])


def respelled(expression: str) -> Graph:
    """The graph of the second spelling, at sizes of its own."""
    linear = "conv" not in expression
    scope = {"torch": torch, "F": F, "nn": nn}
    x = torch.randn(7, 20) if linear else torch.randn(2, 6, 11, 11)
    given = {
        "w": torch.randn(33, 20) if linear else torch.randn(33, 6, 3, 3),
        "v": torch.randn(6, 33, 3, 3),
        "c": torch.randn(33),
        "d": torch.randn(33, 1, 1),
    }
    used = [name for name in given if f" {name}" in expression.replace("(", " ").replace(",", " ")]

    class Function(nn.Module):
        def forward(self, x: torch.Tensor, *arguments: torch.Tensor) -> torch.Tensor:
            return made(x, *arguments)

    made = eval(f"lambda x, {', '.join(used)}: {expression}", scope)
    return capture(Function(), (x, *(given[name] for name in used))).graph


def pair_of(graph: Graph) -> Pair:
    task = Task(id="t/1", source="", graph=graph.model_dump_json())
    return Pair(
        task=task, digest=graph.digest, structure=structure(graph), label="x", source="random", precision="ieee", target="h200",
        plan="g1: x  nest map  block 64  warps 4", code="def kernel(x): ...",
    )  # fmt: skip


def test_every_file_is_captured(benchmarks: Benchmarks) -> None:
    assert benchmarks.uncaptured == []
    assert len(benchmarks.files) == len(FILES)
    assert len(benchmarks.singles) == 1


@pytest.mark.parametrize("name", FILES)
def test_respelled_and_resized_files_are_caught(name: str, benchmarks: Benchmarks) -> None:
    assert benchmarks.leak(pair_of(respelled(FILES[name][1])))
    assert benchmarks.removed[-1]["file"].endswith(f"{name}.py")


def test_single_operators_stay_and_are_counted(benchmarks: Benchmarks) -> None:
    graph = capture(lambda x: F.softmax(x, -1), (torch.randn(5, 6),)).graph
    assert not benchmarks.leak(pair_of(graph))
    assert benchmarks.recurring["x"] == 1


def test_the_catalogue_is_mostly_no_benchmark(benchmarks: Benchmarks) -> None:
    rng = random.Random(0)
    graphs = [row.drawn("float32", rng).graph for row in rng.sample(ROWS, 60)]
    caught = [graph for graph in graphs if benchmarks.leak(pair_of(graph))]
    assert all(operator_count(graph) > 1 for graph in caught)
    assert len(caught) < 4
