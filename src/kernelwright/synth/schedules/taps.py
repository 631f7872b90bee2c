"""The weights' gradient of depthwise convolutions in two dimensions: sums of all taps in registers.

A warp has one channel, and a lane some adjacent places of an output row at a time. It loads their gradients once, and once each
input row that a row of taps reads, and adds the products to one sum per tap. Programs of the same channels share the places, and
a second kernel adds their sums. Groups of several channels are not supported.
"""

from __future__ import annotations

import math

from kernelwright.synth.primitives import Prim, Unsupported
from kernelwright.synth.program import DepthwiseSchedule
from kernelwright.synth.sizes import Size
from kernelwright.synth.source import Buffer, Source

MOST_TAPS = 49
"""Most sums that a lane can hold in registers."""
_NAMES = ("lane", "channel", "in_c", "across", "places", "start", "place", "inside", "image", "y", "left", "plane", "gradients", "source",
          "seen", "line", "row", "to", "height", "width", "out_height", "out_width", "CHANNELS", "PARTS", "i", "part", "acc")  # fmt: skip


def taps_of(source: Source) -> tuple[Prim, Prim, str]:
    """The sum over images and places of `gradient * patches`, the patches, and the gradient's name. Raises Unsupported."""
    total = source.only("sum", "sum")
    made = {prim.out.name: prim for prim in source.lowered.prims}
    product = made.get(total.args[0].name)
    sides = [made.get(one.name) for one in product.reads()] if product is not None else []
    arguments = {one.name for one in source.lowered.arguments}
    if product is None or product.op != "mul" or len(sides) != 2 or not all(sides):
        raise Unsupported("not the sum of a product of two arguments' moves")
    seen = next((one for one in sides if one is not None and one.op == "patches"), None)
    wide = next((one for one in sides if one is not None and one.op == "view"), None)
    if seen is None or wide is None or not {seen.args[0].name, wide.args[0].name} <= arguments:
        raise Unsupported("no patches of an argument")
    if len(seen.out.shape) != 6 or total.attr("dims") != (0, 4, 5) or total.attr("keep"):
        raise Unsupported("patches that are not summed over images and places in two dimensions")
    if math.prod(seen.attr("kernel")) > MOST_TAPS:
        raise Unsupported("more taps than a lane has room for")
    return total, seen, wide.args[0].name


class TapsPrinter:
    """The kernel that computes one sum per tap, channel and part."""

    def __init__(self, source: Source, schedule: DepthwiseSchedule) -> None:
        self.source, (self.parts, self.columns) = source, schedule.tile
        self.total, self.seen, self.grad = taps_of(source)
        self.x = self.seen.args[0].name
        self.kernel: tuple[int, int] = self.seen.attr("kernel")
        self.stride, self.padding, self.dilation = (
            self.seen.attr(name) for name in ("stride", "padding", "dilation")
        )
        self.emitter = source.emitter()
        self.emitter.names |= set(_NAMES)

    def offsets(self) -> list[int]:
        """Input offsets along a row, relative to the first that the first place reads."""
        s, d = self.stride[1], self.dilation[1]
        return sorted({at * s + tap * d for at in range(self.columns) for tap in range(self.kernel[1])})

    def find(self) -> None:
        """Emit the lines up to the loop over places, and those that compute a lane's position."""
        emitter, source = self.emitter, self.source
        shape, made = source.shapes.of[self.x], source.shapes.of[self.grad]
        for name, size in zip(
            ("height", "width", "out_height", "out_width"), (*shape[2:], *made[2:]), strict=True
        ):
            emitter.line(f"{name} = {emitter.size(size)}")
        channels = emitter.size(shape[1], True)
        for line in (
            "lane = tl.arange(0, 32)[None, :]",
            "channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)",
            f"in_c = channel < {channels}",
            f"across = tl.cdiv(out_width, {self.columns})",
            f"places = {emitter.size(shape[0], True)} * out_height * across",
        ):
            emitter.line(line)
        for high in range(self.kernel[0]):
            for wide in range(self.kernel[1]):
                emitter.line(f"acc_{high}_{wide} = tl.zeros((CHANNELS, 32), dtype=tl.float32)")
        emitter.open("start", "for start in range(tl.program_id(0) * 32, places, PARTS * 32):")
        for line in (
            "place = start + lane",
            "inside = in_c[:, None] & (place < places)",
            "image = place // (out_height * across)",
            "y = place // across % out_height",
            f"left = place % across * {self.columns}",
            f"plane = image.to(tl.int64) * {channels} + channel[:, None]",
            f"gradients = {self.grad}_ptr + plane * (out_height * out_width) + (y * out_width + left)",
            f"source = {self.x}_ptr + plane * (height * width) + (left * {self.stride[1]} - {self.padding[1]})",
        ):
            emitter.line(line)

    def add(self) -> None:
        """One step: the gradients of a lane's places, and for each row of taps the input it reads."""
        emitter, (s, p, d) = self.emitter, (self.stride, self.padding, self.dilation)
        for at in range(self.columns):
            emitter.line(
                f"g_{at} = tl.load(gradients + {at}, mask=inside & (left + {at} < out_width), other=0.0).to(tl.float32)"
            )
        for offset in self.offsets():
            where = f"left * {s[1]} + {offset - p[1]}"
            emitter.line(f"in_{offset} = ({where} >= 0) & ({where} < width)")
        for high in range(self.kernel[0]):
            emitter.line(f"line = y * {s[0]} + {high * d[0] - p[0]}")
            emitter.line("row = inside & (line >= 0) & (line < height)")
            emitter.line("seen = source + line * width")
            for offset in self.offsets():
                emitter.line(
                    f"x_{offset} = tl.load(seen + {offset}, mask=row & in_{offset}, other=0.0).to(tl.float32)"
                )
            for wide in range(self.kernel[1]):
                terms = [f"g_{at} * x_{at * s[1] + wide * d[1]}" for at in range(self.columns)]
                emitter.line(f"acc_{high}_{wide} += {' + '.join(terms)}")

    def finish(self) -> None:
        """Store one number per tap, and launch the second kernel."""
        emitter, source = self.emitter, self.source
        channels = source.shapes.of[self.x][1]
        partial = Buffer("partial", "float32", (Size.of(self.parts), channels, *map(Size.of, self.kernel)))
        taps = math.prod(self.kernel)
        emitter.line(
            f"to = partial_ptr + (tl.program_id(0) * {emitter.size(channels, True)} + channel) * {taps}"
        )
        for tap in range(taps):
            high, wide = divmod(tap, self.kernel[1])
            emitter.line(f"tl.store(to + {tap}, tl.sum(acc_{high}_{wide}, axis=1), mask=in_c)")
        for name in (self.grad, self.x):
            emitter.pointers[name] = f"{name}_ptr"
        source.allocate(partial)


def print_taps(source: Source, schedule: DepthwiseSchedule) -> None:
    """Raises Unsupported for anything but the weights' gradient of a depthwise convolution."""
    printer = TapsPrinter(source, schedule)
    printer.find()
    printer.add()
    printer.emitter.close()
    printer.finish()
    channels = source.size(source.shapes.of[printer.x][1])
    constants = {"CHANNELS": str(schedule.warps), "PARTS": str(printer.parts)}
    options = f"num_warps={schedule.warps}"
    grid = f"({printer.parts}, triton.cdiv({channels}, {schedule.warps}))"
    source.kernel(printer.emitter, constants, grid, options, "parts", outputs=["partial"])
    constants = {"PARTS": str(printer.parts)}
    source.add_up(printer.total.out, "range(0, PARTS)", 128, "the sums", constants)
