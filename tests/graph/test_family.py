"""Graphs of one program at several sizes become one with symbols; the error names a size that follows no formula."""

from __future__ import annotations

import pytest

from kernelwright.graph import Argument, Graph, Node, Ref, TensorType, Value
from kernelwright.graph.family import Formulas, NoFamily, unify
from kernelwright.graph.sizes import evaluate, scale


def halves(n: int, scale: float = 1.0) -> Graph:
    """x [n, 3] as rows of [n // 2, 6], scaled."""
    flat = TensorType(dtype="float32", shape=(n // 2, 6))
    return Graph(
        arguments=(Argument(name="x", type=TensorType(dtype="float32", shape=(n, 3))),),
        nodes=(
            Node(
                op="aten.reshape.default",
                args=(Ref(ref="x"), (n // 2, 6)),
                outputs=(Value(name="h1", type=flat),),
            ),
            Node(op="aten.mul.Scalar", args=(Ref(ref="h1"), scale), outputs=(Value(name="h2", type=flat),)),
        ),
        results=("h2",),
    )


def test_sizes_that_differ_become_formulas() -> None:
    found = unify([halves(8), halves(12), halves(30)], [{"n": 8}, {"n": 12}, {"n": 30}])
    assert [(one.name, one.hint, one.least) for one in found.symbols] == [("n", 8, 8)]
    assert found.arguments[0].type.model_dump()["shape"] == ("n", 3)
    assert evaluate(found.nodes[0].args[1][0].size, {"n": 100}) == 50  # type: ignore[index, union-attr]


def test_a_scale_follows_from_a_size() -> None:
    graphs = [halves(n, n**-0.5) for n in (8, 12, 30)]
    found = unify(graphs, [{"n": 8}, {"n": 12}, {"n": 30}])
    assert found.nodes[1].args[1].scale == "(n)**-0.5"  # type: ignore[union-attr]


def test_an_unbiased_variance_follows_from_a_size() -> None:
    found = unify([halves(n, n / (n - 1)) for n in (8, 12, 30)], [{"n": 8}, {"n": 12}, {"n": 30}])
    assert scale(found.nodes[1].args[1].scale, {"n": 5}) == 1.25  # type: ignore[union-attr]


def test_other_operators_at_other_sizes_are_no_family() -> None:
    other = halves(12)
    changed = other.nodes[1].model_copy(update={"op": "aten.add.Scalar"})
    other = other.model_copy(update={"nodes": (other.nodes[0], changed)})
    with pytest.raises(NoFamily, match="op"):
        unify([halves(8), other], [{"n": 8}, {"n": 12}])


def test_a_plain_quotient_comes_before_a_shifted_one() -> None:
    assert Formulas({"n": (16, 24, 27, 32)}).of((2, 3, 3, 4)) == "n//8"


def test_a_quotient_of_two_sizes_comes_before_longer_formulas() -> None:
    formulas = Formulas({"dim": (4, 8, 4), "heads": (2, 2, 1)})
    assert formulas.of((2, 4, 4)) == "dim//heads"


def test_a_product_of_sizes_seen_before() -> None:
    formulas = Formulas({"c": (8, 16, 8), "h": (14, 14, 20)})
    edge = formulas.of((6, 6, 9))
    assert edge == "(h - 2)//2" or edge == "h//2 - 1"
    assert evaluate(formulas.of((8 * 36, 16 * 36, 8 * 81)), {"c": 3, "h": 10}) == 3 * 16


def test_what_follows_no_formula_is_named() -> None:
    with pytest.raises(NoFamily, match="1, 7, 3"):
        Formulas({"n": (8, 12, 30)}).of((1, 7, 3))


def pooled(n: int) -> Graph:
    """x [1, 4, n, n] after a convolution without padding and three poolings that keep a rest."""
    sizes = [n, (n - 7) // 2 + 1]
    for _ in range(3):
        sizes.append(-(-(sizes[-1] - 3) // 2) + 1)
    kinds = [TensorType(dtype="float32", shape=(1, 4, size, size)) for size in sizes]
    convolution = (Ref(ref="x"), Ref(ref="w"), None, (2, 2), (0, 0), (1, 1), False, (0, 0), 1)
    nodes = [
        Node(op="aten.convolution.default", args=convolution, outputs=(Value(name="h1", type=kinds[1]),))
    ]
    for at in (2, 3, 4):
        args = (Ref(ref=f"h{at - 1}"), (3, 3), (2, 2), (0, 0), (1, 1), True)
        pooling = "aten.max_pool2d.default"
        nodes.append(Node(op=pooling, args=args, outputs=(Value(name=f"h{at}", type=kinds[at]),)))
    weight = TensorType(dtype="float32", shape=(4, 4, 7, 7))
    return Graph(
        arguments=(Argument(name="x", type=kinds[0]), Argument(name="w", type=weight, role="weight")),
        nodes=tuple(nodes),
        results=("h4",),
    )


def test_windows_tell_the_sizes_behind_them() -> None:
    sizes = (32, 33, 36, 64)
    found = unify([pooled(n) for n in sizes], [{"n": n} for n in sizes])
    for n in (47, 64, 161, 256):
        for node, at_n in zip(found.nodes, pooled(n).nodes, strict=True):
            made, wanted = (one.outputs[0].type.shape for one in (node, at_n))  # type: ignore[union-attr]
            assert tuple(evaluate(size, {"n": n}) for size in made) == wanted


def test_what_is_computed_tells_the_size_of_a_weight() -> None:
    def patches(n: int) -> Graph:
        side = n // 16
        kinds = [
            TensorType(dtype="float32", shape=shape)
            for shape in ((1, 3, n, n), (8, 3, 16, 16), (1, 8, side**2), (1, 8, side, side))
        ]
        cut = (Ref(ref="x"), Ref(ref="w"), None, (16, 16), (0, 0), (1, 1), False, (0, 0), 1)
        nodes = (
            Node(op="aten.convolution.default", args=cut, outputs=(Value(name="h1", type=kinds[3]),)),
            Node(
                op="aten.reshape.default",
                args=(Ref(ref="h1"), (1, 8, side**2)),
                outputs=(Value(name="h2", type=kinds[2]),),
            ),
            Node(
                op="aten.add.Tensor",
                args=(Ref(ref="h2"), Ref(ref="p")),
                outputs=(Value(name="h3", type=kinds[2]),),
            ),
        )
        arguments = [Argument(name=name, type=kind) for name, kind in zip("xwp", kinds[:3], strict=True)]
        return Graph(arguments=tuple(arguments), nodes=nodes, results=("h3",))

    sizes = (32, 33, 66)
    found = unify([patches(n) for n in sizes], [{"n": n} for n in sizes])
    place = found.arguments[2].type
    assert isinstance(place, TensorType)
    assert [evaluate(place.shape[2], {"n": n}) for n in (64, 224)] == [16, 196]
