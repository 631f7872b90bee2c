"""Maps whose inputs are contiguous along another dimension than their output: square tiles, transposed within a program.

A tile's rows run along the dimension that is fastest in an input, its columns along the output's last; the other dimensions are
the grid's first axis. Loads and stores are both contiguous; Triton transposes the tile through shared memory.
"""

from __future__ import annotations

from kernelwright.synth.emitter import Coordinates, Emitter, Guards, Term
from kernelwright.synth.index import Base, Index, split_index
from kernelwright.synth.primitives import REDUCTIONS, Unsupported, Val
from kernelwright.synth.program import TransposeSchedule
from kernelwright.synth.schedules.row import space_of
from kernelwright.synth.sizes import ONE, Size, product
from kernelwright.synth.source import Source, numel


class _Watcher(Emitter):
    """Records which dimension of the output is fastest in each load; emits no usable code."""

    fastest: list[str]

    def _load(self, value: Val, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        address = self.address(self.shapes.of[value.name], coordinates)
        if len(address.terms) > 1:
            self.fastest += [part.base.name for part, by in address.terms if by == ONE and part.inner == ONE]
        return Term("x", value.dtype)


def turned_dimension(source: Source) -> int | None:
    """The output dimension that is fastest in some input, if it is not the output's last one."""
    value, buffer = source.outputs[0]
    last = len(buffer.shape) - 1
    found = [dim for dim in _fastest(source, value, buffer.shape) if dim != last]
    return found[0] if found and last > 0 and buffer.shape[last] != ONE else None


def along_rows(source: Source) -> bool:
    """Whether the reduced values are read from memory whose fastest dimension is kept."""
    space = space_of(source)
    reduced = [prim.reads()[0] for prim in source.lowered.prims if prim.op in REDUCTIONS]
    return any(dim not in space.dims for dim in _fastest(source, reduced[0], space.shape))


def _fastest(source: Source, value: Val, shape: tuple[Size, ...]) -> list[int]:
    """The dimensions of a value that are fastest in its loads; empty if unknown."""
    watcher = _Watcher(source.lowered, source.shapes)
    watcher.fastest = []
    where = tuple(
        Index.whole(Base(f"d{dim}", size)) if size != ONE else Index() for dim, size in enumerate(shape)
    )
    try:
        watcher.value(value, where)
    except Unsupported:
        return []
    return [int(name[1:]) for name in watcher.fastest if name[1:].isdigit()]


def print_transpose(source: Source, schedule: TransposeSchedule) -> None:
    """Raises Unsupported if no input is transposed."""
    turned = turned_dimension(source)
    shape = source.outputs[0][1].shape
    if turned is None or any(buffer.shape != shape for _, buffer in source.outputs):
        raise Unsupported("a map that turns nothing")
    emitter, last = source.emitter(), len(shape) - 1
    emitter.names |= {"rows", "cols", "in_rows", "in_cols", "rest"}
    rest = [dim for dim in range(last) if dim != turned]
    sizes = tuple(shape[dim] for dim in rest)
    where: list[Index] = [Index()] * len(shape)
    for dim, index in zip(rest, split_index(Base("rest", product(sizes)), sizes), strict=True):
        where[dim] = index
    where[turned] = Index.whole(Base("rows", shape[turned], frozenset({0}), ("in_rows",)))
    where[last] = Index.whole(Base("cols", shape[last], frozenset({1}), ("in_cols",)))
    emitter.line("rows = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None]")
    emitter.line("cols = (tl.program_id(2) * COLS + tl.arange(0, COLS))[None, :]")
    if numel(sizes) != ONE:
        emitter.line(f"rest = {source.program()}")
    emitter.line(f"in_rows = rows < {emitter.size(shape[turned])}")
    emitter.line(f"in_cols = cols < {emitter.size(shape[last])}")
    for value, buffer in source.outputs:
        emitter.store(f"{buffer.name}_ptr", emitter.value(value, tuple(where)), buffer.shape, tuple(where))
        source.allocate(buffer)
    (rows, cols) = schedule.tile
    grid = f"({source.size(product(sizes))}, triton.cdiv({source.size(shape[turned])}, {rows}), "
    grid += f"triton.cdiv({source.size(shape[last])}, {cols}))"
    constants = {"ROWS": str(rows), "COLS": str(cols)}
    source.kernel(emitter, constants, grid, f"num_warps={schedule.warps}")
