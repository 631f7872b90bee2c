"""Convolutions as stages: implicit GEMM of windows and filters, depthwise and transposed forms.

Written for one to three spatial dimensions; strides, padding, dilation and groups are in the code only where the task
has them. Tensors are contiguous, channels before space. A tile is (places, channels out): of places there are many.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelwright.data.families.epilogue import NOTHING, Chain
from kernelwright.data.families.gemm import blocks
from kernelwright.data.families.spec import Draw, Dtype, Stage, kernel, launch, widened
from kernelwright.data.families.windows import (
    ZEROS,
    Geometry,
    area,
    coordinates,
    flat_place,
    form_of,
    over_taps,
    parens,
    product,
    products,
    spelled,
    tap_place,
    within,
    wrapped,
)

Extent = tuple[int, int, int, int]
"""Places, channels out of a group, images with their groups, and channels into a group, at full size."""


def host_sizes(g: Geometry) -> list[str]:
    """Host lines: sizes in, sizes out, of a convolution with the parameters `x` and `weight`."""
    axes = g.axes
    lines = [
        f"n, ci, {', '.join(axes)} = x.shape",
        f"co, per_group, {', '.join(f'k{a}' for a in axes)} = weight.shape",
    ]
    for index, axis in enumerate(axes):
        length = axis
        if g.padding:
            length += f" + 2 * padding[{index}]"
        window = f"(k{axis} - 1)"
        length += f" - dilation[{index}] * {window}" if g.dilation else f" - k{axis} + 1"
        if g.stride:
            step = f"stride[{index}]"
            length = f"({length} - 1) // {step} + 1"
        lines.append(f"o{axis} = {length}")
    return lines


def _tile(places: str, outs: str, phases: str = "") -> list[str]:
    """Kernel lines: which outputs, channels, image and, of `phases`, phase a program has."""
    image = "image = tl.program_id(2).to(tl.int64)"
    if phases:
        image = f"image = (tl.program_id(2) // {parens(phases)}).to(tl.int64)"
    return [
        "p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)",
        "co = tl.program_id(1) * BLOCK_CO + tl.arange(0, BLOCK_CO)",
        *([f"phase = tl.program_id(2) % {parens(phases)}"] if phases else []),
        image,
        f"x_ptr += image * CI * {places}",
        f"y_ptr += image * CO * {outs}",
    ]


def _outs(g: Geometry) -> list[str]:
    """The host's names of the output's sizes."""
    return [f"o{axis}" for axis in g.axes]


def _sizes(g: Geometry, channels: str, outs: str) -> list[tuple[str, str]]:
    """(kernel's parameter, what the host passes): channels and space, in and out, and the groups."""
    groups = [("groups", "groups")] if g.groups else []
    return [("CI", channels), *_named(g.sizes()), ("CO", outs), *_named(g.sizes("O")), *groups]


def _named(sizes: list[str]) -> list[tuple[str, str]]:
    """What the kernel calls `OH`, the host calls `oh`."""
    return [(size, size.lower()) for size in sizes]


def _grid(places: list[str], tiles: Mapping[str, str], outs: str, images: list[str]) -> str:
    """A program for each tile of places, each of `outs` channels, each of `images`."""
    first = f"triton.cdiv({' * '.join(places)}, {tiles['BLOCK_P']})"
    return f"{first}, triton.cdiv({outs}, {tiles['BLOCK_CO']}), {' * '.join(images)}"


def _stage(
    name: str,
    g: Geometry,
    module: str,
    after: Chain,
    body: list[str],
    *,
    sizes: list[tuple[str, str]],
    constants: list[tuple[str, str]],
    warps: str,
    host: list[str],
    shape: str,
    grid: str,
    weight: str = "weight",
) -> Stage:
    """One kernel and the host function that allocates `y` of `shape`, launches on `grid`, and returns.

    `sizes` and `constants` are (kernel's parameter, what the host passes), in their order; `host` are the lines
    before, in which all that is passed gets its name.
    """
    bias = ("b_ptr",) if g.bias else ()
    parameters = ["x_ptr", "w_ptr", *bias, *after.pointers, "y_ptr", *(size for size, _ in sizes)]
    parameters += [f"{constant}: tl.constexpr" for constant, _ in constants]
    passed = ["x", weight, *(["bias"] if g.bias else []), *after.arguments, "y"]
    passed += [*(value for _, value in sizes), *(f"{c}={value}" for c, value in constants), warps]
    lines = (
        *host,
        f"y = torch.empty(({shape}), device=x.device, dtype=x.dtype)",
        *launch(f"{name}_kernel", grid, passed),
        "return y",
    )
    text = kernel(f"{name}_kernel", parameters, body)
    return Stage(name, (text,), _takes(g, module, after), lines, after.helpers)


def _takes(g: Geometry, module: str, after: Chain) -> tuple[tuple[str, str], ...]:
    bias = [("bias", f"self.{module}.bias")] if g.bias else []
    more = [("output_padding", f"self.{module}.output_padding")] if g.output_padding else []
    weight = ("weight", f"self.{module}.weight")
    return (("x", "{x}"), weight, *bias, *g.takes(module), *after.takes, *more)


def _tiles(draw: Draw, dtype: Dtype, extent: Extent, form: str = "window") -> tuple[dict[str, str], str]:
    """The tile's sizes, and the keyword of the warps."""
    if form == "channel":
        outs = 1 << (extent[1] - 1).bit_length()
        co, steps = max(4, min(outs, 16 if draw.slow else 64)), {}
        p, warps = 32, 4
        if not draw.slow:  # 64 sums a thread: with 16, a fifth slower
            p = draw.tune.choice((64, 128)) if co == 64 else min(4096 // co, 256)
            warps = max(1, p * co // 2048)
    else:
        p, co, r, _ = draw.tune.choice(blocks(draw, dtype != "float32", extent[:3], extent[3]))
        warps = 8 if p * co > 8192 else 4 if p * co > 2048 else 2
        if p * co > 8192 and form == "tap" and extent[3] >= 64:
            r = 64
        steps = {"BLOCK_R": min(r, max(16, 1 << (extent[3] - 1).bit_length())) if form == "tap" else r}
    tiles = {"BLOCK_P": p, "BLOCK_CO": co, **steps}
    if draw.tune.random() < 0.35:
        draw.constants.update(tiles)
        return {name: name for name in tiles}, f"num_warps={warps}"
    return {name: str(size) for name, size in tiles.items()}, f"num_warps={warps}"


def _finish(g: Geometry, after: Chain, channel: str, outs: str, at: str = "p", inside: str = "") -> list[str]:
    """Bias, maps and the store of a tile `acc` of (places, channels); `at` are its places."""
    lines = []
    if g.bias:
        lines.append(f"acc += tl.load(b_ptr + {channel}, mask=co < CO, other=0.0)[None, :]")
    lines += [
        f"mask = ({inside or f'p < {outs}'})[:, None] & (co < CO)[None, :]",
        f"offs = ({at})[:, None] + co[None, :] * {parens(outs)}".replace("(p)[", "p["),
    ]
    full = f"image * CO * {outs} + offs"
    lines += after.lines(
        "acc", channel=channel, channel_mask="co < CO", expand="[None, :]", offsets=full, mask="mask"
    )
    return [*lines, "tl.store(y_ptr + offs, acc, mask=mask)"]


def forward_conv(
    draw: Draw,
    name: str,
    g: Geometry,
    dtype: Dtype,
    extent: Extent,
    *,
    module: str = "conv",
    after: Chain = NOTHING,
) -> Stage:
    """A convolution with `after` done on its tiles."""
    places, outs = area(g), area(g, outs=True)
    body = [*_tile(places, outs), *coordinates(g)]
    channel = "co"
    if g.groups:
        body.append("channel = (image % groups) * CO + co")
        channel = "channel"
    form = form_of(draw, dtype, extent[3], "+")
    body += products(g, form, [g.tap("K", axis) for axis in g.axes], "+", channel, dtype)
    body += _finish(g, after, channel, outs)
    tiles, warps = _tiles(draw, dtype, extent, form)
    host = host_sizes(g)
    if form != "window":
        order = ", ".join(str(dim) for dim in (0, *range(2, g.rank + 2), 1))
        host.append(f"filters = weight.permute({order}).contiguous()")
    per_out = "co // groups" if g.groups else "co"
    return _stage(
        name,
        g,
        module,
        after,
        body,
        sizes=_sizes(g, "per_group", per_out),
        constants=[*g.constants(), *tiles.items()],
        warps=warps,
        host=host,
        shape=f"n, co, {', '.join(_outs(g))}",
        grid=_grid(_outs(g), tiles, per_out, ["n", *["groups"] * g.groups]),
        weight="weight" if form == "window" else "filters",
    )


def depthwise(
    draw: Draw, name: str, g: Geometry, dtype: Dtype, *, module: str = "conv", after: Chain = NOTHING
) -> Stage:
    """A filter for each channel: a program takes a run of one plane's outputs, the window is unrolled."""
    block = draw.tile("BLOCK", (128, 256, 512), (32,))
    places, outs = area(g), area(g, outs=True)
    wide = widened(dtype)
    loops, indent = over_taps(g, "tl.static_range")
    body = [
        "plane = tl.program_id(1).to(tl.int64)",
        "channel = plane % channels",
        "p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        *coordinates(g),
        f"x_ptr += plane * {places}",
        "acc = tl.zeros([BLOCK], dtype=tl.float32)",
        *loops,
        f"{indent}inside = {within(g.axes, g.padding)} & (p < {outs})",
        f"{indent}x = tl.load(x_ptr + {flat_place(g)}, mask=inside, other=0.0){wide}",
        f"{indent}acc += x * tl.load(w_ptr + channel * {parens(g.taps())} + {tap_place(g)}){wide}",
    ]
    if g.bias:
        body.append(f"acc += tl.load(b_ptr + channel){wide}")
    body += after.lines("acc", channel="channel", one=True, offsets=f"plane * {outs} + p", mask=f"p < {outs}")
    body.append(f"tl.store(y_ptr + plane * {outs} + p, acc, mask=p < {outs})")
    return _stage(
        name,
        g,
        module,
        after,
        body,
        sizes=[("channels", "co"), *_named(g.sizes()), *_named(g.sizes("O"))],
        constants=[*g.constants(), ("BLOCK", block)],
        warps=draw.warps((4,), (1, 8)),
        host=host_sizes(g),
        shape=f"n, co, {', '.join(_outs(g))}",
        grid=f"triton.cdiv({' * '.join(_outs(g))}, {block}), n * co",
    )


def pointwise(
    draw: Draw, name: str, rank: int, dtype: Dtype, extent: Extent, *, bias: bool = True,
    module: str = "conv", after: Chain = NOTHING,
) -> Stage:  # fmt: skip
    """A kernel of size one: for each image a product of (places, channels in) and the weights."""
    g = Geometry(rank, bias=bias)
    body = [
        *_tile("size", "size"),
        ZEROS,
        "for start in range(0, CI, BLOCK_R):",
        "    ci = start + tl.arange(0, BLOCK_R)",
        "    x_mask = (p < size)[:, None] & (ci < CI)[None, :]",
        "    x = tl.load(x_ptr + p[:, None] + ci[None, :] * size, mask=x_mask, other=0.0)",
        "    w_mask = (ci < CI)[:, None] & (co < CO)[None, :]",
        "    weight = tl.load(w_ptr + co[None, :] * CI + ci[:, None], mask=w_mask, other=0.0)",
        f"    {product(dtype)}",
        *_finish(g, after, "co", "size"),
    ]
    tiles, warps = _tiles(draw, dtype, extent)
    return _stage(
        name,
        g,
        module,
        after,
        body,
        sizes=[("CI", "ci"), ("CO", "co"), ("size", "size")],
        constants=[*tiles.items()],
        warps=warps,
        host=["n, ci = x.shape[:2]", "co = weight.shape[0]", "size = x[0, 0].numel()"],
        shape="n, co, *x.shape[2:]",
        grid=_grid(["size"], tiles, "co", ["n"]),
    )


def transposed(
    draw: Draw,
    name: str,
    g: Geometry,
    dtype: Dtype,
    extent: Extent,
    *,
    module: str = "conv",
    after: Chain = NOTHING,
) -> Stage:
    """A transposed convolution by gathering. With a stride, outputs of one phase, `o + PAD` modulo the stride, are
    reached through the same taps and no others: a program has outputs of one phase. The filters are laid out with
    their channels in last, so that a tile of them is read in a row."""
    places, outs = area(g), area(g, outs=True)
    phased = g.stride
    steps = [g.tap("S", axis) for axis in g.axes]
    body = _tile(places, outs, " * ".join(steps) if phased else "")
    channel = "co"
    if g.groups:
        body.append("channel = (image % groups) * CO + co")
        channel = "channel"
    filters = [g.tap("K", axis) for axis in g.axes]
    at, inside = "p", ""
    if phased:
        body += [f"f{axis} = {wrapped('phase', steps, i)}" for i, axis in enumerate(g.axes)]
        extents = [f"Q{axis.upper()}" for axis in g.axes]
        body += [f"{axis}0 = {wrapped('p', extents, i)}" for i, axis in enumerate(g.axes)]
    else:
        body += coordinates(g, flip=True)
    counts, tap = filters, ""
    if phased and not g.dilation:
        body += [f"n{a} = tl.cdiv({k} - f{a}, {s})" for a, k, s in zip(g.axes, filters, steps, strict=True)]
        counts, tap = [f"n{axis}" for axis in g.axes], tap_place(g)
        for axis, step in zip(g.axes, steps, strict=True):
            tap = spelled(tap, f"k{axis}", f"(k{axis} * {step} + f{axis})")
        tap = tap if g.rank > 1 else tap[1:-1]
    form = form_of(draw, dtype, extent[3], "-")
    body += products(g, form, counts, "-", channel, dtype, tap)
    if phased:
        ends = []
        for axis, step in zip(g.axes, steps, strict=True):
            pad = f" - {g.tap('P', axis)}" if g.padding else ""
            body.append(f"o{axis} = {axis}0 * {step} + f{axis}{pad}")
            ends += [f"(o{axis} >= 0)"] * g.padding + [f"(o{axis} < O{axis.upper()})"]
        at, inside = flat_place(g), " & ".join(ends)
        for axis in g.axes:
            at = spelled(spelled(at, axis, f"o{axis}"), axis.upper(), f"O{axis.upper()}")
    body += _finish(g, after, channel, outs, at, inside)
    tiles, warps = _tiles(draw, dtype, extent, form)
    host = [
        f"n, ci, {', '.join(g.axes)} = x.shape",
        f"_, co, {', '.join(f'k{a}' for a in g.axes)} = weight.shape",
    ]
    for index, axis in enumerate(g.axes):
        step = f"({axis} - 1) * stride[{index}]" if g.stride else f"{axis} - 1"
        pad = f" - 2 * padding[{index}]" if g.padding else ""
        reach = f"dilation[{index}] * (k{axis} - 1) + 1" if g.dilation else f"k{axis}"
        more = f" + output_padding[{index}]" if g.output_padding else ""
        host.append(f"o{axis} = {step}{pad} + {reach}{more}")
    if g.groups:
        turned = f"weight.view(groups, -1, co, {', '.join(f'k{a}' for a in g.axes)})"
        order = ", ".join(str(dim) for dim in (0, *range(2, g.rank + 3), 1))
    else:
        turned, order = "weight", ", ".join(str(dim) for dim in (*range(1, g.rank + 2), 0))
    host.append(f"filters = {turned}.permute({order}).contiguous()")
    sizes = _sizes(g, "ci // groups" if g.groups else "ci", "co")
    tiled, images = _outs(g), ["n", *["groups"] * g.groups]
    if phased:
        for index, axis in enumerate(g.axes):
            length = f"o{axis} + padding[{index}]" if g.padding else f"o{axis}"
            host.append(f"q{axis} = triton.cdiv({length}, stride[{index}])")
        tiled = [f"q{axis}" for axis in g.axes]
        host.append(f"phases = {' * '.join(f'stride[{index}]' for index in range(g.rank))}")
        images.append("phases")
        sizes += [(f"Q{axis.upper()}", f"q{axis}") for axis in g.axes[1:]]
    return _stage(
        name,
        g,
        module,
        after,
        body,
        sizes=sizes,
        constants=[*g.constants(), *tiles.items()],
        warps=warps,
        host=host,
        shape=f"n, {'co * groups' if g.groups else 'co'}, {', '.join(_outs(g))}",
        grid=_grid(tiled, tiles, "co", images),
        weight="filters",
    )
