"""Which tasks consist of nothing but their graph's text."""

import pytest
import torch
from graph.building import Builder

from kernelwright.graph.printed import is_printed
from kernelwright.graph.task import to_task
from kernelwright.graph.types import Graph
from kernelwright.records import Task


def gathered() -> Graph:
    b = Builder()
    table, index, x = b.weight(16, 4), b.input(3, dtype="int64"), b.input(3, 4)
    return b.graph(b.op("aten.add.Tensor", b.op("aten.embedding.default", table, index), x))


def task(**values: torch.Tensor) -> Task:
    return to_task(gathered(), "graph/x", shapes={"small": {}}, values=values)


def test_a_printed_task_is_one() -> None:
    assert is_printed(task())


def test_so_is_one_whose_draws_follow_captured_values() -> None:
    other = task(a2=torch.rand(3, 4) * 40 + 3)
    assert other.source != task().source
    assert is_printed(other)


@pytest.mark.parametrize(
    "line",
    [
        "        __import__('os').system('true'),",
        "        torch.load('x'),",
        "        torch.randn(3, 4, out=open('x')),",
        "        (lambda: 1)(),",
        "        torch.randn(9**9**9),",
        "        torch.randn(3, 4).to(torch.os),",
        "        [print(1) for _ in ()],",
    ],
)
def test_anything_else_among_the_draws_is_refused(line: str) -> None:
    lines = task().source.splitlines()
    at = lines.index("def get_inputs():") + 4
    lines[at] = line
    assert not is_printed(task().model_copy(update={"source": "\n".join(lines) + "\n"}))


def test_a_changed_call_an_extra_line_and_no_graph_are_refused() -> None:
    one = task()
    assert not is_printed(one.model_copy(update={"source": one.source.replace("aten.add", "aten.sub")}))
    assert not is_printed(one.model_copy(update={"source": one.source + "import os\n"}))
    assert not is_printed(one.model_copy(update={"graph": ""}))
    assert not is_printed(one.model_copy(update={"graph": "{}"}))
