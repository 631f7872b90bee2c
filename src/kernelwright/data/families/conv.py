"""Convolutions as stages: implicit GEMM of unfolded windows and filters, depthwise and transposed forms.

Written for one to three spatial dimensions; strides, padding, dilation and groups are in the code only where the task
has them. Tensors are contiguous, channels before space. A tile is (places, channels out): of places there are many.

What a step of the product takes of the window is chosen for the integers that it costs. Tap by tap, channels run and
all coordinates are those of places; where channels are too few for that, row by row, the last axis' taps and channels
run together; whole windows cost a division and two comparisons an axis for every element, and are the slow form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernelwright.data.families.epilogue import NOTHING, Chain
from kernelwright.data.families.gemm import blocks
from kernelwright.data.families.spec import Draw, Dtype, Stage, kernel, launch, precision, widened

FEW = 16
"""Channels into a group, of which fewer do not fill a step of the product."""
Extent = tuple[int, int, int, int]
"""Places, channels out of a group, images with their groups, and channels into a group, at full size."""


@dataclass(frozen=True)
class Geometry:
    """Which parts a convolution has."""

    rank: int
    uniform: bool = True
    """One kernel size, stride, ... for all dimensions."""
    stride: bool = False
    padding: bool = False
    dilation: bool = False
    groups: bool = False
    bias: bool = True
    output_padding: bool = False

    @property
    def axes(self) -> str:
        return "dhw"[-self.rank :]

    def tap(self, what: str, axis: str) -> str:
        """The constexpr that holds the kernel size (K), stride (S), padding (P) or dilation (D) of an axis."""
        if not self.uniform:
            return f"{what}{axis.upper()}"
        return {"K": "KERNEL", "S": "STRIDE", "P": "PAD", "D": "DILATION"}[what]

    def constants(self) -> list[tuple[str, str]]:
        """(constexpr, host expression) of all that is used."""
        kinds = [("K", "kernel"), ("S", "stride"), ("P", "padding"), ("D", "dilation")]
        has = {"K": True, "S": self.stride, "P": self.padding, "D": self.dilation}
        found = []
        for what, host in kinds:
            if not has[what]:
                continue
            for index, axis in enumerate(self.axes):
                value = f"k{axis}" if what == "K" else f"{host}[{index}]"
                found.append((self.tap(what, axis), value))
                if self.uniform:
                    break
        return found

    def sizes(self, prefix: str = "") -> list[str]:
        """Parameters of a kernel that hold the spatial sizes of the input, or with `O` of the output."""
        return [f"{prefix}{axis.upper()}" for axis in self.axes]

    def takes(self, module: str) -> list[tuple[str, str]]:
        """Host parameters besides x, weight and bias."""
        names = [
            ("stride", self.stride),
            ("padding", self.padding),
            ("dilation", self.dilation),
            ("groups", self.groups),
        ]
        return [(name, f"self.{module}.{name}") for name, has in names if has]

    def taps(self) -> str:
        """The number of taps, as an expression over constexprs."""
        if self.uniform:
            return " * ".join(["KERNEL"] * self.rank)
        return " * ".join(self.tap("K", axis) for axis in self.axes)


def _place(flat: str, extents: list[str], index: int) -> str:
    """The coordinate on the `index`-th axis of a flat place, not yet wrapped at the axis's own extent."""
    inner = " * ".join(extents[index + 1 :])
    return f"{flat} // {_parens(inner)}" if inner else flat


def _coordinates(g: Geometry, *, flip: bool = False) -> list[str]:
    """Kernel lines: the window's first coordinate on each axis, from the output's flat place `p`.

    With `flip`, of a transposed convolution: what the input's coordinate times the stride, plus the tap, must be.
    """
    lines = []
    for index, axis in enumerate(g.axes):
        place = _place("p", g.sizes("O"), index)
        if index:
            place += f" % O{axis.upper()}"
        if g.stride and not flip:
            place += f" * {g.tap('S', axis)}"
        if g.padding:
            place += f" {'+' if flip else '-'} {g.tap('P', axis)}"
        lines.append(f"{axis}0 = {place}")
    return lines


def _tap_of(g: Geometry, index: int, axis: str) -> str:
    """The tap on an axis of the flat window place `r`, as far as it reaches."""
    place = f"{_place('r', [g.tap('K', a) for a in g.axes], index)} % {g.tap('K', axis)}"
    return f"{place} * {g.tap('D', axis)}" if g.dilation else place


def _over_taps(g: Geometry, loop: str, lines: Callable[[str, str], list[str]]) -> tuple[list[str], str]:
    """Nested loops over the taps, and the indent inside; in each, `lines(axis, step)`, `step` being how far it reaches."""
    body, indent = [], ""
    for axis in g.axes:
        body.append(f"{indent}for k{axis} in {loop}({g.tap('K', axis)}):")
        indent += "    "
        step = f"k{axis} * {g.tap('D', axis)}" if g.dilation else f"k{axis}"
        body += [indent + line for line in lines(axis, step)]
    return body, indent


def _inside(g: Geometry, negative: bool) -> str:
    parts = []
    for axis in g.axes:
        if negative:
            parts.append(f"({axis} >= 0)")
        parts.append(f"({axis} < {axis.upper()})")
    return " & ".join(parts)


def _flat(g: Geometry) -> str:
    """The place in a channel of the coordinates d, h, w."""
    return {1: "w", 2: "h * W + w", 3: "(d * H + h) * W + w"}[g.rank]


def _tap_place(g: Geometry) -> str:
    """The place in a filter of the taps kd, kh, kw."""
    return {
        1: "kw",
        2: f"kh * {g.tap('K', 'w')} + kw",
        3: f"(kd * {g.tap('K', 'h')} + kh) * {g.tap('K', 'w')} + kw",
    }[g.rank]


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


_ZEROS = "acc = tl.zeros((BLOCK_P, BLOCK_CO), dtype=tl.float32)"


def _tile(places: str, outs: str, phases: str = "") -> list[str]:
    """Kernel lines: which outputs, channels, image and, of `phases`, phase a program has."""
    image = "image = tl.program_id(2).to(tl.int64)"
    if phases:
        image = f"image = (tl.program_id(2) // {_parens(phases)}).to(tl.int64)"
    return [
        "p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)",
        "co = tl.program_id(1) * BLOCK_CO + tl.arange(0, BLOCK_CO)",
        *([f"phase = tl.program_id(2) % {_parens(phases)}"] if phases else []),
        image,
        f"x_ptr += image * CI * {places}",
        f"y_ptr += image * CO * {outs}",
    ]


def _product(dtype: Dtype) -> str:
    return f"acc = tl.dot(x, weight, acc{precision(dtype)})"


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


def _parens(text: str) -> str:
    return f"({text})" if "*" in text else text


def _takes(g: Geometry, module: str, after: Chain) -> tuple[tuple[str, str], ...]:
    bias = [("bias", f"self.{module}.bias")] if g.bias else []
    more = [("output_padding", f"self.{module}.output_padding")] if g.output_padding else []
    weight = ("weight", f"self.{module}.weight")
    return (("x", "{x}"), weight, *bias, *g.takes(module), *after.takes, *more)


def _tiles(draw: Draw, dtype: Dtype, extent: Extent, form: str = "window") -> tuple[dict[str, str], str]:
    """The tile's sizes, and the keyword of the warps."""
    p, co, r, warps = draw.tune.choice(blocks(draw, dtype != "float32", extent[:3], extent[3]))
    if form == "tap":
        r = min(r, max(16, 1 << (extent[3] - 1).bit_length()))
    elif form == "row" and extent[3] <= 5:
        r = 16
    warps = 8 if p * co >= 8192 else warps  # addresses take more registers than those of a plain product
    tiles = {"BLOCK_P": p, "BLOCK_CO": co, "BLOCK_R": r}
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
        f"offs = ({at})[:, None] + co[None, :] * {_parens(outs)}".replace("(p)[", "p["),
    ]
    full = f"image * CO * {outs} + offs"
    lines += after.lines(
        "acc", channel=channel, channel_mask="co < CO", expand="[None, :]", offsets=full, mask="mask"
    )
    return [*lines, "tl.store(y_ptr + offs, acc, mask=mask)"]


def _windows(g: Geometry, taps: list[str]) -> list[str]:
    """Loop lines that load `x` of (places, window): `taps` are lines that make `ci` and the taps from `r`."""
    lines = ["r = start + tl.arange(0, BLOCK_R)", *taps]
    if not g.padding:
        rows, columns = _flat(g), _flat(g)
        for axis in g.axes:
            rows, columns = _spelled(rows, axis, f"{axis}0"), _spelled(columns, axis, f"k{axis}")
        size = _parens(" * ".join(g.sizes()))
        return [
            *lines,
            f"x_at = ({rows})[:, None] + (ci * {size} + {columns})[None, :]".replace("(w0)[", "w0["),
            f"inside = (p < {' * '.join(g.sizes('O'))})[:, None] & (r < R)[None, :]",
            "x = tl.load(x_ptr + x_at, mask=inside, other=0.0)",
        ]
    for axis in g.axes:
        lines.append(f"{axis} = {axis}0[:, None] + k{axis}[None, :]")
    lines.append(f"inside = {_inside(g, True)} & (r < R)[None, :]")
    return [
        *lines,
        f"x_at = (ci * {_parens(' * '.join(g.sizes()))})[None, :] + {_flat(g)}",
        "x = tl.load(x_ptr + x_at, mask=inside, other=0.0)",
    ]


Steps = tuple[list[str], str, list[str]]
"""Kernel lines before a loop, its header, and the lines in it that load `x` of a step."""


def _by_tap(g: Geometry, counts: list[str], sign: str, phased: bool) -> Steps:
    """Of each step (places, channels `ci`) at one `tap` of `counts` an axis; `phased` taps are needed one by one, too."""
    lines = ["tap = k // steps", "ci = k % steps * BLOCK_R + tl.arange(0, BLOCK_R)"]
    for index, axis in enumerate(g.axes):
        place = _wrapped("tap", counts, index)
        if phased:
            lines.append(f"k{axis} = {place}")
            place = f"k{axis}"
        lines += _reached(g, axis, sign, place)
    bounds = _bounds(g, g.axes, sign)
    lines += [
        f"inside = {bounds or f'p < {_area(g, outs=True)}'}",
        f"x_at = {_column(_flat(g))} + (ci * {_parens(_area(g))})[None, :]",
        "x = tl.load(x_ptr + x_at, mask=inside[:, None] & (ci < CI)[None, :], other=0.0)",
    ]
    return ["steps = tl.cdiv(CI, BLOCK_R)"], f"for k in range({' * '.join(counts)} * steps):", lines


def _by_row(g: Geometry, counts: list[str], sign: str, phased: bool) -> Steps:
    """Of each step (places, taps `r` of the last axis with their channels) at one tap of each other axis, a `line`."""
    last, others = g.axes[-1], g.axes[:-1]
    lines = ["line = k // steps", "r = k % steps * BLOCK_R + tl.arange(0, BLOCK_R)"]
    if not others:
        lines = ["r = k * BLOCK_R + tl.arange(0, BLOCK_R)"]
    lines += ["ci = r % CI", f"k{last} = {_reach(g, last, 'r // CI')}"]
    for index, axis in enumerate(others):
        place = _wrapped("line", counts[:-1], index)
        if phased:
            lines.append(f"k{axis} = {place}")
            place = f"k{axis}"
        lines += _reached(g, axis, sign, place)
    inside = [f"(p < {_area(g, outs=True)})[:, None]"]
    if bounds := _bounds(g, last, sign):
        lines.append(f"{last} = {last}0[:, None] {sign} k{last}[None, :]")
        inside = [*([f"({_bounds(g, others, sign)})[:, None]"] if others else []), bounds]
    start = _column(_spelled(_flat(g), last, f"{last}0"))
    lines += [
        f"inside = {' & '.join([*inside, '(r < row)[None, :]'])}",
        f"x_at = {start} + (ci * {_parens(_area(g))} {sign} k{last})[None, :]",
        "x = tl.load(x_ptr + x_at, mask=inside, other=0.0)",
    ]
    before = [f"row = {counts[-1]} * CI", "steps = tl.cdiv(row, BLOCK_R)"]
    return before, f"for k in range({' * '.join([*counts[:-1], 'steps'])}):", lines


def _products(
    g: Geometry, form: str, counts: list[str], sign: str, channel: str, dtype: Dtype, phase: str = ""
) -> list[str]:
    """Kernel lines: `acc`, and the loop that adds up products with filters whose channels come last. `phase` is the place in
    a filter of the taps kd, kh, kw, where those are of one phase."""
    write = {"tap": _by_tap, "row": _by_row}[form]
    before, header, lines = write(g, counts, sign, bool(phase))
    step, end = {"tap": ("ci", "CI"), "row": ("r", "row")}[form]
    at = "tap * CI + ci" if form == "tap" else "line * row + r" if g.rank > 1 else "r"
    lines += [
        f"w_at = {f'({phase}) * CI + ci' if phase else at}",
        f"w_mask = ({step} < {end})[:, None] & (co < CO)[None, :]",
        f"weight = tl.load(w_ptr + {channel}[None, :] * ({g.taps()} * CI) + w_at[:, None], mask=w_mask, other=0.0)",
        _product(dtype),
    ]
    return [*before, _ZEROS, header, *(f"    {line}" for line in lines)]


def _form(draw: Draw, g: Geometry, channels: int, sign: str) -> str:
    """How a window is walked: by tap, by row, or unfolded whole."""
    if draw.slow and draw.tune.random() < 0.4 and sign == "+":
        return "window"
    return "row" if channels < FEW and not _divided(g, sign) else "tap"


def _wrapped(flat: str, counts: list[str], index: int) -> str:
    """The coordinate on the `index`-th axis of `flat`, of `counts` an axis."""
    return _place(flat, counts, index) + (f" % {counts[index]}" if index else "")


def _reach(g: Geometry, axis: str, tap: str) -> str:
    """How far a tap reaches."""
    return f"{tap} * {g.tap('D', axis)}" if g.dilation else tap


def _reached(g: Geometry, axis: str, sign: str, tap: str) -> list[str]:
    """Lines that set an axis' coordinate: of the window that begins at `{axis}0`, at a tap."""
    place = f"{axis}0 {sign} {_reach(g, axis, tap)}"
    if not _divided(g, sign):
        return [f"{axis} = {place}"]
    return [f"t{axis} = {place}", f"{axis} = t{axis} // {g.tap('S', axis)}"]


def _divided(g: Geometry, sign: str) -> bool:
    """Whether only coordinates that the stride divides are the input's: where a transposed convolution has a dilation, too,
    its outputs have no phases."""
    return sign == "-" and g.stride and g.dilation


def _bounds(g: Geometry, axes: str, sign: str) -> str:
    """Whether coordinates lie in the input; empty where all do, for any place of the output."""
    if not g.padding and sign == "+":
        return ""
    if _divided(g, sign):
        whole = [f"(t{a} >= 0) & (t{a} % {g.tap('S', a)} == 0) & ({a} < {a.upper()})" for a in axes]
        return " & ".join(whole)
    return " & ".join(f"({axis} >= 0) & ({axis} < {axis.upper()})" for axis in axes)


def _area(g: Geometry, outs: bool = False) -> str:
    """Places of a channel of the input, or of the output."""
    return " * ".join(g.sizes("O" if outs else ""))


def _column(text: str) -> str:
    return f"{text}[:, None]" if text.isidentifier() else f"({text})[:, None]"


def _spelled(text: str, axis: str, name: str) -> str:
    """`text`, in which the coordinate `axis` is called `name`."""
    return re.sub(rf"\b{axis}\b", name, text)


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
    places, outs, taps = " * ".join(g.sizes()), " * ".join(g.sizes("O")), g.taps()
    body = [*_tile(places, outs), *_coordinates(g)]
    channel = "co"
    if g.groups:
        body.append("channel = (image % groups) * CO + co")
        channel = "channel"
    form = _form(draw, g, extent[3], "+")
    if form == "window":
        unfolded = [f"ci = r // {_parens(taps)}"]
        unfolded += [f"k{axis} = {_tap_of(g, index, axis)}" for index, axis in enumerate(g.axes)]
        loop = [
            *_windows(g, unfolded),
            "w_mask = (r < R)[:, None] & (co < CO)[None, :]",
            f"weight = tl.load(w_ptr + {channel}[None, :] * R + r[:, None], mask=w_mask, other=0.0)",
            _product(dtype),
        ]
        body += [f"R = CI * {taps}", _ZEROS, "for start in range(0, R, BLOCK_R):"]
        body += [f"    {line}" for line in loop]
    else:
        body += _products(g, form, [g.tap("K", axis) for axis in g.axes], "+", channel, dtype)
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
    places, outs = " * ".join(g.sizes()), " * ".join(g.sizes("O"))
    wide = widened(dtype)
    loops, indent = _over_taps(g, "tl.static_range", lambda axis, step: [f"{axis} = {axis}0 + {step}"])
    body = [
        "plane = tl.program_id(1).to(tl.int64)",
        "channel = plane % channels",
        "p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        *_coordinates(g),
        f"x_ptr += plane * {places}",
        "acc = tl.zeros([BLOCK], dtype=tl.float32)",
        *loops,
        f"{indent}inside = {_inside(g, g.padding)} & (p < {outs})",
        f"{indent}x = tl.load(x_ptr + {_flat(g)}, mask=inside, other=0.0){wide}",
        f"{indent}acc += x * tl.load(w_ptr + channel * {_parens(g.taps())} + {_tap_place(g)}){wide}",
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
        _ZEROS,
        "for start in range(0, CI, BLOCK_R):",
        "    ci = start + tl.arange(0, BLOCK_R)",
        "    x_mask = (p < size)[:, None] & (ci < CI)[None, :]",
        "    x = tl.load(x_ptr + p[:, None] + ci[None, :] * size, mask=x_mask, other=0.0)",
        "    w_mask = (ci < CI)[:, None] & (co < CO)[None, :]",
        "    weight = tl.load(w_ptr + co[None, :] * CI + ci[:, None], mask=w_mask, other=0.0)",
        f"    {_product(dtype)}",
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
    places, outs = _area(g), _area(g, outs=True)
    phased = g.stride and not g.dilation
    steps = [g.tap("S", axis) for axis in g.axes]
    body = _tile(places, outs, " * ".join(steps) if phased else "")
    channel = "co"
    if g.groups:
        body.append("channel = (image % groups) * CO + co")
        channel = "channel"
    filters = [g.tap("K", axis) for axis in g.axes]
    at, inside = "p", ""
    if phased:
        counts = [f"n{axis}" for axis in g.axes]
        wraps = [f" % {step}" if index else "" for index, step in enumerate(steps)]
        body += [f"f{a} = {_place('phase', steps, i)}{wraps[i]}" for i, a in enumerate(g.axes)]
        extents = [f"Q{axis.upper()}" for axis in g.axes]
        wraps = [f" % {extent}" if index else "" for index, extent in enumerate(extents)]
        body += [f"{a}0 = {_place('p', extents, i)}{wraps[i]}" for i, a in enumerate(g.axes)]
        body += [f"n{a} = tl.cdiv({k} - f{a}, {s})" for a, k, s in zip(g.axes, filters, steps, strict=True)]
        tap = _tap_place(g)
        for axis, step in zip(g.axes, steps, strict=True):
            tap = _spelled(tap, f"k{axis}", f"(k{axis} * {step} + f{axis})")
        tap = tap if g.rank > 1 else tap[1:-1]
    else:
        body += _coordinates(g, flip=True)
        counts, tap = filters, ""
    form = _form(draw, g, extent[3], "-")
    body += _products(g, form, counts, "-", channel, dtype, tap)
    if phased:
        ends = []
        for axis, step in zip(g.axes, steps, strict=True):
            pad = f" - {g.tap('P', axis)}" if g.padding else ""
            body.append(f"o{axis} = {axis}0 * {step} + f{axis}{pad}")
            ends += [f"(o{axis} >= 0)"] * g.padding + [f"(o{axis} < O{axis.upper()})"]
        at, inside = _flat(g), " & ".join(ends)
        for axis in g.axes:
            at = _spelled(_spelled(at, axis, f"o{axis}"), axis.upper(), f"O{axis.upper()}")
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
