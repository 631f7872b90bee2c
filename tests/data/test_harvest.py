"""Cutting packages' models into graphs that kernels can be written for, in any precision."""

import json
from pathlib import Path

import pytest
import torch

from kernelwright import extensions
from kernelwright.data.harvest import Origin, harvest
from kernelwright.errors import UserError
from kernelwright.graph.recast import recast
from kernelwright.graph.types import Graph
from kernelwright.records import Task, read_jsonl
from kernelwright.synth.extents import holds

MODELS = """
import torch
import torch.nn as nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, 2 * width)

    def forward(self, x):
        return nn.functional.gelu(self.up(self.norm(x))) + x.float().sort(-1).values.sum()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block(32 * 2**at) for at in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

def models():
    yield "net", lambda: (Net(), (torch.randn(6, 10, 32),), {})
    yield "broken", lambda: (Net(), (torch.randn(6, 10, 31),), {})

def names():
    yield "net"
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "mine.py"
    path.write_text(MODELS)
    return f"{path}:models"


@pytest.fixture(scope="module")
def out(spec: str) -> Path:
    out = Path(spec.rpartition(":")[0]).with_name("graphs.jsonl")
    harvest(spec, out)
    return out


def graphs(out: Path) -> list[Graph]:
    tasks = list(read_jsonl(out, Task))
    assert tasks
    assert all(task.graph and task.shapes for task in tasks)
    return [Graph.model_validate_json(task.graph) for task in tasks]


def test_a_model_falls_into_graphs_with_a_nest(out: Path) -> None:
    found = {node.op.split(".")[1] for graph in graphs(out) for node in graph.nodes}
    assert {"layer_norm", "linear", "gelu"} <= found
    assert "sort" not in found


def test_each_graph_is_there_once(out: Path) -> None:
    digests = [graph.digest for graph in graphs(out)]
    assert len(digests) == len(set(digests))


def test_what_gave_none_says_why(out: Path) -> None:
    origins = {
        (one.model, one.path): one for one in read_jsonl(out.with_name("graphs.origins.jsonl"), Origin)
    }
    assert "does not run" in origins["broken", ""].left[0]


def test_a_whole_harvest_is_not_made_again(spec: str, out: Path) -> None:
    before = out.read_text()
    assert harvest(spec, out)["tasks"] == len(before.splitlines())
    assert out.read_text() == before


def test_a_function_that_yields_something_else_is_one_line(spec: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="yields a str; yield"):
        harvest(spec.replace(":models", ":names"), tmp_path / "none.jsonl")


def test_graphs_are_recast_as_torch_infers(out: Path) -> None:
    for graph in graphs(out):
        half = recast(graph, "bfloat16")
        assert "bfloat16" in json.dumps(half.model_dump(mode="json"))
        assert holds(half, {one.name: one.hint for one in half.symbols})


def test_the_everyday_modules_run_and_are_small() -> None:
    path = Path(__file__).parents[2] / "recipes" / "everyday_modules.py"
    for name, build in extensions.call(extensions.load(f"{path}:models", "test"), f"{path}:models", "test"):
        model, args, kwargs = build()
        with torch.no_grad():
            assert model(*args, **kwargs) is not None, name
        assert max(one.numel() for one in args) <= 4 * 2**20, name
