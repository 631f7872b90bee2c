"""Elementwise graphs: one flat loop over the output, or tiles of its rows; every value is computed at its own index."""

from __future__ import annotations

from kernelwright.synth.index import Base, Index, split_index
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import MapSchedule
from kernelwright.synth.sizes import ONE
from kernelwright.synth.source import Source, numel


def print_map(source: Source, schedule: MapSchedule) -> None:
    """`i` runs over the first output's elements. Raises Unsupported for outputs of different sizes."""
    if schedule.rows > 1:
        _print_rows(source, schedule)
        return
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


def _print_rows(source: Source, schedule: MapSchedule) -> None:
    """Tiles of `rows` by `cols` of the last dimension. Raises Unsupported for outputs whose rows differ."""
    shape, emitter = source.outputs[0][1].shape, source.emitter()
    if not shape or shape[-1] == ONE or any(buffer.shape[-1:] != shape[-1:] for _, buffer in source.outputs):
        raise Unsupported("rows of one element, or of different lengths")
    lines = numel(shape[:-1])
    if any(numel(buffer.shape[:-1]) != lines for _, buffer in source.outputs):
        raise Unsupported("a map with outputs of different sizes")
    emitter.names |= {"rows", "cols", "in_rows", "in_cols"}
    rows = Base("rows[:, None]", lines, frozenset({0}), ("in_rows[:, None]",))
    cols = Base("cols[None, :]", shape[-1], frozenset({1}), ("in_cols[None, :]",))
    emitter.line(f"rows = {source.program()} * ROWS + tl.arange(0, ROWS)")
    emitter.line("cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)")
    emitter.line(f"in_rows = rows < {emitter.size(lines)}")
    emitter.line(f"in_cols = cols < {emitter.size(shape[-1])}")
    for value, buffer in source.outputs:
        coordinates = (*split_index(rows, buffer.shape[:-1]), Index.whole(cols))
        emitter.store(f"{buffer.name}_ptr", emitter.value(value, coordinates), buffer.shape, coordinates)
        source.allocate(buffer)
    constants = {"ROWS": str(schedule.rows), "BLOCK": str(schedule.block)}
    grid = f"(triton.cdiv({source.size(lines)}, {schedule.rows}), triton.cdiv({source.size(shape[-1])}, {schedule.block}))"
    source.kernel(emitter, constants, grid, f"num_warps={schedule.warps}")
