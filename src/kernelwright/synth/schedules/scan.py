"""Running sums and products along a dimension, with maps before and after: blocks of a row in order, with a carried value.

One program processes its rows block by block; within a block, Triton scans. A row is not split between programs, so a few long
rows leave most of a GPU idle.
"""

from __future__ import annotations

from kernelwright.precision import FLOATS
from kernelwright.synth.emitter import Coordinates, Guards, Term, emit_value
from kernelwright.synth.index import Base, Index, split_index
from kernelwright.synth.primitives import SCANS, Prim, Unsupported
from kernelwright.synth.program import ScanSchedule
from kernelwright.synth.schedules.row import Space, spread_rows
from kernelwright.synth.sizes import ONE
from kernelwright.synth.source import Source, numel


def scan_of(source: Source) -> Prim:
    """The graph's only scan. Raises Unsupported."""
    prim = source.only("scan", *SCANS)
    if not prim.out.shape:
        raise Unsupported("a scan of one number")
    return prim


class ScanPrinter:
    """One kernel over rows, block by block."""

    def __init__(self, source: Source, schedule: ScanSchedule) -> None:
        self.source, self.schedule, self.prim = source, schedule, scan_of(source)
        self.space = Space(source.shapes.of[self.prim.out.name], (self.prim.attr("dim"),))
        self.rows, self.columns = numel(self.space.kept), numel(self.space.reduced)
        self.wide = schedule.rows > 1
        self.emitter = source.emitter()
        self.emitter.names |= {"row", "rows", "cols", "inside", "in_rows", "start", "carry", "running"}
        masks = ("in_rows",) if self.wide else ()
        self.row = Base(
            "rows" if self.wide else "row", self.rows, frozenset({0}) if self.wide else frozenset(), masks
        )
        axis = 1 if self.wide else 0
        self.axis = axis
        self.cols = Base("cols", self.columns, frozenset({axis}), ("inside",), frozenset({"start"}))
        self.emitter.given[self.prim.out.name] = self._running

    def coordinates(self) -> Coordinates:
        """Coordinates of this program's elements, in the scan's shape."""
        left = list(split_index(self.row, self.space.kept))
        column = Index.whole(self.cols) if self.columns != ONE else Index()
        return tuple(column if i in self.space.dims else left.pop(0) for i in range(len(self.space.shape)))

    def _running(self, coordinates: Coordinates, guard: Guards) -> Term:
        return emit_value("running", coordinates, self.coordinates(), "a scan", self._dtype)

    @property
    def _dtype(self) -> str:
        out = self.prim.out.dtype
        return out if out not in FLOATS or out == "float64" else "float32"

    def body(self) -> None:
        """The loop over a row's blocks."""
        emitter, total = self.emitter, self.prim.op == "cumsum"
        columns = emitter.size(self.columns)
        neutral = ("0" if total else "1") + (".0" if self._dtype in FLOATS else "")
        if self.wide:
            emitter.line(f"rows = ({self.source.program()} * ROWS + tl.arange(0, ROWS))[:, None]")
            emitter.line(f"in_rows = rows < {emitter.size(self.rows)}")
            emitter.line(f"carry = tl.full((ROWS, 1), {neutral}, tl.{self._dtype})")
        else:
            emitter.line(f"row = {self.source.program()}")
            emitter.line(f"carry = tl.full((1,), {neutral}, tl.{self._dtype})")
        emitter.open("start", f"for start in tl.range(0, {columns}, BLOCK):")
        emitter.line("cols = start + tl.arange(0, BLOCK)" + ("[None, :]" if self.wide else ""))
        emitter.line(f"inside = cols < {columns}")
        operand = self.prim.reads()[0]
        term = emitter.cast(emitter.value(operand, self.coordinates()), self._dtype)
        value = term.text if total and term.zero else f"tl.where(inside, {term.text}, {neutral})"
        emitter.line(f"block = {value}")
        sign, scan = ("+", "tl.cumsum") if total else ("*", "tl.cumprod")
        emitter.line(f"running = carry {sign} {scan}(block, axis={self.axis})")
        if total:
            emitter.line(f"carry += tl.sum(block, axis={self.axis}, keep_dims=True)")
        else:
            self.source.helpers.add("multiply")
            emitter.line(f"carry *= tl.reduce(block, {self.axis}, multiply, keep_dims=True)")

    def outputs(self) -> None:
        """The stores inside the loop."""
        self.source.store(self.emitter, self.prim.out, self.coordinates(), "the scan")
        self.emitter.close()


def print_scan(source: Source, schedule: ScanSchedule) -> None:
    """Raises Unsupported if a scan does not fit the graph."""
    printer = ScanPrinter(source, schedule)
    printer.body()
    printer.outputs()
    rows, columns = source.size(printer.rows, True), source.size(printer.columns, True)
    constants, programs = spread_rows(schedule, rows)
    constants["BLOCK"] = f"min({schedule.block}, triton.next_power_of_2({columns}))"
    source.kernel(printer.emitter, constants, f"({programs},)", f"num_warps={schedule.warps}")
