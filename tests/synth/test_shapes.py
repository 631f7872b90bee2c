"""Which sizes of a graph vary together."""

from typing import Any

import pytest
from running_programs import graph_of

from kernelwright.synth.to_triton import source_of


@pytest.mark.parametrize("name", ["x", "image", "y", "a", "hidden", "planes"])
def test_sides_of_a_square_keep_their_order_through_a_flat_view(name: str) -> None:
    def make(b: Any) -> Any:
        flat = b.op("aten.view.default", b.input(name, "float32", (2, 3, 64, 64)), [6, 4096])
        return b.op("aten.view.default", b.op("aten.neg.default", flat), [2, 3, 64, 64])

    shapes = source_of(graph_of(make)).shapes
    result = shapes.lowered.results[0].name
    assert shapes.of[result] == shapes.of[name]
