"""Sizes as text: a part of a graph varies with symbols that its own arguments determine."""

from kernelwright.graph import Argument, Graph, Node, Ref, TensorType, Value, sizes
from kernelwright.graph.types import Symbol


def relu(
    *shape: int | str, result: tuple[int | str, ...] = (), symbols: tuple[str, ...] = ("s0", "s1")
) -> Graph:
    made = TensorType(dtype="float32", shape=result or shape)
    return Graph(
        arguments=(Argument(name="x0", type=TensorType(dtype="float32", shape=shape)),),
        nodes=(Node(op="aten.relu.default", args=(Ref(ref="x0"),), outputs=(Value(name="y", type=made),)),),
        results=("y",),
        symbols=tuple(Symbol(name=name, hint=3) for name in symbols),
    )


def shape(graph: Graph) -> tuple[int | str, ...]:
    return graph.arguments[0].type.shape  # type: ignore[union-attr]


def test_a_product_that_only_occurs_whole_is_one_symbol() -> None:
    graph = sizes.independent(relu("s0*s1", 64, result=("s0*s1", 64)))
    assert shape(graph) == ("s0", 64)
    assert [(one.name, one.hint) for one in graph.symbols] == [("s0", 9)]


def test_symbols_are_named_by_place() -> None:
    assert sizes.independent(relu("s7", "s2", symbols=("s2", "s7"))) == sizes.independent(
        relu("s1", "s4", symbols=("s1", "s4"))
    )


def test_a_multiple_follows() -> None:
    graph = sizes.independent(relu("s0*s1", result=("2*s0*s1",)))
    assert graph.nodes[0].outputs[0].type.shape == ("2*s0",)  # type: ignore[union-attr]


def test_what_no_argument_tells_is_said() -> None:
    apart = relu("s0*s1", result=("s0", "s1"))
    assert sizes.independent(apart) == apart
    assert sizes.untold(apart) == ["s0", "s1"]
    assert sizes.untold(relu("s0", "s1")) == []


def test_how_deep_in_a_network_a_part_is_does_not_show() -> None:
    deep = relu("s3", "16*s2", result=("s3", "8*s2"), symbols=("s2", "s3"))
    less = relu("s1", "4*s7", result=("s1", "2*s7"), symbols=("s1", "s7"))
    found = sizes.independent(deep)
    assert shape(found) == ("s0", "2*s1")
    assert found.nodes[0].outputs[0].type.shape == ("s0", "s1")  # type: ignore[union-attr]
    assert [one.hint for one in found.symbols] == [3, 24]
    assert found.nodes == sizes.independent(less).nodes


def test_symbols_that_a_part_tells_by_their_product_are_named_in_order() -> None:
    graph = sizes.independent(relu("s4", "18*s6", result=("s4", "6*s6", "s6"), symbols=("s4", "s6")))
    assert shape(graph) == ("s0", "18*s1")
    assert sizes.occurring(graph) == ["s0", "s1"]


def test_a_layers_heads_beside_a_product_are_named_by_place_as_well() -> None:
    one, other = (
        sizes.independent(
            relu(
                "s0",
                "s1*s2 + 1",
                f"36*{name}",
                result=("s0", "s1*s2 + 1", 36, name),
                symbols=("s0", "s1", "s2", name),
            )
        )
        for name in ("s6", "s9")
    )
    assert one == other
    assert shape(one) == ("s0", "s1", "36*s2")
    assert one.nodes[0].outputs[0].type.shape == ("s0", "s1", 36, "s2")  # type: ignore[union-attr]
    assert [symbol.hint for symbol in one.symbols] == [3, 10, 3]


def test_a_graph_without_symbols_stays() -> None:
    assert sizes.independent(relu(3, 4, symbols=())) == relu(3, 4, symbols=())


def test_sizes_are_solved_from_formulas_that_are_linear_in_them() -> None:
    assert sizes.solve("3*s0*s1", "s0", "x.shape[1]", {"s1"}) == "(x.shape[1]) // (3*s1)"
    assert sizes.solve("s0 + 2", "s0", "x.shape[1]", set()) == "x.shape[1] - 2"
    assert sizes.solve("s0*s1", "s0", "x.shape[1]", set()) is None
    assert sizes.solve("s0//2", "s0", "x.shape[1]", set()) is None
    assert sizes.solve("s0*s0", "s0", "x.shape[1]", set()) is None


def test_a_symbol_that_nothing_tells_keeps_its_number() -> None:
    fixed = sizes.tellable(relu("s0*s1", result=("s0", "s1")))
    assert len(fixed.symbols) == 1
    assert sizes.untold(fixed) == []


def test_a_symbol_of_which_a_size_would_be_a_half_is_not_made() -> None:
    apart = relu("s1", "4*s0", "s2", result=("2*s0*s2",), symbols=("s0", "s1", "s2"))
    graph = sizes.independent(apart)
    assert shape(graph) == ("s0", "2*s1", "s2")
    assert graph.nodes[0].outputs[0].type.shape == ("s1*s2",)  # type: ignore[union-attr]


def test_a_factor_of_two_symbols_is_divided_out_once() -> None:
    graph = sizes.independent(relu("2*s0", "2*s1", result=("2*s0*s1", "2*s0", "2*s1"), symbols=("s0", "s1")))
    assert shape(graph) == ("s0", "2*s1")
    assert graph.nodes[0].outputs[0].type.shape == ("s0*s1", "s0", "2*s1")  # type: ignore[union-attr]
