"""Graphs: values are named once, made before they are read, and survive JSON."""

import pytest
from pydantic import ValidationError

from kernelwright.graph.types import Argument, DtypeArg, Graph, Node, Ref, Size, Symbol, TensorType, Value

ROWS = TensorType(dtype="bfloat16", shape=("s0", 64))


def small(**changes: object) -> Graph:
    made: dict[str, object] = {
        "arguments": (
            Argument(name="x", type=ROWS),
            Argument(name="w", type=ROWS, role="weight", origin="norm.w"),
        ),
        "nodes": (
            Node(
                op="aten.mul.Tensor", args=(Ref(ref="x"), Ref(ref="w")), outputs=(Value(name="y", type=ROWS),)
            ),
            Node(
                op="aten.view.default",
                args=(Ref(ref="y"), (Size(size="64*s0"),)),
                kwargs=(("dtype", DtypeArg(dtype="float32")),),
                outputs=(Value(name="z", type=TensorType(dtype="bfloat16", shape=("64*s0",))),),
            ),
        ),
        "results": ("z",),
        "symbols": (Symbol(name="s0", hint=8),),
    }
    return Graph(**{**made, **changes})  # type: ignore[arg-type]


def test_json_gives_the_same_graph_back() -> None:
    graph = small()
    assert Graph.model_validate_json(graph.model_dump_json()) == graph
    assert hash(Graph.model_validate_json(graph.model_dump_json())) == hash(graph)


def test_a_value_is_made_before_it_is_read() -> None:
    with pytest.raises(ValidationError, match="reads y, which is not made before"):
        small(nodes=tuple(reversed(small().nodes)))


def test_a_value_is_made_once() -> None:
    with pytest.raises(ValidationError, match="made twice"):
        small(nodes=small().nodes + small().nodes)


def test_a_result_is_made() -> None:
    with pytest.raises(ValidationError, match="returns q"):
        small(results=("q",))


def test_the_digest_leaves_out_names_of_weights_and_of_the_graph() -> None:
    moved = small(
        arguments=tuple(a.model_copy(update={"origin": "other"}) for a in small().arguments), name="other"
    )
    assert moved.digest == small().digest
    assert small(results=("y",)).digest != small().digest


def test_every_value_has_a_type() -> None:
    assert list(small().types()) == ["x", "w", "y", "z"]
