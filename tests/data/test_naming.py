"""Names of drawn graphs."""

import random

from kernelwright.data.naming import rename_values
from kernelwright.graph.structure import structure
from kernelwright.graph.text import to_text
from kernelwright.synth.building import GraphBuilder


def test_styles_rename_everything_and_change_nothing_else() -> None:
    b = GraphBuilder("layer")
    x, w = b.input("h2", "float32", (8, 64)), b.input("w", "float32", (32, 64), role="weight")
    v = b.input("v0", "float32", (32,), role="weight")
    graph = b.graph(b.op("aten.gelu.default", b.op("aten.linear.default", x, w, v)))
    seen = {}
    for seed in range(40):
        made, new = rename_values(graph, random.Random(seed))
        assert structure(made) == structure(graph)
        assert list(new.values())[:3] == [one.name for one in made.arguments]
        assert made.model_validate_json(made.model_dump_json()) == made
        seen[to_text(made).splitlines()[3].split(":")[0]] = [one.name for one in made.arguments]
    assert seen["v0"] == ["x0", "w1", "w2"]
    assert seen["h1"] == ["x1", "w1", "b1"]
    assert len(seen) == 3


def test_a_corpus_may_keep_to_one_style() -> None:
    builder = GraphBuilder("g")
    x = builder.input("x", "float32", (4, 8))
    graph = builder.graph(builder.call("exp", x))
    assert {rename_values(graph, random.Random(seed), ["drawn"])[0] for seed in range(9)} == {graph}
