"""Tile products: `rows x columns` tiles of matmul, batched or not, with maps on the operands and after the sum.

The contraction runs in steps of BLOCK_K with a float32 accumulator. Programs take tiles in groups of rows, so that operands stay
in L2; persistent programs process several tiles. With descriptors, aligned operands are loaded by the tensor memory accelerator,
others through pointers. A split contraction leaves partial sums to a second kernel.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Sequence

from kernelwright.synth.emitter import (
    TL,
    Coordinates,
    Emitter,
    Guards,
    Term,
    emit_value,
    input_precision,
    place_tile,
)
from kernelwright.synth.index import Base, Index, split_index
from kernelwright.synth.primitives import Prim, Unsupported, Val
from kernelwright.synth.program import ProductSchedule, TileDecisions
from kernelwright.synth.shapes import groups_of
from kernelwright.synth.sizes import ONE, ZERO, Size, product
from kernelwright.synth.source import Buffer, Source, numel

_NAMES = ("m", "n", "k", "acc", "left", "right", "tile", "tiles", "batch", "start", "in_m", "in_n", "in_k", "m_at", "n_at", "tile_m", "tile_n",
          "tiles_m", "tiles_n", "first_m", "rows_m", "width", "part", "begin", "end", "part_k")  # fmt: skip
ITEMSIZE = {"float32": 4, "bfloat16": 2, "float16": 2}


def product_of(source: Source) -> Prim:
    """The graph's only contraction. Raises Unsupported."""
    prim = source.only("product", "matmul")
    left, right = (one.dtype for one in prim.args)
    if left not in ITEMSIZE or left != right:
        raise Unsupported(f"a product of {left} and {right}")
    return prim


@dataclasses.dataclass(frozen=True)
class Side:
    """An operand of the product, and its memory layout."""

    value: Val
    row: bool
    argument: str = ""
    """The argument that it is, possibly transposed; empty if maps come before the product."""
    along_k: bool = True
    """Whether the contraction is the fastest dimension in memory."""


def side_of(source: Source, prim: Prim, row: bool) -> Side:
    """The source of an operand: an argument, if only views and permutations that leave a matrix lie between."""
    value: Val = prim.args[0 if row else 1]
    made = {one.out.name: one for one in source.lowered.prims}
    chain: list[Prim] = []
    name = value.name
    while name in made:
        reads = made[name].reads()
        if not reads:
            return Side(value, row)
        chain.append(made[name])
        name = reads[0].name
    start = next(one for one in source.lowered.arguments if one.name == name)
    order, plain = list(range(len(start.shape))), True
    for step in reversed(chain):
        if step.op == "permute":
            order = [order[one] for one in step.attr("order")]
        elif step.op == "view":
            plain = plain and order == sorted(order)  # merges dimensions in memory order
            order = _view(order, step)
        elif step.op != "alias":
            plain = False
            if len(step.out.shape) != len(order):
                order = list(range(len(step.out.shape)))
    rank = len(value.shape)
    turned = len(order) > 1 and order[-1] != rank - 1
    plain = (
        plain and order[: rank - 2] == list(range(rank - 2)) and sorted(order[-2:]) == [rank - 2, rank - 1]
    )
    return Side(value, row, name if plain else "", turned != row)


def _view(order: list[int], step: Prim) -> list[int]:
    """The memory order of a view's dimensions, as far as it determines the fastest one."""
    have, want = step.reads()[0].shape, step.out.shape
    fastest = order.index(max(order)) if order else 0
    last = next(
        (right[-1] for left, right in groups_of(have, want) if fastest in left and right), len(want) - 1
    )
    return [*range(last), len(want) - 1, *range(last, len(want) - 1)] if want else []


class ProductPrinter:
    """One kernel over tiles of a product, or of several with the same left operand and number of columns."""

    def __init__(self, source: Source, schedule: TileDecisions, prims: Sequence[Prim] = ()) -> None:
        self.source, self.schedule = source, schedule
        self.prims = list(prims) or [product_of(source)]
        self.prim = self.prims[0]
        self.shapes = source.shapes
        self.a = side_of(source, self.prim, True)
        self.rights = [side_of(source, one, False) for one in self.prims]
        a, b, out = (self.shapes.of[one.name] for one in (*self.prim.args, self.prim.out))
        self.k = a[-1]
        self.batched = len(b) > 2 and numel(b[:-2]) != ONE
        self.batch = out[:-2] if self.batched else ()
        self.row_shape = (out[-2],) if self.batched else out[:-1]
        self.m, self.n = numel(self.row_shape), out[-1]
        if ONE in (self.m, self.n) or self.k == ZERO:
            raise Unsupported("a product with one row or column, or of nothing, which is no tile")
        self.emitter: Emitter = source.emitter()
        self.loops = frozenset({"tile"}) if schedule.persistent else frozenset()
        self.m_base = Base("m[:, None]", self.m, frozenset({0}), ("in_m[:, None]",), self.loops)
        self.n_base = Base("n[None, :]", self.n, frozenset({1}), ("in_n[None, :]",), self.loops)
        alone = len(self.prims) == 1
        self.right_names = ["right"] if alone else [f"right{i}" for i in range(len(self.prims))]
        self.accumulators = ["acc"] if alone else [f"acc{i}" for i in range(len(self.prims))]
        self.emitter.names |= {*_NAMES, *self.right_names, *self.accumulators}
        for place, one in enumerate(self.prims):
            self.emitter.given[one.out.name] = functools.partial(self._accumulate, place)
        self.made = frozenset(one.out.name for one in self.prims)
        self.through = self._descriptors()

    def _descriptors(self) -> bool:
        """Whether operands can be loaded through descriptors at all: plain arguments without batches."""
        if self.schedule.loads != "descriptor":
            return False
        read = [self.a.argument, *(one.argument for one in self.rights)]
        if "" in read or len(set(read)) < len(read) or self.batched:
            raise Unsupported("descriptors of operands that are computed, batched, or one and the same")
        return True

    # -- operands ---------------------------------------------------------------------------------------------

    def batch_coordinates(self) -> tuple[Index, ...]:
        if not self.batched:
            return ()
        return split_index(Base("batch", product(self.batch), loops=self.loops), self.batch)

    def own_coordinates(self) -> Coordinates:
        """Coordinates of a program's tile, or of the piece of it that is being stored."""
        return (
            *self.batch_coordinates(),
            *split_index(self.m_base, self.row_shape),
            Index.whole(self.n_base),
        )

    def _operand(self, side: Side) -> Term:
        """A tile of an operand through pointers, in the operand's type."""
        loops = self.loops | {"k"}
        if side.row:
            k = Base("k[None, :]", self.k, frozenset({1}), ("in_k[None, :]",), loops)
            m = self.m_base
            if side.along_k:
                m = dataclasses.replace(m, name="m_at[:, None]", masks=())
            own = (*split_index(m, self.row_shape), Index.whole(k))
        else:
            k = Base("k[:, None]", self.k, frozenset({0}), ("in_k[:, None]",), loops)
            n = self.n_base
            if side.along_k:
                n = dataclasses.replace(n, name="n_at[None, :]", masks=())
            own = (Index.whole(k), Index.whole(n))
        own = self.emitter.broadcast(side.value, (*self.batch_coordinates(), *own))
        term = self.emitter.cast(self.emitter.value(side.value, own, raw=True), side.value.dtype)
        if len(term.axes) == 2:
            return term
        tile = "(BLOCK_M, BLOCK_K)" if side.row else "(BLOCK_K, BLOCK_N)"
        text = (
            f"tl.broadcast_to({term.text}, {tile})"
            if term.axes
            else f"tl.full({tile}, {term.text}, {TL[term.dtype]})"
        )
        return dataclasses.replace(term, text=text, zero=False)

    def _dot(self, acc: str, a: str, b: str) -> str:
        precision = input_precision(self.a.value.dtype, self.schedule.precision)
        return f"{acc} = tl.dot({a}, {b}, {acc}{precision})"

    def walk(self) -> None:
        """The loop along the contraction."""
        emitter = self.emitter
        k = emitter.size(self.k)
        for acc in self.accumulators:
            emitter.line(f"{acc} = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)")
        low, high, last = (
            ("begin", "end", "tl.maximum(end, begin + 1)") if self.schedule.split_k > 1 else ("0", k, k)
        )
        if self.schedule.split_k == 1 and not self.schedule.persistent:
            emitter.line(f"tl.assume({k} > 0)")
        # A loop that may be empty has a second way to its end, for which the assembler waits after each wgmma.
        emitter.open("k", f"for start in range({low}, {last}, BLOCK_K):")
        names = ["left", *self.right_names]
        sides = list(zip(names, (self.a, *self.rights), strict=True))
        loads = [f"{name} = {self._tile_load(side)}" for name, side in sides] if self.through else []
        with emitter.otherwise("DESCRIPTORS", *loads) if loads else contextlib.nullcontext():
            emitter.line("k = start + tl.arange(0, BLOCK_K)")
            even = " | EVEN_K" if self.schedule.split_k == 1 else ""
            emitter.line(f"in_k = (k < {high}){even}" if even else f"in_k = k < {high}")
            terms = [self._operand(side) for _, side in sides]
            texts = [one.text for one in terms]
            if not any(one.zero for one in terms):
                texts[0] = f"tl.where(in_k[None, :], {texts[0]}, 0.0)"
            for name, text in zip(names, texts, strict=True) if loads else ():
                emitter.line(f"{name} = {text}")
        texts = names if loads else texts
        for acc, right in zip(self.accumulators, texts[1:], strict=True):
            emitter.line(self._dot(acc, texts[0], right))
        emitter.close()

    def _tile_load(self, side: Side) -> str:
        """A tile through its descriptor, transposed if the memory order requires it."""
        place = "tile_m * BLOCK_M" if side.row else "tile_n * BLOCK_N"
        indices = f"[{place}, start]" if side.along_k else f"[start, {place}]"
        turned = side.along_k != side.row
        return f"{side.argument}_desc.load({indices}){'.T' if turned else ''}"

    def descriptor_of(self, side: Side) -> str:
        """The host's expression for an operand's descriptor."""
        m, n, k = self.schedule.tile
        own, own_size = (m, self.m) if side.row else (n, self.n)
        block = [own, k] if side.along_k else [k, own]
        width = self.k if side.along_k else own_size
        flat = self.source.hosted(side.argument)
        if len(self.shapes.of[side.argument]) != 2:
            flat = f"{flat}.view(-1, {self.source.size(width)})"
        return f"TensorDescriptor.from_tensor({flat}, {block})"

    def _accumulate(self, place: int, coordinates: Coordinates, guard: Guards) -> Term:
        return emit_value(self.accumulators[place], coordinates, self.own_coordinates(), "a product")

    # -- the kernel -------------------------------------------------------------------------------------------

    def find_tile(self) -> None:
        """Emit lines that find this program's tile; for persistent programs, opens the loop over tiles."""
        emitter = self.emitter
        m, n = emitter.size(self.m), emitter.size(self.n)
        emitter.line(f"tiles_m = tl.cdiv({m}, BLOCK_M)")
        emitter.line(f"tiles_n = tl.cdiv({n}, BLOCK_N)")
        if self.schedule.persistent:
            flat = ", flatten=True" if self.schedule.flat else ""
            emitter.open(
                "tile", f"for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS{flat}):"
            )
        else:
            emitter.line("tile = tl.program_id(0)")
        place_tile(emitter, m, n, self.schedule.group)
        if self.a.along_k:
            emitter.line(f"m_at = m % {emitter.size(self.m, True)}")
        if any(one.along_k for one in self.rights):
            emitter.line(f"n_at = n % {emitter.size(self.n, True)}")

    def constants(self) -> dict[str, str]:
        """Host values of the kernel's constants."""
        m, n, k = self.schedule.tile
        found = {"BLOCK_M": str(m), "BLOCK_N": str(n), "BLOCK_K": str(k)}
        if self.schedule.group > 1:
            found["GROUP"] = str(self.schedule.group)
        if self.schedule.split_k == 1:
            found["EVEN_K"] = f"{self.source.size(self.k)} % {k} == 0"
        if self.schedule.persistent:
            found["PROGRAMS"] = "programs"
        if self.through:
            found["DESCRIPTORS"] = "aligned"
        return found

    def finish(self) -> None:
        """The epilogue: maps after the sum, and the stores, in pieces along the columns."""
        pieces = self.schedule.epilogue
        if pieces == 1:
            self.store("n", "")
            return
        emitter, step = self.emitter, self.schedule.tile[1] // pieces
        emitter.names |= {f"{name}{i}" for name in ("n_", "in_n_") for i in range(4)}
        parts = [self._pieces(name, pieces) for name in self.accumulators]
        for place, names in enumerate(zip(*parts, strict=True)):
            variable = f"n_{place}"
            emitter.line(f"{variable} = tile_n * BLOCK_N + {place * step} + tl.arange(0, {step})")
            emitter.line(f"in_{variable} = {variable} < {emitter.size(self.n)}")
            self.accumulators = list(names)
            self.n_base = Base(
                f"{variable}[None, :]", self.n, frozenset({1}), (f"in_{variable}[None, :]",), self.loops
            )
            self.store(variable, f" + {place * step}" if place else "")

    def _pieces(self, name: str, count: int) -> list[str]:
        """Emit lines that split an accumulator along the columns; returns the pieces' names."""
        names = [name]
        while len(names) < count:
            columns, halves = self.schedule.tile[1] // (2 * len(names)), list[str]()
            for one in names:
                left, right = f"{one}_0", f"{one}_1"
                split_text = f"tl.split(tl.permute(tl.reshape({one}, (BLOCK_M, 2, {columns})), (0, 2, 1)))"
                self.emitter.line(f"{left}, {right} = {split_text}")
                halves += [left, right]
            names = halves
        self.emitter.names |= set(names)
        return names

    def store(self, variable: str, shift: str) -> None:
        """Store every result of the tile, or of a piece of it."""
        emitter, space = self.emitter, self.shapes.of[self.prim.out.name]
        for value, buffer in self.source.outputs:
            if numel(buffer.shape) != numel(space):
                raise Unsupported("an output of another size than the product")
            where = emitter.forward(value, self.made, self.own_coordinates())
            term = emitter.value(value, where)
            if self.stored(buffer):
                place, half = (
                    f"[tile_m * BLOCK_M, tile_n * BLOCK_N{shift}]",
                    f"{term.text}.to({TL[buffer.dtype]})",
                )
                with emitter.otherwise("DESCRIPTORS", f"{buffer.name}_desc.store({place}, {half})"):
                    emitter.store(f"{buffer.name}_ptr", term, buffer.shape, where)
            else:
                emitter.store(f"{buffer.name}_ptr", term, buffer.shape, where)

    def stored(self, buffer: Buffer) -> bool:
        """Whether an output is stored through a descriptor: unchanged rows of the product."""
        return (
            self.through and buffer.shape == self.shapes.of[self.prim.out.name] and buffer.dtype in ITEMSIZE
        )


def print_product(source: Source, schedule: ProductSchedule) -> None:
    """Raises Unsupported if a product does not fit the graph."""
    if schedule.split_k > 1:
        _print_split(source, schedule)
        return
    print_tiles(source, ProductPrinter(source, schedule))


def print_tiles(source: Source, printer: ProductPrinter) -> None:
    """A kernel whose programs take tiles of one grid."""
    printer.find_tile()
    if printer.batched:
        printer.emitter.line("batch = tl.program_id(1)")
    printer.walk()
    printer.finish()
    if printer.schedule.persistent:
        printer.emitter.close()
    for _, buffer in source.outputs:
        source.allocate(buffer)
    _launch(source, printer)


def _launch(source: Source, printer: ProductPrinter) -> None:
    schedule, given = printer.schedule, dict[str, str]()
    tiles = _tiles_of(source, printer)
    if schedule.persistent:
        count = f"torch.cuda.get_device_properties({source.device}.device).multi_processor_count"
        source.host.append(f"programs = min({count}, {tiles})")
        tiles = "programs"
    grid = f"({tiles}, {source.size(product(printer.batch))})" if printer.batched else f"({tiles},)"
    if printer.batched and schedule.persistent:
        raise Unsupported("persistent programs over batches")
    if printer.through:
        given = _host_descriptors(source, printer)
    options = f"num_warps={schedule.warps}, num_stages={schedule.stages}"
    source.kernel(printer.emitter, printer.constants(), grid, options, given=given)


def _tiles_of(source: Source, printer: ProductPrinter) -> str:
    """The number of a product's tiles, as host text."""
    m, n = source.size(printer.m, True), source.size(printer.n, True)
    return f"triton.cdiv({m}, {printer.schedule.tile[0]}) * triton.cdiv({n}, {printer.schedule.tile[1]})"


def _host_descriptors(source: Source, printer: ProductPrinter, stores: bool = True) -> dict[str, str]:
    """Host lines that create descriptors if all rows are aligned; returns the arguments for the parameters."""
    made: dict[str, tuple[str, str]] = {}
    needed: list[Size] = []
    for side in (printer.a, *printer.rights):
        made[f"{side.argument}_desc"] = (source.hosted(side.argument), printer.descriptor_of(side))
        needed.append(printer.k if side.along_k else printer.m if side.row else printer.n)
    for _, buffer in source.outputs:
        if stores and printer.stored(buffer):
            made[f"{buffer.name}_desc"] = (buffer.name, _stored_descriptor(source, printer, buffer))
            needed.append(printer.n)
    unit = 16 // ITEMSIZE[printer.a.value.dtype]
    tests = dict.fromkeys(f"{source.size(size, True)} % {unit} == 0" for size in needed)
    return source.hand_over(" and ".join(tests), made)


def _stored_descriptor(source: Source, printer: ProductPrinter, buffer: Buffer) -> str:
    schedule = printer.schedule
    flat = buffer.name if len(buffer.shape) == 2 else f"{buffer.name}.view(-1, {source.size(printer.n)})"
    return (
        f"TensorDescriptor.from_tensor({flat}, [{schedule.tile[0]}, {schedule.tile[1] // schedule.epilogue}])"
    )


def _print_split(source: Source, schedule: ProductSchedule) -> None:
    """Partial sums in float32, then a kernel for their sum and the maps after it."""
    printer = ProductPrinter(source, schedule)
    emitter = printer.emitter
    printer.find_tile()
    if printer.batched:
        emitter.line("batch = tl.program_id(2)")
    k = emitter.size(printer.k)
    emitter.line("part = tl.program_id(1)")
    emitter.line(f"part_k = tl.cdiv(tl.cdiv({k}, {schedule.split_k}), BLOCK_K) * BLOCK_K")
    emitter.line("begin = part * part_k")
    emitter.line(f"end = tl.minimum(begin + part_k, {k})")
    printer.walk()
    partial = Buffer("partial", "float32", (Size.of(schedule.split_k), *printer.batch, printer.m, printer.n))
    where = (
        Index.whole(Base("part", Size.of(schedule.split_k))),
        *printer.batch_coordinates(),
        Index.whole(printer.m_base),
        Index.whole(printer.n_base),
    )
    emitter.store("partial_ptr", Term("acc", "float32"), partial.shape, where)
    source.allocate(partial)
    options = f"num_warps={schedule.warps}, num_stages={schedule.stages}"
    given = _host_descriptors(source, printer, stores=False) if printer.through else {}
    batches = f", {source.size(product(printer.batch))}" if printer.batched else ""
    grid = f"({_tiles_of(source, printer)}, {schedule.split_k}{batches})"
    source.kernel(emitter, printer.constants(), grid, options, "parts", outputs=["partial"], given=given)
    loop = f"tl.static_range({schedule.split_k})"
    source.add_up(printer.prim.out, loop, 1024, "the product", {})
