"""Depthwise convolutions in two dimensions: each thread computes a patch of outputs, with its window in registers.

A thread computes a patch of rows x columns outputs of one channel. It walks the input rows that the patch reads, loads each value
once, and uses it for every output and tap that needs it; the channel's weights stay in registers. Patches of all channels and
images are numbered in one sequence, so that small images fill a program, too. Sizes are not constants, so that one binary serves
all; if rows begin at a multiple of a patch's width, a product tells the compiler so. `patch` holds all outputs and is fully
unrolled; `strip` holds only the output rows that the current input row affects, and stores one per step of a loop: patches may
be tall, and it compiles quickly. Not supported: groups of several channels, and transposed convolutions.
"""

from __future__ import annotations

from kernelwright.synth.index import Base, Index
from kernelwright.synth.primitives import Unsupported, Val
from kernelwright.synth.program import ConvolutionSchedule, DepthwiseSchedule
from kernelwright.synth.schedules.convolution import ConvolutionPrinter
from kernelwright.synth.schedules.taps import print_taps
from kernelwright.synth.sizes import ONE
from kernelwright.synth.source import Buffer, Source, numel

_MOST_TAPS = 121
_NAMES = ("patch", "patches", "across", "down", "channel", "image", "top", "left", "x", "inside", "plane", "source", "line", "row", "width",
          "height", "out_width", "out_height", "steps", "ALIGNED", "LANES", "taps", "step")  # fmt: skip


class DepthwisePrinter(ConvolutionPrinter):
    """One kernel over patches of outputs."""

    def __init__(self, source: Source, schedule: DepthwiseSchedule) -> None:
        super().__init__(source, ConvolutionSchedule(algorithm="direct"))
        self.rows, self.columns = schedule.tile
        one_each = self.w.shape[0] == self.groups and self.w.shape[1] == 1
        if len(self.kernel) != 2 or not one_each or self.transposed or self.taps > _MOST_TAPS:
            raise Unsupported("not a depthwise convolution in two dimensions")
        self.fixed()
        if self.x.name not in {one.name for one in source.lowered.arguments}:
            raise Unsupported("a depthwise convolution of what is computed")
        self.emitter.names |= set(_NAMES)
        self.stride, self.padding, self.dilation = (
            self.prim.attr(name) for name in ("stride", "padding", "dilation")
        )
        self.loops = frozenset[str]()

    def reads(self, dim: int, many: int) -> list[int]:
        """Input offsets that `many` neighbouring outputs read along a dimension."""
        stride, dilation = self.stride[dim], self.dilation[dim]
        return sorted({at * stride + tap * dilation for at in range(many) for tap in range(self.kernel[dim])})

    def tap(self, dim: int, offset: int, at: int) -> int | None:
        """The tap of output `at` that reads an offset, or None."""
        tap, rest = divmod(offset - at * self.stride[dim], self.dilation[dim])
        return tap if rest == 0 and 0 <= tap < self.kernel[dim] else None

    # -- the kernel -------------------------------------------------------------------------------------------

    def find_patch(self) -> None:
        """Emit lines that compute each lane's patch, image and channel."""
        emitter, batch = self.emitter, self.emitter.size(self.x_shape[0])
        channels = emitter.size(self.x_shape[1], True)
        sides = (*self.x_shape[2:], *self.out_shape[2:])
        for side, size in zip(("height", "width", "out_height", "out_width"), sides, strict=True):
            emitter.line(f"{side} = {emitter.size(size)}")
        emitter.line("if ALIGNED:")
        emitter.line(f"    out_width = out_width // {self.columns} * {self.columns}")
        for line in (
            f"down = tl.cdiv(out_height, {self.rows})",
            f"across = tl.cdiv(out_width, {self.columns})",
            "patch = tl.program_id(0) * LANES + tl.arange(0, LANES)",
            f"inside = patch < {batch} * {channels} * down * across",
            "plane = patch // (down * across)",
            f"image = plane // {channels}",
            f"channel = plane % {channels}",
            f"top = patch // across % down * {self.rows}",
            f"left = patch % across * {self.columns}",
            f"source = {self.x.name}_ptr + plane.to(tl.int64) * (height * width) + (top * {self.stride[0]} - {self.padding[0]}) * width"
            f" + (left * {self.stride[1]} - {self.padding[1]})",
        ):
            emitter.line(line)
        for offset in self.reads(1, self.columns):
            place = f"left * {self.stride[1]} + {offset - self.padding[1]}"
            emitter.line(f"in_{offset} = inside & ({place} >= 0) & ({place} < width)")
        for step in range(self.taps):
            at, name = step % self.kernel[1], step // self.kernel[1]
            at_tap = self.taps - 1 - step if self.flipped else step
            emitter.line(
                f"w_{name}_{at} = tl.load({self.w.name}_ptr + (channel * {self.taps} + {at_tap}), mask=inside, other=0.0).to(tl.float32)"
            )

    def load_row(self, row: str) -> None:
        """Emit lines that load the patch's values of one input row, `row` below its first."""
        emitter = self.emitter
        place = f"top * {self.stride[0]} + {row} - {self.padding[0]}"
        emitter.line(f"line = ({place} >= 0) & ({place} < height)")
        emitter.line(f"row = source + {row} * width")
        for offset in self.reads(1, self.columns):
            emitter.line(
                f"x_{offset} = tl.load(row + {offset}, mask=line & in_{offset}, other=0.0).to(tl.float32)"
            )

    def add(self, row: int, tap: int) -> None:
        """Add the loaded row to one row of outputs, with one row of taps."""
        accs = ", ".join(f"acc_{row}_{j}" for j in range(self.columns))
        values = ", ".join(f"x_{offset}" for offset in self.reads(1, self.columns))
        weights = ", ".join(f"w_{tap}_{step}" for step in range(self.kernel[1]))
        self.emitter.line(f"{accs} = taps({accs}, {values}, {weights})")

    def clear(self, rows: int) -> None:
        names = [f"acc_{i}_{j}" for i in range(rows) for j in range(self.columns)]
        self.emitter.names |= set(names)
        for name in names:
            self.emitter.line(f"{name} = tl.zeros((LANES,), dtype=tl.float32)")

    def helper(self) -> str:
        """The device function that adds one row of taps to one row of outputs."""
        offsets = self.reads(1, self.columns)
        accs = [f"acc_{j}" for j in range(self.columns)]
        parameters = [*accs, *(f"x_{one}" for one in offsets), *(f"w_{one}" for one in range(self.kernel[1]))]
        lines = []
        for offset in offsets:
            for at, acc in enumerate(accs):
                tap = self.tap(1, offset, at)
                if tap is not None:
                    lines.append(f"    {acc} += x_{offset} * w_{tap}")
        body = "\n".join(lines)
        return f"@triton.jit\ndef taps({', '.join(parameters)}):\n{body}\n    return {', '.join(accs)}\n"

    def _join(self, row: int) -> str:
        """A row's accumulators as one tile of lanes x columns."""
        some = [f"acc_{row}_{j}" for j in range(self.columns)]
        while len(some) > 1:
            half = len(some) // 2
            some = [f"tl.join({some[i]}, {some[i + half]})" for i in range(half)]
        return f"tl.reshape({some[0]}, (LANES, {self.columns}))"

    def patch(self) -> None:
        """Every input row with the output rows that it affects, then the stores."""
        self.clear(self.rows)
        for row in self.reads(0, self.rows):
            self.load_row(str(row))
            for at in range(self.rows):
                tap = self.tap(0, row, at)
                if tap is not None:
                    self.add(at, tap)
        self.emitter.line(f"x = left[:, None] + tl.arange(0, {self.columns})[None, :]")
        for row in range(self.rows):
            self.store_row(row, str(row), "")

    def strip(self) -> None:
        """A loop over input rows; the first row of outputs is complete at the end of a step."""
        emitter, high = self.emitter, self.kernel[0]
        if self.stride[0] != 1 or self.dilation[0] != 1:
            raise Unsupported("strips of a convolution with steps or gaps")
        self.clear(high)
        emitter.line(f"x = left[:, None] + tl.arange(0, {self.columns})[None, :]")
        emitter.line(f"steps = tl.minimum({self.rows}, out_height) + {high - 1}")
        emitter.open("step", "for step in range(0, steps):")
        self.loops = frozenset({"step"})
        self.load_row("step")
        for row in range(high):
            self.add(row, high - 1 - row)
        self.store_row(0, f"step - {high - 1}", f" & (step >= {high - 1})")
        for row in range(high):
            for at in range(self.columns):
                after = f"acc_{row + 1}_{at}" if row + 1 < high else "tl.zeros((LANES,), dtype=tl.float32)"
                emitter.line(f"acc_{row}_{at} = {after}")
        emitter.close()

    def store_row(self, row: int, below: str, only: str) -> None:
        """Maps after the sum, and the stores of a row of outputs, `below` the patch's first."""
        emitter = self.emitter
        self.accumulator = f"sum_{row}"
        y, mask = f"y_{row}", f"in_y_{row}"
        emitter.names |= {y, mask, self.accumulator}
        emitter.line(f"{y} = top[:, None] + ({below})")
        emitter.line(f"{mask} = inside[:, None] & ({y} < out_height) & (x < out_width){only}")
        emitter.line(f"{self.accumulator} = {self._join(row)}")
        batch, channels, high, wide = self.out_shape
        axes = frozenset({0, 1})
        bases = (
            Base("image[:, None]", batch, frozenset({0})),
            Base("channel[:, None]", channels, frozenset({0})),
            Base(y, high, frozenset({0}), (mask,), self.loops),
            Base("x", wide, axes, (mask,), self.loops),
        )
        self.out_coordinates = tuple(Index.whole(one) if one.extent != ONE else Index() for one in bases)
        for value, buffer in self.source.outputs:
            self._store(row, value, buffer)

    def _store(self, row: int, value: Val, buffer: Buffer) -> None:
        emitter = self.emitter
        if numel(buffer.shape) != numel(self.out_shape):
            raise Unsupported("an output of another size than the convolution")
        where = emitter.forward(value, frozenset({self.prim.out.name}), self.out_coordinates)
        term = emitter.value(value, where)
        if where != self.out_coordinates:
            emitter.store(f"{buffer.name}_ptr", term, buffer.shape, where)
            return
        emitter.names.add(f"{buffer.name}_ptr")
        place = f"plane[:, None].to(tl.int64) * (out_height * out_width) + y_{row} * out_width + x"
        emitter.line(f"tl.store({buffer.name}_ptr + {place}, {term.text}, mask=in_y_{row})")


def print_depthwise(source: Source, schedule: DepthwiseSchedule) -> None:
    """Raises Unsupported if the convolution is not depthwise."""
    if schedule.algorithm == "weights":
        print_taps(source, schedule)
        return
    printer = DepthwisePrinter(source, schedule)
    emitter = printer.emitter
    for one in (printer.x, printer.w):
        emitter.pointers.setdefault(one.name, f"{one.name}_ptr")
        emitter.names.add(f"{one.name}_ptr")
    printer.find_patch()
    if schedule.algorithm == "strip":
        printer.strip()
    else:
        printer.patch()
    for _, buffer in source.outputs:
        source.allocate(buffer)
    source.kernels.append(printer.helper())
    lanes = 32 * schedule.warps
    out_height, out_width = (source.size(one) for one in printer.out_shape[2:])
    constants = {"ALIGNED": f"{out_width} % {printer.columns} == 0", "LANES": str(lanes)}
    tall = f"triton.cdiv({out_height}, {printer.rows})"
    wide = f"triton.cdiv({out_width}, {printer.columns})"
    batch, channels = (source.size(one, True) for one in printer.x_shape[:2])
    grid = f"(triton.cdiv({batch} * {channels} * {tall} * {wide}, {lanes}),)"
    source.kernel(emitter, constants, grid, f"num_warps={schedule.warps}")
