"""Modules cut into graphs that a kernel is written for, in any precision."""

from kernelwright.data.groups import recast, tasks_of
from kernelwright.graph.types import Graph
from kernelwright.records import Task
from kernelwright.synth.extents import holds

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, 2 * width)

    def forward(self, x):
        return nn.functional.gelu(self.up(self.norm(x))) + x.float().sort(-1).values.sum()

def get_inputs():
    return [torch.randn(6, 10, 32)]

def get_init_inputs():
    return [32]
"""


def graphs() -> list[Graph]:
    made = tasks_of(Task(id="m/mlp", source=SOURCE))
    assert all(task.graph and task.shapes for task in made.tasks)
    return [Graph.model_validate_json(task.graph) for task in made.tasks]


def test_a_module_falls_into_graphs_with_a_nest() -> None:
    found = {node.op.split(".")[1] for graph in graphs() for node in graph.nodes}
    assert {"layer_norm", "linear", "gelu"} <= found
    assert "sort" not in found


def test_graphs_are_recast_as_torch_infers() -> None:
    for graph in graphs():
        half = recast(graph, "bfloat16")
        assert "bfloat16" in half.model_dump_json()
        assert holds(half, {one.name: one.hint for one in half.symbols})
