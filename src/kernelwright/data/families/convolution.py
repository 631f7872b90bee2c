"""Convolution families: one to three dimensions, strided, dilated, grouped, depthwise, pointwise, transposed, and with
maps done on their output."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernelwright.data.families.conv import Extent, depthwise, forward_conv, pointwise, transposed
from kernelwright.data.families.epilogue import NOTHING, Chain, chain
from kernelwright.data.families.spec import Design, Draw, Dtype, Family, Op, Size, Stage, placed, tensor
from kernelwright.data.families.windows import Geometry

SPACE = {1: ("L",), 2: ("H", "W"), 3: ("D", "H", "W")}
FULL = {
    1: (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072),
    2: (28, 32, 56, 64, 96, 112, 128, 224, 256, 384, 512, 1024),
    3: (10, 12, 16, 24, 32, 48, 64, 96, 128),
}
LARGEST = 2**30
"""Elements of the largest tensor."""
SMALL = {1: (48, 64), 2: (8, 10), 3: (4, 5, 6)}
ODD = {1: (75, 83), 2: (9, 11, 13), 3: (4, 5, 7)}
"""Kept small: the interpreter walks every tap of every program, on a dozen inputs."""

SMALL_FLIPPED = {1: (24, 32), 2: (4, 5), 3: (2, 3)}
ODD_FLIPPED = {1: (37, 45), 2: (5, 7), 3: (3,)}
"""Of inputs that a transposed convolution makes larger."""


KERNELS = {1: (3, 3, 4, 5, 7, 8), 2: (3, 3, 3, 3, 5, 5, 7, 4, 2), 3: (3, 3, 3, 3, 2, 4, 5)}
UNEVEN = {
    2: ((3, 5), (3, 7), (5, 7), (1, 5), (3, 1)),
    3: ((3, 5, 7), (1, 3, 3), (3, 3, 5), (3, 5, 5), (1, 3, 5), (2, 3, 3)),
}
LARGE_KERNELS, LARGE_UNEVEN = (9, 11, 11), ((5, 9), (3, 9), (7, 11), (9, 5))


@dataclass(frozen=True)
class Convolution:
    """A convolution of the reference, with all that a kernel for it must know."""

    op: Op
    geometry: Geometry
    sizes: dict[str, Size]
    dtype: Dtype
    same: bool
    """Whether the output's places are those of the input."""

    @property
    def shape(self) -> str:
        """The output's shape, where it is the input's, else nothing."""
        return ", ".join(["B", "CO", *SPACE[self.geometry.rank]]) if self.same else ""

    @property
    def channel(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The shape of a parameter by channel, with its constructor argument."""
        return f"out_channels{', 1' * self.geometry.rank}", (("out_channels", "CO"),)


@dataclass(frozen=True)
class Window:
    """The numbers of a convolution, one for each dimension."""

    kernels: list[int]
    values: dict[str, list[int]]
    """Stride, padding and dilation, those that it has."""
    output_padding: list[int]

    def of(self, part: str) -> list[int]:
        return self.values.get(part, [0 if part == "padding" else 1] * len(self.kernels))

    @property
    def reach(self) -> list[int]:
        """How far apart the first and the last tap are."""
        return [d * (k - 1) for d, k in zip(self.of("dilation"), self.kernels, strict=True)]


def _window(
    draw: Draw, rank: int, uniform: bool, parts: tuple[str, ...], flip: bool, large: bool = False
) -> Window:
    """`parts` of stride, padding, dilation; without `uniform` some of the numbers differ by dimension."""
    if flip and uniform and rank > 1 and set(parts) == {"stride", "padding"} and draw.chance(0.55):
        # The two that double every place.
        kernel, more = draw.pick(((3, 1), (4, 0)))
        return Window([kernel] * rank, {"stride": [2] * rank, "padding": [1] * rank}, [more] * rank)
    if uniform:
        kernels = [draw.pick(LARGE_KERNELS if large else KERNELS[rank])] * rank
    else:
        kernels = list(draw.pick(LARGE_UNEVEN if large else UNEVEN[rank]))
        draw.rng.shuffle(kernels)
    options = {"stride": (2, 2, 2, 3, 4, 5), "padding": (1, 1, 2, 3), "dilation": (2, 2, 3, 4)}
    if rank == 3:
        options = {"stride": (2, 2, 3), "padding": (1, 1, 2), "dilation": (2,)}
    values: dict[str, list[int]] = {}
    all_differ = draw.chance(0.4)
    for part in parts:
        values[part] = [draw.pick(options[part])] * rank
        if not uniform and (all_differ or draw.chance(0.5)):
            differ = draw.pick(
                ((1, 2), (2, 1), (2, 3), (1, 3)) if rank == 2 else ((1, 2, 2), (2, 2, 1), (1, 2, 1))
            )
            values[part] = list((1, 2, 3) if rank == 3 and part == "padding" and draw.chance(0.4) else differ)
    found = Window(kernels, values, [0] * rank)
    if "padding" in parts:
        half = [reach // 2 for reach in found.reach]
        if draw.chance(0.5) and min(half) > 0:
            values["padding"] = half
        # A transposed convolution loses what is padded, so that no more than half its window may be.
        least = 0 if flip else 1
        values["padding"] = [min(p, max(h, least)) for p, h in zip(values["padding"], half, strict=True)]
    if flip and min(found.of("stride")) > 1 and draw.chance(0.45):
        return Window(kernels, values, [1] * rank)
    return found


def convolution(
    draw: Draw,
    rank: int,
    *,
    uniform: bool = True,
    parts: tuple[str, ...] = (),
    groups: int = 1,
    flip: bool = False,
    half: float = 0.15,
    attribute: str = "conv",
    large: bool = False,
    bias_share: float = 0.5,
    explicit_share: float = 0.4,
) -> Convolution:
    """A convolution whose module is the attribute `conv`. `parts` of stride, padding, dilation; `flip`: transposed;
    `large`: a kernel of nine and more; `bias_share`: how likely a bias is; `explicit_share`: how likely the
    constructor takes every option."""
    dtype = draw.dtype(half)
    found = _window(draw, rank, uniform, parts, flip, large)
    kernels, values = found.kernels, found.values
    same = (
        not flip
        and set(found.of("stride")) == {1}
        and found.of("padding") == [reach // 2 for reach in found.reach]
        and all(reach % 2 == 0 for reach in found.reach)
    )
    sizes = _sizes(draw, rank, groups, found, flip)
    bias = draw.chance(bias_share)
    numbers: dict[str, str] = {}
    init: list[tuple[str, str]] = [("in_channels", "CI"), ("out_channels", "CO")]
    tuples = rank > 1 and draw.chance(0.2)
    for name, given in (("kernel_size", kernels), *values.items()):
        if uniform and not tuples and draw.chance(0.4):
            constant = {
                "kernel_size": "KERNEL",
                "stride": "STRIDE",
                "padding": "PADDING",
                "dilation": "DILATION",
            }[name]
            sizes[constant] = Size(given[0], given[0], given[0])
            numbers[name] = constant
        else:
            numbers[name] = str(given[0]) if uniform and not tuples else str(tuple(given))
        init.append((name, numbers[name]))
    explicit = draw.chance(explicit_share)
    window = ", ".join(["kernel_size"] * rank)
    squared = uniform and not tuples and rank > 1 and draw.chance(0.2)
    arguments = ["in_channels", "out_channels", f"({window})" if squared else "kernel_size"]
    for part, plain in (("stride", "1"), ("padding", "0"), ("dilation", "1")):
        if part in values:
            arguments.append(f"{part}={part}")
        elif explicit or (part != "dilation" and draw.chance(0.06)):
            arguments.append(f"{part}={part}")
            init.append((part, plain if uniform and not tuples else f"({', '.join([plain] * rank)})"))
    output_padding = found.output_padding != [0] * rank
    if flip and (explicit or (output_padding and draw.chance(0.5))):
        more = str(found.output_padding[0] if uniform and not tuples else tuple(found.output_padding))
        init.append(("output_padding", more))
        arguments.append("output_padding=output_padding")
    elif output_padding:
        arguments.append("output_padding=1")
    if groups != 1:
        sizes["GROUPS"] = Size(groups, 2, 3)
        init.append(("groups", "GROUPS"))
        arguments.append("groups=groups")
    elif explicit:
        init.append(("groups", "1"))
        arguments.append("groups=groups")
    if explicit or draw.chance(0.1):
        # `bias` may be the name of a parameter that a map adds.
        init.append(("bias", str(bias)))
        arguments.append("bias=bias")
    elif not bias:
        arguments.append("bias=False")
    if draw.chance(0.1):
        arguments = _by_place(arguments, flip)
    kind = f"Conv{'Transpose' if flip else ''}{rank}d"
    state = f"self.{attribute} = nn.{kind}({', '.join(arguments)}{placed(dtype)})"
    signature = [
        "" if uniform else "asymmetric",
        *parts,
        "groups" if groups != 1 else "",
        "" if bias else "no bias",
    ]
    shape = ", ".join(["B", "CI", *SPACE[rank]])
    op = Op(
        f"{'conv_transpose' if flip else 'conv'}{rank}d:" + ",".join(filter(None, signature)),
        f"self.{attribute}({{x}})",
        (state,),
        tuple(init),
        (("x", tensor(shape, dtype)),),
    )
    # One text for whatever the options are: a model need not choose, and constants that are 1 or 0 cost nothing.
    # A transposed one with a dilation has to try every tap, and with a stride, too, to divide.
    dilated = not flip or "dilation" in parts
    strides = "stride" in parts or not (flip and dilated)
    geometry = Geometry(rank, rank == 1, strides, True, dilated, groups != 1, bias, flip)
    return Convolution(op, geometry, sizes, dtype, same)


def _by_place(arguments: list[str], flip: bool) -> list[str]:
    """The arguments with the first keywords left out, as far as they are in the order of the signature."""
    order = ["stride", "padding", *(["output_padding"] if flip else ["dilation"])]
    found = arguments[:3]
    for place, argument in enumerate(arguments[3:]):
        name = argument.partition("=")[0]
        if place >= len(order) or name != order[place]:
            return found + arguments[3 + place :]
        found.append(name if argument == f"{name}={name}" else argument.partition("=")[2])
    return found


def _sizes(draw: Draw, rank: int, groups: int, window: Window, flip: bool = False) -> dict[str, Size]:
    channels = (16, 24, 32, 48, 64, 96, 128) if rank < 3 else (16, 24, 32, 48, 64)
    sizes = {
        "B": draw.size((4, 8, 16, 32, 64, 128, 256) if rank < 3 else (2, 4, 8, 16, 32, 64, 128), (1,), (2,))
    }
    if groups == 1:
        sizes["CI"] = draw.size((3, 8, *channels), (6, 8), (5, 7, 11))
        sizes["CO"] = draw.size(channels, (12, 16), (19, 23))
    else:
        sizes["CI"] = Size(draw.pick((32, 64, 128)), draw.pick((8, 16)), draw.pick((9, 15)))
        sizes["CO"] = Size(draw.pick((32, 64, 128)), draw.pick((16, 32)), draw.pick((15, 21, 39)))
    small, odd = (SMALL_FLIPPED, ODD_FLIPPED) if flip else (SMALL, ODD)
    elements = max(sizes["CI"].full, sizes["CO"].full)
    for axis, reach, stride in zip(SPACE[rank], window.reach, window.of("stride"), strict=True):
        size = draw.size(FULL[rank], small[rank], odd[rank])
        if not flip:
            size = Size(max(size.full, 2 * reach), max(size.small, reach + 3), max(size.odd, reach + 2))
        sizes[axis] = size
        elements *= size.full * (stride if flip else 1)
    elements *= sizes["B"].full
    while elements > LARGEST:
        key = "B" if sizes["B"].full > 1 else max(SPACE[rank], key=lambda axis: sizes[axis].full)
        sizes[key] = sizes[key]._replace(full=sizes[key].full // 2)
        elements //= 2
    return sizes


def capped(sizes: dict[str, Size]) -> dict[str, Size]:
    """The sizes of one tensor, the batch and then the first place halved till it has at most `LARGEST` elements."""
    found = dict(sizes)
    while math.prod(size.full for size in found.values()) > LARGEST:
        key = next(name for name in found if name != "C" and found[name].full > 1)
        found[key] = found[key]._replace(full=found[key].full // 2)
    return found


def single(draw: Draw, rank: int, **options: object) -> Design:
    """One convolution."""
    return fused(draw, rank, 0, **options)


def extents(sizes: Mapping[str, Size], rank: int, groups: int = 1) -> Extent:
    """With as many places as the input has."""
    places = math.prod(sizes[axis].full for axis in SPACE[rank])
    channels = sizes["CI" if "CI" in sizes else "C"].full // groups
    return places, sizes["CO"].full // groups, sizes["B"].full * groups, channels


def stage(draw: Draw, made: Convolution, after: Chain = NOTHING, name: str = "") -> Stage:
    """The kernel of a convolution that is neither depthwise nor of size one."""
    g = made.geometry
    groups = made.sizes["GROUPS"].full if g.groups else 1
    extent = extents(made.sizes, g.rank, groups)
    flips = made.op.name.startswith("conv_transpose")
    write = transposed if flips else forward_conv
    return write(
        draw, name or f"conv{'_transpose' if flips else ''}{g.rank}d", g, made.dtype, extent, after=after
    )


def fused(draw: Draw, rank: int, count: int | None = None, **options: object) -> Design:
    """A convolution with maps on its output."""
    made = convolution(draw, rank, **options)  # type: ignore[arg-type]
    after = NOTHING
    count = max(draw.operators - 1, 1) if count is None else count
    if count:
        after = chain(draw, count, made.dtype, channel=made.channel, full=made.shape, taken=("bias",))
    return Design((made.op, *after.ops), (stage(draw, made, after),), made.sizes, made.dtype, draw.constants)


def any_fused(draw: Draw, rank: int) -> Design:
    """A convolution of any kind with maps on its output."""
    parts = draw.pick(((), ("padding",), ("padding",), ("stride", "padding"), ("dilation",)))
    return fused(draw, rank, parts=parts, bias_share=0.8, explicit_share=0.12)


def transposed_any(draw: Draw, rank: int, uniform: bool = True) -> Design:
    """A transposed convolution with any parts."""
    parts = draw.pick(
        (
            *((), (), ("stride",), ("padding",), ("stride", "padding"), ("stride", "padding")),
            *(("dilation",), ("padding", "dilation"), *[("stride", "padding", "dilation")] * 3),
        )
    )
    groups = draw.pick((1, 1, 1, 2, 4, 4))
    return single(draw, rank, parts=parts, flip=True, uniform=uniform, groups=groups)


def any_of(draw: Draw, rank: int, choices: tuple[tuple[str, ...], ...], **options: object) -> Design:
    """One convolution with one of several sets of parts."""
    return single(draw, rank, parts=draw.pick(choices), **options)


def large_2d(draw: Draw) -> Design:
    """A kernel of nine and more, as in the first layer of older networks."""
    parts = draw.pick(
        ((), ("padding",), ("stride", "padding"), ("stride", "padding"), *[("padding", "dilation")] * 2)
    )
    return single(draw, 2, parts=parts, uniform=draw.chance(0.5), large=True)


def depthwise_2d(draw: Draw) -> Design:
    return by_channel(draw, 2, 0)


def by_channel(draw: Draw, rank: int, count: int) -> Design:
    """A filter for each channel, alone or with maps."""
    made = _by_channel(draw, rank, draw.dtype(0.2), draw.chance(0.5), "conv")
    shape = ", ".join(["B", "C", *SPACE[rank]]) if made.same else ""
    after = NOTHING
    if count:
        channel = (f"channels{', 1' * rank}", (("channels", "C"),))
        after = chain(draw, count, made.dtype, channel=channel, full=shape, taken=("bias",))
    kernel = depthwise(draw, f"depthwise{rank}d", made.geometry, made.dtype, after=after)
    return Design((made.op, *after.ops), (kernel,), made.sizes, made.dtype, draw.constants)


def _by_channel(draw: Draw, rank: int, dtype: Dtype, bias: bool, attribute: str) -> Convolution:
    uniform = rank != 2 or draw.chance(0.75)
    size = draw.pick((3, 3, 5, 7) if rank < 3 else (3,))
    kernels = [size] * rank if uniform else draw.pick(([size, 1], [1, size], [3, 5], [7, 3]))
    stride = draw.pick((1, 1, 2))
    strides = [stride] * rank if uniform else [1, stride]
    padded = draw.chance(0.5)
    paddings = [k // 2 if padded else 0 for k in kernels]
    sizes = capped(
        {
            "B": draw.size((8, 16, 32, 64), (1,), (2,)),
            "C": draw.size((8, 32, 64, 128, 256), (2, 4), (3,)),
            **{axis: draw.size(FULL[rank], SMALL[rank], ODD[rank]) for axis in SPACE[rank]},
        }
    )

    def spelled(values: list[int]) -> str:
        return str(values[0]) if uniform else str(tuple(values))

    parts = [f"stride={spelled(strides)}"] * (stride != 1) + [f"padding={spelled(paddings)}"] * padded
    extra = "".join(f", {part}" for part in parts) + ("" if bias else ", bias=False")
    given = f"channels, channels, {spelled(kernels)}{extra}, groups=channels{placed(dtype)}"
    signature = ["", "asymmetric"] if not uniform else [""]
    op = Op(
        f"conv{rank}d:depthwise" + ",".join([*signature, *(part.split("=")[0] for part in parts)]),
        f"self.{attribute}({{x}})",
        (f"self.{attribute} = nn.Conv{rank}d({given})",),
        (("channels", "C"),),
        (("x", tensor(", ".join(["B", "C", *SPACE[rank]]), dtype)),),
    )
    geometry = Geometry(rank, rank == 1, True, True, False, False, bias)
    return Convolution(op, geometry, sizes, dtype, stride == 1 and padded)


def pointwise_2d(draw: Draw) -> Design:
    """A convolution of size one."""
    rank, dtype, bias = draw.pick((1, 2, 2)), draw.dtype(0.3), draw.chance(0.6)
    sizes = _sizes(draw, rank, 1, Window([1] * rank, {}, [0] * rank))
    sizes["CI"] = draw.size((32, 64, 128, 256), (16, 24), (19, 37))
    op = _one_by_one(rank, dtype, bias, "conv", "CI")
    kernel = pointwise(draw, "conv1x1", rank, dtype, extents(sizes, rank), bias=bias)
    return Design((op,), (kernel,), sizes, dtype, draw.constants)


def _one_by_one(rank: int, dtype: Dtype, bias: bool, attribute: str, given: str) -> Op:
    first = "in_channels" if given == "CI" else "channels"
    spelled = "kernel_size=1" + ("" if bias else ", bias=False")
    return Op(
        f"conv{rank}d:pointwise",
        f"self.{attribute}({{x}})",
        (f"self.{attribute} = nn.Conv{rank}d({first}, out_channels, {spelled}{placed(dtype)})",),
        ((first, given), ("out_channels", "CO")),
        (("x", tensor(", ".join(["B", given, *SPACE[rank]]), dtype)),),
    )


def separable(draw: Draw) -> Design:
    """Depthwise, then pointwise, in two kernels."""
    dtype, bias = draw.dtype(0.15), draw.chance(0.4)
    made = _by_channel(draw, 2, dtype, bias, "depthwise")
    sizes = {**made.sizes, "CO": draw.size((32, 64, 128), (16, 24), (19, 37))}
    second = _one_by_one(2, dtype, bias, "pointwise", "C")
    second = Op(second.name, second.expression, second.state, second.init)
    stages = (
        depthwise(draw, "depthwise2d", made.geometry, dtype, module="depthwise"),
        pointwise(draw, "pointwise2d", 2, dtype, extents(sizes, 2), bias=bias, module="pointwise"),
    )
    return Design((made.op, second), stages, sizes, dtype, draw.constants)


def depthwise_fusion(draw: Draw) -> Design:
    return by_channel(draw, draw.pick((1, 2)), max(draw.operators - 1, 1))


def _draw(function: Callable[..., Design], rank: int, **options: object) -> Callable[[Draw], Design]:
    return functools.partial(_call, function, rank, options)


def _call(function: Callable[..., Design], rank: int, options: dict[str, object], draw: Draw) -> Design:
    return function(draw, rank, **options)


_PARTS: tuple[tuple[str, ...], ...] = (
    *((), ("padding",), ("stride", "padding"), ("stride",)),
    *((), ("padding", "dilation"), ("padding", "dilation"), ("stride", "padding", "dilation")),
)
_SINGLE: dict[str, Callable[[Draw], Design]] = {
    "conv1d": _draw(single, 1),
    "conv1d_strided": _draw(single, 1, parts=("stride", "padding")),
    "conv1d_dilated": _draw(
        any_of, 1, choices=(("stride", "dilation"), ("dilation",), ("padding", "dilation"))
    ),
    "conv2d": _draw(single, 2),
    "conv2d_padded": _draw(single, 2, parts=("padding",)),
    "conv2d_strided": _draw(single, 2, parts=("stride", "padding")),
    "conv2d_dilated": _draw(any_of, 2, choices=(("padding", "dilation"), ("dilation",))),
    "conv2d_large": large_2d,
    "conv2d_asymmetric": _draw(any_of, 2, choices=_PARTS, uniform=False),
    "conv2d_grouped": _draw(any_of, 2, choices=_PARTS[:4], groups=4),
    "conv2d_depthwise": depthwise_2d,
    "conv2d_pointwise": pointwise_2d,
    "conv2d_separable": separable,
    "conv3d": _draw(single, 3),
    "conv3d_strided": _draw(single, 3, parts=("stride", "padding")),
    "conv3d_dilated": _draw(any_of, 3, choices=(("padding", "dilation"), ("dilation",))),
    "conv3d_asymmetric": _draw(any_of, 3, choices=_PARTS, uniform=False),
    "conv_transpose1d": _draw(transposed_any, 1),
    "conv_transpose2d": _draw(transposed_any, 2),
    "conv_transpose3d": _draw(transposed_any, 3),
    "conv_transpose2d_asymmetric": _draw(transposed_any, 2, uniform=False),
    "conv_transpose3d_asymmetric": _draw(transposed_any, 3, uniform=False),
}
FAMILIES = (
    *(Family(name, "convolution", draw) for name, draw in _SINGLE.items()),
    Family("conv2d_fusion", "fusion", _draw(any_fused, 2), (2, 3, 4, 5)),
    Family("depthwise_fusion", "fusion", depthwise_fusion, (2, 3)),
)
