"""Titles of graphs for people."""

from graph.building import Builder

from kernelwright.graph.task import to_task
from kernelwright.graph.title import dtype, task_title, title
from kernelwright.graph.types import Graph


def linear_gelu(rows: int = 4) -> Graph:
    b = Builder()
    x, w = b.input(2, rows, 16, dtype="bfloat16"), b.weight(8, 16, dtype="bfloat16")
    return b.graph(b.op("aten.gelu.default", b.op("aten.linear.default", x, w)))


def test_a_product_is_called_by_rows_columns_and_what_is_summed_over() -> None:
    assert title(linear_gelu()) == "linear+gelu 8x8x16 bf16"


def test_other_graphs_are_called_by_their_largest_argument() -> None:
    b = Builder()
    assert title(b.graph(b.op("aten.add.Tensor", b.input(4), b.input(3, 4)))) == "add 3x4 fp32"


def test_of_a_long_graph_the_rest_is_counted() -> None:
    b = Builder()
    x = b.input(4)
    for name in ("relu", "exp", "sin", "cos", "tanh", "neg"):
        x = b.op(f"aten.{name}.default", x)
    assert title(b.graph(x)) == "relu+exp+sin+cos+2 more 4 fp32"


def test_the_type_is_what_most_floats_have() -> None:
    b = Builder()
    index, x = b.input(4, dtype="int64"), b.input(4, dtype="float16")
    assert dtype(b.graph(b.op("aten.gather.default", x, 0, index))) == "fp16"


def test_a_task_in_function_form_is_called_by_its_graph() -> None:
    graph = linear_gelu()
    assert task_title(to_task(graph, "graph/x", shapes={"small": {}})) == title(graph)
    plain = to_task(graph, "graph/x", shapes={"small": {}}).model_copy(update={"graph": ""})
    assert task_title(plain) == "graph/x"
