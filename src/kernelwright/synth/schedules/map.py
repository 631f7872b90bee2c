"""Elementwise graphs: one flat loop over the output, every value computed at its own index."""

from __future__ import annotations

from kernelwright.synth.index import Base, split_index
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import MapSchedule
from kernelwright.synth.source import Source, numel


def print_map(source: Source, schedule: MapSchedule) -> None:
    """`i` runs over the first output's elements. Raises Unsupported for outputs of different sizes."""
    total = numel(source.outputs[0][1].shape)
    emitter = source.emitter()
    base = Base("i", total, frozenset({0}), ("inside",))
    emitter.names |= {"i", "inside", "n"}
    for value, buffer in source.outputs:
        if numel(buffer.shape) != total:
            raise Unsupported("a map with outputs of different sizes")
        coordinates = split_index(base, buffer.shape)
        emitter.store(f"{buffer.name}_ptr", emitter.value(value, coordinates), buffer.shape, coordinates)
        source.allocate(buffer)
    head = ["i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)", "inside = i < n"]
    if total.value(source.shapes.hints()) >= 2**31 - schedule.block:
        head[0] = "i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)"
    source.host.append(f"n = {source.outputs[0][1].name}.numel()")
    grid = f"(triton.cdiv(n, {schedule.block}),)"
    constants = {"BLOCK": str(schedule.block)}
    source.kernel(emitter, constants, grid, f"num_warps={schedule.warps}", head=head, extra=["n"])
