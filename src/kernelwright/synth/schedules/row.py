"""Reductions with maps before and after them: norms, softmaxes, losses, sums over any dimensions.

Rows are the kept dimensions, columns the reduced ones, each possibly several. Dependent reductions form levels: with `loop`, each
level is one walk over the columns. All reductions must be over the same dimensions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable

from kernelwright.precision import FLOATS
from kernelwright.synth.emitter import Coordinates, Emitter, Guards, Term
from kernelwright.synth.index import Base, Index, split_index
from kernelwright.synth.primitives import REDUCTIONS, Prim, Unsupported, Val
from kernelwright.synth.program import RowSchedule, ScanSchedule
from kernelwright.synth.sizes import ONE, Size, next_power_of_two
from kernelwright.synth.source import Buffer, Source, numel

_FILL = {
    "sum": "0", "amax": "-inf", "amin": "inf", "prod": "1", "any": "0", "all": "1", "argmax": "-inf",
    "argmin": "inf",
}  # fmt: skip
_JOINED = 16
"""Rows per program of a split's second kernel, which combines parts."""
_EDGES = {"int64": 2**63, "int32": 2**31, "int16": 2**15, "int8": 2**7}


@dataclasses.dataclass
class Space:
    """The space of a reduction: the shape before it, and the reduced dimensions."""

    shape: tuple[Size, ...]
    dims: tuple[int, ...]

    @property
    def kept(self) -> tuple[Size, ...]:
        return tuple(size for i, size in enumerate(self.shape) if i not in self.dims)

    @property
    def reduced(self) -> tuple[Size, ...]:
        return tuple(self.shape[i] for i in self.dims)

    @property
    def contiguous(self) -> bool:
        """Whether the reduced dimensions are the last ones."""
        last = [i for i, size in enumerate(self.shape) if size != ONE]
        own = [i for i in self.dims if self.shape[i] != ONE]
        return last[len(last) - len(own) :] == own


def space_of(source: Source) -> Space:
    """The space of a graph's reductions. Raises Unsupported if they differ."""
    found: Space | None = None
    for prim in source.lowered.prims:
        if prim.op in REDUCTIONS:
            space = Space(source.shapes.of[prim.reads()[0].name], prim.attr("dims"))
            if found is not None and (space.shape, space.dims) != (found.shape, found.dims):
                raise Unsupported("reductions over different dimensions")
            found = space
    if found is None:
        raise Unsupported("no reduction")
    return found


def levels_of(prims: list[Prim]) -> list[list[Prim]]:
    """Reductions by level: how many others they depend on in sequence."""
    level: dict[str, int] = {}
    groups: dict[int, list[Prim]] = {}
    for prim in prims:
        own = max((level.get(one.name, 0) for one in prim.reads()), default=0)
        if prim.op in REDUCTIONS:
            groups.setdefault(own, []).append(prim)
            own += 1
        level[prim.out.name] = own
    return [groups[number] for number in sorted(groups)]


class RowPrinter:
    """One kernel over rows."""

    def __init__(self, source: Source, schedule: RowSchedule) -> None:
        self.source, self.schedule = source, schedule
        self.space = space_of(source)
        self.emitter: Emitter = source.emitter()
        self.emitter.reduce = self.reduce
        self.wide = schedule.rows > 1
        self.axis = 1 if self.wide else 0
        self.rows, self.columns = numel(self.space.kept), numel(self.space.reduced)
        self.emitter.names |= {"row", "rows", "cols", "inside", "in_rows", "start", "part"}
        masks = ("in_rows",) if self.wide else ()
        axes = frozenset({0}) if self.wide else frozenset()
        self.row = Base("rows" if self.wide else "row", self.rows, axes, masks)
        self.columns_base = self._columns("")
        self.levels = levels_of(source.lowered.prims)
        self.walks = 0
        self.done: dict[str, Term] = {}

    def _columns(self, loop: str) -> Base:
        return Base(
            "cols", self.columns, frozenset({self.axis}), ("inside",), frozenset({loop} if loop else ())
        )

    @property
    def kept_coordinates(self) -> Coordinates:
        return split_index(self.row, self.space.kept)

    def full(self, base: Base, kept: Coordinates) -> Coordinates:
        """Coordinates in the space, from the kept ones and a base of columns."""
        kept_left, columns_left = list(kept), list(split_index(base, self.space.reduced))
        return tuple(
            (columns_left if i in self.space.dims else kept_left).pop(0) for i in range(len(self.space.shape))
        )

    # -- reductions -------------------------------------------------------------------------------------------

    def reduce(self, prim: Prim, coordinates: Coordinates, guard: Guards) -> Term:
        """Called by the emitter for reductions."""
        if prim.op not in REDUCTIONS or guard:
            raise Unsupported(f"{prim.op} over rows")
        kept = tuple(
            one for i, one in enumerate(coordinates) if not (prim.attr("keep") and i in prim.attr("dims"))
        )
        if kept != self.kept_coordinates:
            raise Unsupported("a reduced value at other places than its row's")
        if prim.out.name not in self.done:
            if self.schedule.passes == "one_pass":
                self.done[prim.out.name] = self._at_once(prim)
            else:
                self._walk(next(level for level in self.levels if prim in level))
        return self.done[prim.out.name]

    def operand(self, prim: Prim, base: Base) -> Term:
        return self.emitter.value(prim.reads()[0], self.full(base, self.kept_coordinates))

    def _mask(self, prim: Prim, term: Term) -> str:
        if prim.op == "sum" and term.zero and self.axis in term.axes:
            return term.text
        return f"tl.where(inside, {term.text}, {self._fill(prim, term.dtype)})"

    def _fill(self, prim: Prim, dtype: str) -> str:
        text = _FILL[prim.op]
        if dtype in FLOATS:
            return f'float("{text}")' if "inf" in text else f"{text}.0"
        if "inf" in text:
            edge = _EDGES.get(dtype, 2)
            return str(-edge if text == "-inf" else edge - 1)
        return text

    def _prepared(self, prim: Prim, term: Term) -> Term:
        """Booleans as integers, summands in the result's type."""
        if prim.op in ("any", "all"):
            return dataclasses.replace(
                self.emitter.cast(self.emitter.cast(term, "bool"), "int32"), zero=False
            )
        if prim.op in ("sum", "prod"):
            out = prim.out.dtype
            return self.emitter.cast(
                term, out if out not in FLOATS else "float64" if out == "float64" else "float32"
            )
        return self.emitter.cast(term, "int32") if term.dtype == "bool" else term

    def _finish(self, prim: Prim, text: str, dtype: str) -> Term:
        """Reduce along the columns of one tile."""
        keep = f"axis={self.axis}" + (", keep_dims=True" if self.wide else "")
        name = prim.out.name
        if prim.op == "prod":
            self.source.helpers.add("multiply")
        call = {
            "sum": f"tl.sum({text}, {keep})", "amax": f"tl.max({text}, {keep})", "amin": f"tl.min({text}, {keep})",
            "prod": f"tl.reduce({text}, {keep.replace('axis=', '')}, multiply)" if not self.wide
            else f"tl.reduce({text}, {self.axis}, multiply, keep_dims=True)",
            "any": f"tl.max({text}, {keep}) != 0", "all": f"tl.min({text}, {keep}) != 0",
            "argmax": f"tl.argmax({text}, {keep})", "argmin": f"tl.argmin({text}, {keep})",
        }[prim.op]  # fmt: skip
        result = {"any": "bool", "all": "bool", "argmax": "int32", "argmin": "int32"}.get(prim.op, dtype)
        return self.row_term(name, call, result)

    def row_term(self, name: str, text: str, dtype: str) -> Term:
        variable = self.emitter.name(name)
        self.emitter.root.add(f"{variable} = {text}")
        return Term(variable, dtype, self.row.axes, frozenset(), self.row.masks)

    def _at_once(self, prim: Prim) -> Term:
        term = self._prepared(prim, self.operand(prim, self.columns_base))
        return self._finish(prim, self._mask(prim, term), term.dtype)

    def _walk(self, level: list[Prim], also: Callable[[Base], None] | None = None) -> None:
        """One loop over the columns for all reductions of a level; `also` adds lines to it."""
        emitter = self.emitter
        self.walks += 1
        loop = f"walk{self.walks}"
        base = self._columns(loop)
        shape = "(ROWS, BLOCK)" if self.wide else "(BLOCK,)"
        for earlier in self.levels[: self.levels.index(level)]:
            for prim in earlier:
                self.emitter.value(prim.out, self._reduced_coordinates(prim))
        names = {prim.out.name: emitter.name(f"{prim.out.name}_acc") for prim in level}
        depth = len(emitter.scopes)
        self._open(loop)
        finish: list[tuple[Prim, str, str]] = []
        for prim in level:
            term = self._prepared(prim, self.operand(prim, base))
            acc, masked = names[prim.out.name], self._mask(prim, term)
            dtype = "tl." + term.dtype
            emitter.root.add(f"{acc} = tl.full({shape}, {self._fill(prim, term.dtype)}, {dtype})")
            if prim.op in ("argmax", "argmin"):
                finish.append((prim, self._best(prim, acc, masked, term), "int32"))
                continue
            update = {"sum": f"{acc} += {masked}", "prod": f"{acc} *= {masked}"}.get(prim.op)
            larger = "maximum" if prim.op in ("amax", "any") else "minimum"
            emitter.line(update or f"{acc} = tl.{larger}({acc}, {masked})")
            finish.append((prim, acc, term.dtype))
        if also is not None:
            also(base)
        assert depth == len(emitter.scopes) - 1
        emitter.close_loop()
        for prim, acc, dtype in finish:
            if prim.op in ("argmax", "argmin"):
                keep = f"axis={self.axis}" + (", keep_dims=True" if self.wide else "")
                peak = "max" if prim.op == "argmax" else "min"
                text = f"tl.min(tl.where({acc} == tl.{peak}({acc}, {keep}), {acc}_at, {2**31 - 1}), {keep})"
                self.done[prim.out.name] = self.row_term(prim.out.name, text, "int32")
            else:
                self.done[prim.out.name] = self._finish(prim, acc, dtype)

    def _best(self, prim: Prim, acc: str, masked: str, term: Term) -> str:
        """Emit lines that track the best value and its position."""
        shape = "(ROWS, BLOCK)" if self.wide else "(BLOCK,)"
        sign = ">" if prim.op == "argmax" else "<"
        self.emitter.root.add(f"{acc}_at = tl.full({shape}, 0, tl.int32)")
        self.emitter.line(f"{acc}_now = {masked}")
        self.emitter.line(f"{acc}_at = tl.where({acc}_now {sign} {acc}, cols, {acc}_at)")
        self.emitter.line(f"{acc} = tl.{'maximum' if sign == '>' else 'minimum'}({acc}, {acc}_now)")
        return acc

    def open_walk(self, loop: str) -> Base:
        """Open a loop over the columns; returns its base of columns."""
        self._open(loop)
        return self._columns(loop)

    def _open(self, loop: str) -> None:
        emitter = self.emitter
        low, high = ("begin", "end") if self.schedule.passes == "split" else ("0", emitter.size(self.columns))
        emitter.open(loop, f"for start in tl.range({low}, {high}, BLOCK):")
        emitter.line("cols = start + tl.arange(0, BLOCK)" + ("[None, :]" if self.wide else ""))
        emitter.line(f"inside = cols < {high}")

    def _reduced_coordinates(self, prim: Prim) -> Coordinates:
        kept = list(self.kept_coordinates)
        if not prim.attr("keep"):
            return tuple(kept)
        return tuple(Index() if i in prim.attr("dims") else kept.pop(0) for i in range(len(self.space.shape)))

    # -- the kernel -------------------------------------------------------------------------------------------

    def outputs(self) -> list[str]:
        """Compute and store every result; returns the outputs' names."""
        names = []
        wide, narrow = [], []
        hints = self.source.shapes.hints()
        rows, columns = self.rows.value(hints), self.columns.value(hints)
        for value, buffer in self.source.outputs:
            total = math.prod(value.shape)
            if total == rows:
                narrow.append((value, buffer))
            elif total == rows * columns:
                wide.append((value, buffer))
            else:
                raise Unsupported("an output that is neither a row's value nor a whole row")
        for value, buffer in narrow:
            self.store_narrow(value, buffer)
        if wide:
            self._wide_outputs(wide)
        for _, buffer in self.source.outputs:
            self.source.allocate(buffer)
            names.append(buffer.name)
        return names

    def store_narrow(self, value: Val, buffer: Buffer) -> None:
        """Store a result with one value per row."""
        coordinates = self._narrow_coordinates(value, buffer)
        self.emitter.store(
            f"{buffer.name}_ptr", self.emitter.value(value, coordinates), buffer.shape, coordinates
        )

    def _narrow_coordinates(self, value: Val, buffer: Buffer) -> Coordinates:
        reductions = {prim.out.name: prim for level in self.levels for prim in level}
        for name, prim in reversed(reductions.items()):
            if self.emitter.depends(value.name, frozenset({name})):
                return self.emitter.forward(value, frozenset({name}), self._reduced_coordinates(prim))
        return self.emitter.reshape(self.kept_coordinates, self.space.kept, buffer.shape)

    def _wide_outputs(self, outputs: list[tuple[Val, Buffer]]) -> None:
        emitter, base = self.emitter, self.columns_base
        looped = self.schedule.passes != "one_pass"
        if looped:
            for level in self.levels:
                for prim in level:
                    emitter.value(prim.out, self._reduced_coordinates(prim))
            base = self._columns("last")
            self._open("last")
        self.store_wide(outputs, base)
        if looped:
            emitter.close()

    def store_wide(self, outputs: list[tuple[Val, Buffer]], base: Base) -> None:
        """Store full-length results, at the columns of a base."""
        spaces = frozenset(name for name, shape in self.source.shapes.of.items() if shape == self.space.shape)
        full = self.full(base, self.kept_coordinates)
        for value, buffer in outputs:
            coordinates = self._placed(value, spaces, full, buffer)
            term = self.emitter.value(value, coordinates)
            self.emitter.store(f"{buffer.name}_ptr", term, buffer.shape, coordinates)

    def _placed(self, value: Val, spaces: frozenset[str], full: Coordinates, buffer: Buffer) -> Coordinates:
        """Coordinates of a row's elements in an output: by its views, or else in the same order. Either covers every element
        once, and the value stored is computed for that position."""
        if self.emitter.depends(value.name, spaces):
            with contextlib.suppress(Unsupported):  # it may depend on the space only through a reduction
                return self.emitter.forward(value, spaces, full)
        return self.emitter.reshape(full, self.space.shape, buffer.shape)

    def rows_head(self) -> list[str]:
        """Lines that compute a program's rows."""
        if self.wide:
            return [f"rows = ({self.source.program()} * ROWS + tl.arange(0, ROWS))[:, None]",
                    f"in_rows = rows < {self.emitter.size(self.rows)}"]  # fmt: skip
        return [f"row = {self.source.program()}"] if self.rows != ONE else []

    def head(self) -> list[str]:
        """The first lines of the kernel."""
        emitter, lines = self.emitter, self.rows_head()
        if self.schedule.passes == "one_pass":
            lines.append("cols = tl.arange(0, BLOCK)" + ("[None, :]" if self.wide else ""))
            lines.append(f"inside = cols < {emitter.size(self.columns)}")
        return lines


def spread_rows(schedule: RowSchedule | ScanSchedule, rows: str) -> tuple[dict[str, str], str]:
    """The constants and the grid's size of a kernel whose programs take `schedule.rows` of so many rows (host text)."""
    if schedule.rows == 1:
        return {}, rows
    return {"ROWS": str(schedule.rows)}, f"triton.cdiv({rows}, {schedule.rows})"


def print_row(
    source: Source, schedule: RowSchedule, before: Callable[[RowPrinter], None] | None = None
) -> None:
    """Print a row schedule. `before` may compute reductions in its own way. Raises Unsupported if rows do not fit the graph."""
    if schedule.passes == "split":
        _print_split(source, schedule)
        return
    printer = RowPrinter(source, schedule)
    if printer.wide and printer.rows == ONE:
        raise Unsupported("several rows a program, where there is one")
    if before is not None:
        before(printer)
    names = printer.outputs()
    head = printer.head()
    constants, programs = spread_rows(schedule, source.size(printer.rows))
    columns = source.size(printer.columns)
    constants["BLOCK"] = (
        f"triton.next_power_of_2({columns})" if schedule.passes == "one_pass" else str(schedule.block)
    )
    options = f"num_warps={schedule.warps}"
    source.kernel(printer.emitter, constants, f"({programs},)", options, outputs=names, head=head)


Parts = list[tuple[Prim, Buffer]]
"""Reductions with the buffers that hold their parts."""


def _print_split(source: Source, schedule: RowSchedule) -> None:
    """Parts of a row reduced by separate programs: one kernel per level, each of which combines the parts of earlier levels; then
    the values of each row, and full-length results. Rows shorter than the parts' blocks have fewer parts."""
    levels = levels_of(source.lowered.prims)
    if any(prim.op in ("argmax", "argmin") for level in levels for prim in level):
        raise Unsupported("split rows with places of extremes")
    parts: Parts = []
    first = RowPrinter(source, schedule)
    columns, block = source.size(first.columns), schedule.block
    source.host.append(
        f"part_size = triton.cdiv(triton.cdiv({columns}, {schedule.split}), {block}) * {block}"
    )
    at_once, later = _wide_results(first, levels)
    for number, level in enumerate(levels):
        parts += _print_parts(source, schedule, number, level, parts, [] if number else at_once)
    if len(at_once) + len(later) < len(source.outputs):
        _print_joined(source, schedule, parts)
    if later:
        printer = RowPrinter(source, schedule)
        _join(printer, schedule.split, parts)
        base = printer.open_walk("last")
        printer.store_wide(later, base)
        printer.emitter.close()
        for _, buffer in later:
            source.allocate(buffer)
        _launch_parts(printer, "applied", [buffer.name for _, buffer in later], parts)


def _print_parts(
    source: Source,
    schedule: RowSchedule,
    number: int,
    level: list[Prim],
    known: Parts,
    wide: list[tuple[Val, Buffer]],
) -> Parts:
    """One level's kernel, which also stores `wide` results during its walk; returns the parts that it leaves."""
    printer = RowPrinter(source, schedule)
    emitter, made = printer.emitter, list[tuple[Prim, Buffer]]()
    _join(printer, schedule.split, known)
    printer._walk(level, (lambda base: printer.store_wide(wide, base)) if wide else None)
    for prim in level:
        term = printer.done[prim.out.name]
        count = Size.of(schedule.split)
        shape = (count, printer.rows) if printer.wide else (printer.rows, count)
        buffer = Buffer(f"{prim.out.name}_partial", "int32" if term.dtype == "bool" else term.dtype, shape)
        emitter.names.add(f"{buffer.name}_ptr")
        mask = ", mask=in_rows" if printer.wide else ""
        emitter.line(
            f"tl.store({buffer.name}_ptr + {_part_of(printer, schedule.split, 'part')}, {term.text}{mask})"
        )
        made.append((prim, buffer))
        source.allocate(buffer)
    for _, buffer in wide:
        source.allocate(buffer)
    names = [one.name for one in (*(buffer for _, buffer in wide), *(buffer for _, buffer in made))]
    _launch_parts(printer, f"parts{number + 1 if number else ''}", names, known)
    return made


def _part_of(printer: RowPrinter, split_into: int, part: str) -> str:
    """Offset of a part of a program's rows: parts of adjacent rows are adjacent if a program has several rows."""
    if printer.wide:
        return f"{part} * {printer.emitter.size(printer.rows, True)} + rows"
    return f"row * {split_into} + {part}" if printer.rows != ONE else part


def _join(printer: RowPrinter, split_into: int, parts: Parts) -> None:
    """Emit lines that combine the parts of earlier levels."""
    if not parts:
        return
    emitter = printer.emitter
    emitter.names |= {"parts", "in_parts", "part_size"}
    power = next_power_of_two(split_into)
    emitter.root.add(f"parts = tl.arange(0, {power})" + ("[None, :]" if printer.wide else ""))
    emitter.root.add(f"in_parts = parts < tl.cdiv({emitter.size(printer.columns)}, part_size)")
    masks = ["in_rows", "in_parts"] if printer.wide else ["in_parts"]
    for prim, buffer in parts:
        emitter.names.add(f"{buffer.name}_ptr")
        fill = printer._fill(prim, buffer.dtype)
        mask = f"mask={' & '.join(masks)}, other={fill}"
        place = _part_of(printer, split_into, "parts")
        emitter.root.add(f"{buffer.name} = tl.load({buffer.name}_ptr + {place}, {mask})")
        printer.done[prim.out.name] = printer._finish(prim, buffer.name, buffer.dtype)


def _given_sizes(parts: Parts) -> dict[str, str]:
    return {f"{buffer.name}_ptr": buffer.name for _, buffer in parts}


def _launch_parts(printer: RowPrinter, suffix: str, outputs: list[str], parts: Parts) -> None:
    """Launch a kernel whose programs cover rows and their parts."""
    source, schedule, emitter = printer.source, printer.schedule, printer.emitter
    emitter.names |= {"begin", "end", "part_size", "part"}
    columns = emitter.size(printer.columns)
    head = [*printer.head(), "part = tl.program_id(1)",
            "begin = part * part_size", f"end = tl.minimum(begin + part_size, {columns})"]  # fmt: skip
    constants, programs = spread_rows(schedule, source.size(printer.rows))
    constants["BLOCK"] = str(schedule.block)
    grid = f"({programs}, triton.cdiv({source.size(printer.columns)}, part_size))"
    source.kernel(emitter, constants, grid, f"num_warps={schedule.warps}", suffix, outputs=outputs, head=head,
                  extra=("part_size",), given=_given_sizes(parts))  # fmt: skip


def _wide_results(
    first: RowPrinter, levels: list[list[Prim]]
) -> tuple[list[tuple[Val, Buffer]], list[tuple[Val, Buffer]]]:
    """Full-length results: those that the first walk can store, and those that depend on a reduction."""
    reductions = frozenset(prim.out.name for level in levels for prim in level)
    wide = [(value, buffer) for value, buffer in first.source.outputs if numel(buffer.shape) != first.rows]
    if any(numel(buffer.shape) != numel(first.space.shape) for _, buffer in wide):
        raise Unsupported("split rows with outputs of another length")
    at_once = [pair for pair in wide if not first.emitter.depends(pair[0].name, reductions)]
    return at_once, [pair for pair in wide if pair not in at_once]


def _print_joined(source: Source, schedule: RowSchedule, parts: Parts) -> None:
    """The kernel that combines parts to the values of a row, with the maps after them."""
    many = _JOINED if schedule.rows > 1 else 1
    printer = RowPrinter(source, schedule.model_copy(update={"passes": "one_pass", "rows": many, "split": 1}))
    _join(printer, schedule.split, parts)
    narrow = [(value, buffer) for value, buffer in source.outputs if numel(buffer.shape) == printer.rows]
    for value, buffer in narrow:
        printer.store_narrow(value, buffer)
        source.allocate(buffer)
    constants, programs = spread_rows(printer.schedule, source.size(printer.rows))
    source.kernel(printer.emitter, constants, f"({programs},)", "num_warps=4", "joined",
                  outputs=[buffer.name for _, buffer in narrow], head=printer.rows_head(), extra=("part_size",),
                  given=_given_sizes(parts))  # fmt: skip
