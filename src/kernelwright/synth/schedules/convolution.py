"""Convolutions in one to three dimensions, plain or transposed, grouped, dilated, strided, with maps after them.

implicit: a tile product (implicit GEMM) whose rows are output places, columns output channels, and contraction taps with input
channels. Weights are rearranged with taps first, so that channels are fastest. With `nhwc`, a separate kernel first transposes
an input whose pixels are fastest. With descriptors, a tile's places are a box of some images, so that what a tap reads is a box of
the input, shifted by the tap; with a stride, of every so many rows and columns. direct: one program computes places of one channel and adds tap by tap, for groups of few
channels. FFTs and Winograd's transform are not used.
"""

from __future__ import annotations

import contextlib
import math

from kernelwright.synth.emitter import (
    Coordinates,
    Emitter,
    Guard,
    Guards,
    Term,
    emit_value,
    input_precision,
    place_tile,
)
from kernelwright.synth.index import Base, Index, split_index
from kernelwright.synth.primitives import Prim, Unsupported, Val
from kernelwright.synth.program import ConvolutionSchedule
from kernelwright.synth.sizes import ONE, Size, product
from kernelwright.synth.source import Source, numel

_NAMES = ("m", "n", "k", "acc", "tile", "group", "step", "steps", "tap", "in_m", "in_n", "in_k", "tile_m", "tile_n", "tiles_m",
          "tiles_n", "first_m", "rows_m", "width", "plane", "at", "image", "first_image", "first_y", "first_x", "tiles_y", "tiles_x", "x_tile",
          "w_tile")  # fmt: skip
_AXES = ("z", "y", "x")
_MOST_TAPS = 64
"""Most products of taps and channels that `direct` unrolls."""

TURN = """@triton.jit
def to_channels_last(x_ptr, out_ptr, C, PIXELS, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr):
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    image = tl.program_id(2).to(tl.int64) * C * PIXELS
    inside = (c < C)[:, None] & (p < PIXELS)[None, :]
    x = tl.load(x_ptr + image + c[:, None] * PIXELS + p[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + image + p[:, None] * C + c[None, :], tl.trans(x), mask=tl.trans(inside))
"""


def convolution_of(source: Source) -> Prim:
    """The graph's only convolution. Raises Unsupported."""
    prim = source.only("convolution", "conv")
    if prim.args[1].name not in {one.name for one in source.lowered.arguments}:
        raise Unsupported("a convolution whose weights are computed")
    return prim


class ConvolutionPrinter:
    """Common parts of both algorithms: sizes, taps and the places that a tap reads."""

    def __init__(self, source: Source, schedule: ConvolutionSchedule) -> None:
        self.source, self.schedule, self.prim = source, schedule, convolution_of(source)
        shapes = source.shapes
        self.x: Val = self.prim.args[0]
        self.w: Val = self.prim.args[1]
        self.kernel: tuple[int, ...] = self.w.shape[2:]
        self.window = shapes.of[self.w.name][2:]
        self.taps = math.prod(self.kernel)
        self.transposed: bool = self.prim.attr("transposed")
        self.groups: int = self.prim.attr("groups")
        self.flipped = bool(dict(self.prim.attrs).get("flipped"))
        """Whether taps are read from last to first."""
        alone = self.groups > 1 and self.x.shape[1] == self.w.shape[0] == self.groups
        self.groups_size = shapes.of[self.x.name][1] if alone else Size.of(self.groups)
        """Number of groups; in a depthwise convolution, its channels."""
        self.x_shape, self.out_shape = shapes.of[self.x.name], shapes.of[self.prim.out.name]
        w_shape = shapes.of[self.w.name]
        self.channels = w_shape[1] if not self.transposed else self._share(self.x_shape[1])
        """Input channels per group."""
        self.filters = w_shape[1] if self.transposed else self._share(self.out_shape[1])
        """Output channels per group."""
        self.emitter: Emitter = source.emitter()
        self.emitter.names |= set(_NAMES)
        self.places = (self.out_shape[0], *self.out_shape[2:])
        self.emitter.given[self.prim.out.name] = self._accumulate
        self.out_coordinates: Coordinates = ()
        self.accumulator = "acc"

    def fixed(self) -> None:
        """Raises Unsupported if the window's size may vary, for printers that unroll its taps."""
        if any(one.constant is None for one in self.window):
            raise Unsupported("taps of a window whose size may vary, one by one")

    def _share(self, size: Size) -> Size:
        if self.groups == 1:
            return size
        if self.w.shape[0] == self.groups:
            return ONE
        part = size.over(Size.of(self.groups))
        if part is None and self.transposed:
            raise Unsupported("a transposed convolution in groups of sizes that vary")
        if part is None:
            part = self.source.shapes._fresh(
                "group_filters", self.w.shape[0] // self.groups, f"{self.w.name}.shape[0] // {self.groups}"
            )
            self.source.shapes.symbols.setdefault("G", self.source.shapes.symbols.pop("group_filters"))
            part = Size.of("G")
        return part

    def _accumulate(self, coordinates: Coordinates, guard: Guards) -> Term:
        return emit_value(self.accumulator, coordinates, self.out_coordinates, "a convolution")

    def reach(self, places: tuple[Index, ...], taps: tuple[Index, ...]) -> tuple[tuple[Index, ...], Guards]:
        """Input coordinates that a tap reads for output places, and conditions for being inside."""
        found, guards = [], []
        for dim, (place, tap) in enumerate(zip(places, taps, strict=True)):
            if self.transposed:
                moved, tests = self._backward(place, tap, dim)
            else:
                moved, tests = self.emitter.reached(self.prim, dim, place, tap, self.x_shape[2 + dim])
            guards += tests
            found.append(moved)
        return tuple(found), tuple(guards)

    def _backward(self, place: Index, tap: Index, dim: int) -> tuple[Index, list[Guard]]:
        """The coordinates that a transposed convolution reads: only places that are multiples of the stride."""
        emitter, size = self.emitter, self.x_shape[2 + dim]
        stride, padding, dilation = (self.prim.attr(name)[dim] for name in ("stride", "padding", "dilation"))
        from_index = place + tap * -dilation + padding
        term = emitter.index_term(from_index)
        made = emitter.assign(f"from_{_AXES[3 - len(self.kernel) + dim]}", term.text, "int64", [term])
        tests = [f"({made.text} >= 0)", f"({made.text} < {emitter.size(size * stride, True)})"]
        if stride > 1:
            tests.append(f"({made.text} % {stride} == 0)")
        guard = emitter.assign("inside", " & ".join(tests), "bool", [made])
        base = Base(made.text, size * stride, made.axes, made.masks, made.loops)
        return split_index(base, [size, Size.of(stride)])[0], [Guard(guard.text, guard.axes, guard.loops)]


class ImplicitPrinter(ConvolutionPrinter):
    """The tile product over places, channels and taps."""

    def __init__(self, source: Source, schedule: ConvolutionSchedule) -> None:
        super().__init__(source, schedule)
        if self.flipped:
            raise Unsupported("taps in reverse, which only depthwise convolutions read")
        self.m = numel(self.places)
        self.m_base = Base("m[:, None]", self.m, frozenset({0}), ("in_m[:, None]",))
        self.n_base = Base("n[None, :]", self.filters, frozenset({1}), ("in_n[None, :]",))
        self.turned = schedule.layout == "nhwc"
        if self.turned:
            if self.x.name not in {one.name for one in source.lowered.arguments}:
                raise Unsupported("another layout of an input that is computed")
            self.emitter.given[self.x.name] = self._from_turned
        self.last = ""
        """The tensor with channels last that descriptors read; empty if there are none."""
        if schedule.loads == "descriptor":
            self.last = f"{self.x.name}_last" if self.turned else self._channels_last()
            if self.transposed or self.groups > 1 or len(self.kernel) != 2:
                raise Unsupported("boxes of other than plain convolutions in two dimensions")
        found = self._box() if self.last else split_index(self.m_base, self.places)
        self.out_coordinates = (found[0], self._channel(self.n_base, self.filters), *found[1:])

    def _channels_last(self) -> str:
        """The argument that the input is, with its channels last in memory. Raises Unsupported."""
        made = next((one for one in self.source.lowered.prims if one.out.name == self.x.name), None)
        if made is None or made.op != "permute" or made.attr("order") != (0, 3, 1, 2):
            raise Unsupported("boxes of an input whose channels are not last")
        name: str = made.reads()[0].name
        if name not in {one.name for one in self.source.lowered.arguments}:
            raise Unsupported("boxes of an input that is computed")
        return name

    def _box(self) -> tuple[Index, ...]:
        """The coordinates of a tile's places, which are a box of images, rows and columns."""
        names = ("image", *(f"{axis}_at" for axis in _AXES[1:]))
        self.emitter.names |= set(names)
        return tuple(
            Index()
            if size == ONE
            else Index.whole(Base(f"{name}[:, None]", size, frozenset({0}), ("in_m[:, None]",)))
            for name, size in zip(names, self.places, strict=True)
        )

    def _channel(self, base: Base, size: Size) -> Index:
        index = Index.whole(base)
        return index if self.groups == 1 else index + Index.whole(Base("group", self.groups_size)) * size

    def _from_turned(self, coordinates: Coordinates, guard: Guards) -> Term:
        """A load of the input from its channels-last copy."""
        emitter = self.emitter
        order = (0, *range(2, len(self.x_shape)), 1)
        shape = tuple(self.x_shape[one] for one in order)
        place = emitter.index_term(emitter.address(shape, tuple(coordinates[one] for one in order)))
        masks = " & ".join([*place.masks, *(one.text for one in guard)])
        loops = place.loops.union(*(one.loops for one in guard))
        name = emitter.name(self.x.name)
        other = f", mask={masks}, other=0.0" if masks else ""
        emitter.scope_of(loops).add(f"{name} = tl.load({self.x.name}_last_ptr + {place.text}{other})")
        return Term(name, self.x.dtype, place.axes, loops, place.masks, zero=True)

    def walk(self) -> None:
        """The loop over taps and channels."""
        emitter, loops, rank = self.emitter, frozenset({"step"}), len(self.kernel)
        channels, all_taps = emitter.size(self.channels), product(self.window)
        emitter.line("acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)")
        emitter.line(f"steps = tl.cdiv({channels}, BLOCK_K)")
        emitter.line("tl.assume(steps > 0)")
        emitter.open(
            "step",
            f"for step in range(0, {emitter.size(all_taps, True)} * steps):"
            if all_taps != ONE
            else "for step in range(0, steps):",
        )
        taps: tuple[Index, ...] = (Index(),) * rank
        if all_taps != ONE:
            emitter.line("tap = step // steps")
            emitter.line("at = step % steps * BLOCK_K")
            taps = split_index(Base("tap", all_taps, loops=loops), self.window)
        else:
            emitter.line("at = step * BLOCK_K")
        loads = self._tile_loads(taps) if self.last else ()
        with emitter.otherwise("DESCRIPTORS", *loads) if loads else contextlib.nullcontext():
            x, w = self._operands(taps, loops)
            for name, text in (("x_tile", x), ("w_tile", w)) if loads else ():
                emitter.line(f"{name} = {text}")
        precision = input_precision(self.x.dtype, self.schedule.precision)
        x, w = ("x_tile", "w_tile") if loads else (x, w)
        emitter.line(f"acc = tl.dot({x}, {w}, acc{precision})")
        emitter.close()

    def _operands(self, taps: tuple[Index, ...], loops: frozenset[str]) -> tuple[str, str]:
        """The tiles that a tap multiplies, through pointers."""
        emitter, channels = self.emitter, self.emitter.size(self.channels)
        emitter.line("k = at + tl.arange(0, BLOCK_K)")
        emitter.line(f"in_k = (k < {channels}) | EVEN_K")
        k_row = Base("k[None, :]", self.channels, frozenset({1}), ("in_k[None, :]",), loops)
        places, guards = self.reach((*self.out_coordinates[2:],), taps)
        x = emitter.value(
            self.x, (self.out_coordinates[0], self._channel(k_row, self.channels), *places), guards, raw=True
        )
        k_column = Base("k[:, None]", self.channels, frozenset({0}), ("in_k[:, None]",), loops)
        w = self._weights(k_column, loops)
        made = emitter.cast(x, self.w.dtype)
        return made.text if 1 in made.axes else f"tl.broadcast_to({made.text}, (BLOCK_M, BLOCK_K))", w

    def _tile_loads(self, taps: tuple[Index, ...]) -> tuple[str, str]:
        """Lines that load a tap's tiles through descriptors. With a stride, rows are (rows / stride, stride) in the descriptor, and
        columns with their channels (columns / stride, stride x channels)."""
        emitter, where, at = self.emitter, ["first_image"], "at"
        for dim, (axis, tap) in enumerate(zip(_AXES[1:], taps, strict=True)):
            stride, padding, dilation = (
                self.prim.attr(name)[dim] for name in ("stride", "padding", "dilation")
            )
            before = -(-padding // stride)
            first = f"first_{axis}"
            if stride == 1:
                where.append(f"{first} + {emitter.text(tap * dilation + -padding)}")
                continue
            reached = f"({emitter.text(tap * dilation + (before * stride - padding))})"
            where.append(f"{first} + {reached} // {stride} - {before}")
            if dim == 0:
                where.append(f"{reached} % {stride}")
            else:
                at = f"{reached} % {stride} * {emitter.size(self.channels, True)} + at"
        tap_text = f"tap * {emitter.size(self.channels, True)} + at" if product(self.window) != ONE else "at"
        return (
            f"x_tile = {self.last}_desc.load([{', '.join([*where, at])}]).reshape(BLOCK_M, BLOCK_K)",
            f"w_tile = {self.w.name}_taps_desc.load([tile_n * BLOCK_N, {tap_text}]).T",
        )

    def _weights(self, k: Base, loops: frozenset[str]) -> str:
        """A tile of the weights as (filters, taps, channels)."""
        emitter, taps = self.emitter, product(self.window)
        index = self._channel(self.n_base, self.filters) * (self.channels * taps)
        if taps != ONE:
            index = index + Index.whole(Base("tap", taps, loops=loops)) * self.channels
        term = emitter.index_term(index + Index.whole(k))
        emitter.line(
            f"w = tl.load({self.w.name}_taps_ptr + {term.text}, mask={' & '.join(term.masks)}, other=0.0)"
        )
        return "w"

    def find_tile(self) -> None:
        """Emit lines that find this program's tile."""
        emitter = self.emitter
        n = emitter.size(self.filters)
        emitter.line(f"tiles_n = tl.cdiv({n}, BLOCK_N)")
        emitter.line("tile = tl.program_id(0)")
        if self.groups > 1:
            emitter.line("group = tl.program_id(1)")
        if self.last:
            images, down, across = (emitter.size(size) for size in self.places)
            emitter.line(f"tiles_y, tiles_x = tl.cdiv({down}, DOWN), tl.cdiv({across}, ACROSS)")
            if self.schedule.group > 1:
                emitter.line(f"tiles_m = tl.cdiv({images}, IMAGES) * tiles_y * tiles_x")
            place_tile(emitter, "", n, self.schedule.group)
            emitter.line("first_image = tile_m // (tiles_y * tiles_x) * IMAGES")
            emitter.line("first_y, first_x = tile_m // tiles_x % tiles_y * DOWN, tile_m % tiles_x * ACROSS")
            emitter.line("m = tl.arange(0, BLOCK_M)")
            emitter.line("image = first_image + m // (DOWN * ACROSS)")
            emitter.line("y_at, x_at = first_y + m // ACROSS % DOWN, first_x + m % ACROSS")
            emitter.line(f"in_m = (image < {images}) & (y_at < {down}) & (x_at < {across})")
            return
        m = emitter.size(self.m)
        if self.schedule.group > 1:
            emitter.line(f"tiles_m = tl.cdiv({m}, BLOCK_M)")
        place_tile(emitter, m, n, self.schedule.group)

    def host(self) -> dict[str, str]:
        """Host lines for the weights by tap, and for the channels-last input; returns the arguments for the parameters."""
        source, rank = self.source, len(self.kernel)
        axes = ", ".join(str(2 + dim) for dim in range(rank))
        name = f"{self.w.name}_taps"
        if self.transposed and self.groups > 1:
            raise Unsupported("a transposed convolution in groups")
        order = f"1, {axes}, 0" if self.transposed else f"0, {axes}, 1"
        source.host.append(f"{name} = {self.w.name}.permute({order}).contiguous()")
        given = {f"{name}_ptr": name}
        if self.turned:
            last = f"{self.x.name}_last"
            pixels = numel(self.x_shape[2:])
            batch, channels = self.x_shape[0], self.x_shape[1]
            shape = source.shape((batch, *self.x_shape[2:], channels))
            source.host.append(
                f"{last} = torch.empty({shape}, device={self.x.name}.device, dtype={self.x.name}.dtype)"
            )
            grid = f"(triton.cdiv({source.size(pixels)}, 64), triton.cdiv({source.size(channels)}, 64), {source.size(batch)})"
            source.host.append(f"to_channels_last[{grid}]({self.x.name}, {last}, {source.size(channels)}, {source.size(pixels)}, "
                               f"BLOCK_C=64, BLOCK_P=64, num_warps=4)")  # fmt: skip
            source.kernels.append(TURN)
            source.read.add(self.x.name)
            given[f"{last}_ptr"] = last
        return given | (self._host_descriptors() if self.last else {})

    def _host_descriptors(self) -> dict[str, str]:
        """Host lines that create descriptors if strides divide the input; returns the arguments for the parameters."""
        source, (_, n, k), (down, across) = self.source, self.schedule.tile, self.schedule.box
        images = self.schedule.tile[0] // (down * across)
        channels = source.size(self.channels, True)
        shape, block, tests = [source.size(self.x_shape[0])], [images, down], [f"{channels} % {k} == 0"]
        for dim, stride in enumerate(self.prim.attr("stride")):
            size = source.size(self.x_shape[2 + dim], True)
            shape.append(f"{size} // {stride}" if stride > 1 else size)
            if stride > 1:
                tests.append(f"{size} % {stride} == 0")
                shape.append(str(stride) if dim == 0 else f"{stride} * {channels}")
                block += [1] if dim == 0 else []
        if len(shape) < len(block) + 2:
            shape.append(channels)
        x = f"{self.last}.view({', '.join(shape)})"
        weights = f"{self.w.name}_taps.view({source.size(self.filters)}, -1)"
        return source.hand_over(" and ".join(tests), {
            f"{self.last}_desc": (self.last, f"TensorDescriptor.from_tensor({x}, {[*block, across, k]})"),
            f"{self.w.name}_taps_desc": (f"{self.w.name}_taps", f"TensorDescriptor.from_tensor({weights}, {[n, k]})"),
        })  # fmt: skip

    def constants(self) -> dict[str, str]:
        """Host values of the kernel's constants."""
        m, n, k = self.schedule.tile
        found = {"BLOCK_M": str(m), "BLOCK_N": str(n), "BLOCK_K": str(k)}
        if self.schedule.group > 1:
            found["GROUP"] = str(self.schedule.group)
        found["EVEN_K"] = f"{self.source.size(self.channels)} % {k} == 0"
        if self.last:
            down, across = self.schedule.box
            found |= {"IMAGES": str(m // (down * across)), "DOWN": str(down), "ACROSS": str(across)}
            found["UNIT"] = "min({0} & -{0}, 8)".format(self.source.size(self.places[2], True))
            found["DESCRIPTORS"] = "aligned"
        return found

    def tiles(self) -> str:
        """The number of tiles, as host text."""
        (m, n, _), (down, across) = self.schedule.tile, self.schedule.box
        parts = (
            list(zip(self.places, (m // (down * across), down, across), strict=True))
            if self.last
            else [(self.m, m)]
        )
        sizes = [*parts, (self.filters, n)]
        return " * ".join(f"triton.cdiv({self.source.size(size)}, {by})" for size, by in sizes)


def print_convolution(source: Source, schedule: ConvolutionSchedule) -> None:
    """Raises Unsupported if a convolution does not fit the graph."""
    if schedule.algorithm == "direct":
        _print_direct(source, schedule)
        return
    printer = ImplicitPrinter(source, schedule)
    emitter = printer.emitter
    printer.find_tile()
    printer.walk()
    given = printer.host()
    source.store(emitter, printer.prim.out, printer.out_coordinates, "the convolution")
    tiles = printer.tiles()
    grid = f"({tiles}, {source.size(printer.groups_size)})" if printer.groups > 1 else f"({tiles},)"
    options = f"num_warps={schedule.warps}, num_stages={schedule.stages}"
    head: list[str] = []
    if printer.last:
        # So that the compiler sees how many places in a row are adjacent in the output.
        across = emitter.size(printer.places[2])
        head = [f"{across} = {across} // UNIT * UNIT"] if across.isidentifier() else []
    source.kernel(emitter, printer.constants(), grid, options, given=given, head=head)


def _print_direct(source: Source, schedule: ConvolutionSchedule) -> None:
    """One channel of one image per program along one axis of the grid, its places along the other."""
    printer = ConvolutionPrinter(source, schedule)
    emitter, channels = printer.emitter, source.shapes.of[printer.w.name][1].constant
    printer.fixed()
    if channels is None:
        raise Unsupported("a direct sum over channels whose number may vary")
    if printer.transposed or printer.flipped or printer.taps * channels > _MOST_TAPS:
        raise Unsupported("a direct sum over so many taps, or taps in reverse")
    pixels = numel(printer.out_shape[2:])
    plane = Base("plane", printer.out_shape[0] * printer.out_shape[1])
    base = Base("m", pixels, frozenset({0}), ("in_m",))
    images, found = split_index(plane, printer.out_shape[:2]), split_index(base, printer.out_shape[2:])
    printer.out_coordinates = (*images, *found)
    emitter.line("plane = tl.program_id(0)")
    emitter.line("m = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)")
    emitter.line(f"in_m = m < {emitter.size(pixels)}")
    emitter.line("acc = tl.zeros((BLOCK,), dtype=tl.float32)")
    first = _first_channel(printer, images[1], channels)
    for step in range(printer.taps * channels):
        rest, taps = step, []
        for size in reversed(printer.kernel):
            taps.append(Index((), Size.of(rest % size)))
            rest //= size
        places, guards = printer.reach(found, tuple(reversed(taps)))
        x = emitter.value(printer.x, (images[0], first + rest, *places), guards)
        w = emitter.value(printer.w, (images[1], Index((), Size.of(rest)), *reversed(taps)))
        emitter.line(f"acc += {x.text} * {w.text}")
    source.store(emitter, printer.prim.out, printer.out_coordinates, "the convolution")
    block = schedule.tile[0]
    grid = f"({source.size(plane.extent)}, triton.cdiv({source.size(pixels)}, {block}))"
    source.kernel(emitter, {"BLOCK": str(block)}, grid, f"num_warps={schedule.warps}")


def _first_channel(printer: ConvolutionPrinter, filter_index: Index, channels: int) -> Index:
    """The first input channel that a filter reads."""
    if printer.groups == 1:
        return Index()
    filters = printer.w.shape[0] // printer.groups
    if filters == 1:
        return filter_index * channels
    term = printer.emitter.index_term(filter_index)
    made = printer.emitter.assign("group", f"({term.text}) // {filters}", "int64", [term])
    return Index.whole(Base(made.text, Size.of(printer.groups))) * channels
