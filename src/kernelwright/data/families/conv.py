"""Convolutions as stages: implicit GEMM over unfolded windows, products tap by tap, depthwise and transposed forms.

Written for one to three spatial dimensions; strides, padding, dilation and groups are in the code only where the task
has them. Tensors are contiguous, channels before space.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.data.families.epilogue import NOTHING, Chain
from kernelwright.data.families.spec import Draw, Dtype, Stage, kernel, launch, precision, widened


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


def _scaled(value: str, factor: str) -> str:
    return f"{value} * {factor}"


def _coordinates(g: Geometry) -> list[str]:
    """Kernel lines: the window's first coordinate on each axis, from the output's flat place `p`."""
    lines = []
    for index, axis in enumerate(g.axes):
        inner = " * ".join(f"O{a.upper()}" for a in g.axes[index + 1 :])
        place = "p" if not inner else f"p // ({inner})" if "*" in inner else f"p // {inner}"
        if index:
            place += f" % O{axis.upper()}"
        if g.stride:
            place = _scaled(place, g.tap("S", axis))
        if g.padding:
            place += f" - {g.tap('P', axis)}"
        lines.append(f"{axis}0 = {place}")
    return lines


def _tap_of(g: Geometry, index: int, axis: str) -> str:
    """The tap on an axis of the flat window place `r`."""
    inner = " * ".join(g.tap("K", a) for a in g.axes[index + 1 :])
    place = "r" if not inner else f"r // ({inner})" if "*" in inner else f"r // {inner}"
    place = f"{place} % {g.tap('K', axis)}"
    return f"{place} * {g.tap('D', axis)}" if g.dilation else place


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


def _passed(g: Geometry) -> list[str]:
    return [f"{name}={value}" for name, value in g.constants()]


def _blocks(draw: Draw, channels: int) -> tuple[int, int, int, int]:
    blocks = [(64, 64, 16, 4), (64, 64, 32, 8), (64, 128, 16, 8), (32, 128, 16, 4), (32, 64, 32, 4)]
    if channels <= 32:
        blocks = [(32, 128, 16, 4), (32, 64, 32, 4), (16, 128, 32, 4), (32, 128, 32, 8)]
    if draw.slow:
        blocks = [(32, 32, 16, 8), (16, 64, 16, 8), (16, 32, 32, 1)]
    return draw.tune.choice(blocks)


def forward_conv(
    draw: Draw,
    name: str,
    g: Geometry,
    dtype: Dtype,
    channels: int,
    *,
    module: str = "conv",
    after: Chain = NOTHING,
) -> Stage:
    """A convolution with `channels` output channels a group at full size, `after` done on its tiles."""
    block_co, block_p, block_r, warps = _blocks(draw, channels)
    unfolded = draw.tune.random() < 0.65
    places = " * ".join(g.sizes())
    outs = " * ".join(g.sizes("O"))
    body = [
        "p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)",
        "co = tl.program_id(1) * BLOCK_CO + tl.arange(0, BLOCK_CO)",
        "image = tl.program_id(2).to(tl.int64)",
        f"x_ptr += image * CI * {places}",
        f"y_ptr += image * CO * {outs}",
        *_coordinates(g),
    ]
    channel = "co"
    if g.groups:
        body.append("channel = (image % groups) * CO + co")
        channel = "channel"
    acc = f"acc = tl.dot(weight, x, acc{precision(dtype)})"
    if unfolded:
        taps = g.taps()
        body += [
            f"R = CI * {taps}",
            "acc = tl.zeros((BLOCK_CO, BLOCK_P), dtype=tl.float32)",
            "for start in range(0, R, BLOCK_R):",
            "    r = start + tl.arange(0, BLOCK_R)",
        ]
        for index, axis in enumerate(g.axes):
            body.append(f"    {axis} = {axis}0[None, :] + ({_tap_of(g, index, axis)})[:, None]")
        body += [
            f"    inside = {_inside(g, g.padding)} & (r < R)[:, None]",
            f"    x_at = (r // ({taps}) * {_parens(places)})[:, None] + {_flat(g)}",
            "    x = tl.load(x_ptr + x_at, mask=inside, other=0.0)",
            f"    w_at = {channel}[:, None] * R + r[None, :]",
            "    weight = tl.load(w_ptr + w_at, mask=(co < CO)[:, None] & (r < R)[None, :], other=0.0)",
            f"    {acc}",
        ]
    else:
        body.append("acc = tl.zeros((BLOCK_CO, BLOCK_P), dtype=tl.float32)")
        indent = ""
        for axis in g.axes:
            body.append(f"{indent}for k{axis} in range({g.tap('K', axis)}):")
            indent += "    "
            step = f"k{axis} * {g.tap('D', axis)}" if g.dilation else f"k{axis}"
            body.append(f"{indent}{axis} = {axis}0 + {step}")
        flat = _tap_place(g)
        body += [
            f"{indent}inside = {_inside(g, g.padding)}",
            f"{indent}for start in range(0, CI, BLOCK_R):",
            f"{indent}    ci = start + tl.arange(0, BLOCK_R)",
            f"{indent}    x_at = ci[:, None] * {_parens(places)} + ({_flat(g)})[None, :]",
            f"{indent}    x = tl.load(x_ptr + x_at, mask=(ci < CI)[:, None] & inside[None, :], other=0.0)",
            f"{indent}    w_at = ({channel}[:, None] * CI + ci[None, :]) * {_parens(g.taps())} + {flat}",
            f"{indent}    weight = tl.load(w_ptr + w_at, mask=(co < CO)[:, None] & (ci < CI)[None, :], other=0.0)",
            f"{indent}    {acc}",
        ]
    body += _finish(g, after, channel, outs)
    parameters = ["x_ptr", "w_ptr", *(["b_ptr"] if g.bias else []), *after.pointers, "y_ptr"]
    parameters += ["CI", *g.sizes(), "CO", *g.sizes("O"), *(["groups"] if g.groups else [])]
    parameters += [f"{c}: tl.constexpr" for c, _ in g.constants()]
    parameters += ["BLOCK_CO: tl.constexpr", "BLOCK_P: tl.constexpr", "BLOCK_R: tl.constexpr"]
    per_out = "co // groups" if g.groups else "co"
    tiles = _tiles(draw, block_co, block_p, block_r)
    passed = ["x", "weight", *(["bias"] if g.bias else []), *after.arguments, "y"]
    passed += ["per_group", *g.axes, per_out, *(f"o{a}" for a in g.axes), *(["groups"] if g.groups else [])]
    passed += [
        *_passed(g),
        f"BLOCK_CO={tiles[0]}",
        f"BLOCK_P={tiles[1]}",
        f"BLOCK_R={tiles[2]}",
        f"num_warps={warps}",
    ]
    out = " * ".join(f"o{a}" for a in g.axes)
    grid = f"triton.cdiv({out}, {tiles[1]}), triton.cdiv({per_out}, {tiles[0]}), n{' * groups' if g.groups else ''}"
    host = [
        *host_sizes(g),
        f"y = torch.empty((n, co, {', '.join(f'o{a}' for a in g.axes)}), device=x.device, dtype=x.dtype)",
        *launch(f"{name}_kernel", grid, passed),
        "return y",
    ]
    return Stage(
        name,
        (kernel(f"{name}_kernel", parameters, body),),
        _takes(g, module, after),
        tuple(host),
        after.helpers,
    )


def _parens(text: str) -> str:
    return f"({text})" if "*" in text else text


def _takes(g: Geometry, module: str, after: Chain) -> tuple[tuple[str, str], ...]:
    bias = [("bias", f"self.{module}.bias")] if g.bias else []
    renamed = [(f"{name}", source) for name, source in after.takes]
    return (("x", "{x}"), ("weight", f"self.{module}.weight"), *bias, *g.takes(module), *renamed)


def _tiles(draw: Draw, co: int, p: int, r: int) -> tuple[str, str, str]:
    if draw.tune.random() < 0.35:
        draw.constants.update(BLOCK_CO=co, BLOCK_P=p, BLOCK_R=r)
        return "BLOCK_CO", "BLOCK_P", "BLOCK_R"
    return str(co), str(p), str(r)


def _finish(g: Geometry, after: Chain, channel: str, outs: str) -> list[str]:
    """Bias, maps and the store of a tile `acc` of (channels, places)."""
    lines = []
    if g.bias:
        lines.append(f"acc += tl.load(b_ptr + {channel}, mask=co < CO, other=0.0)[:, None]")
    lines += [
        f"mask = (co < CO)[:, None] & (p < {outs})[None, :]",
        f"offs = co[:, None] * {_parens(outs)} + p[None, :]",
    ]
    full = f"image * CO * {outs} + offs"
    lines += after.lines(
        "acc", channel=channel, channel_mask="co < CO", expand="[:, None]", offsets=full, mask="mask"
    )
    return [*lines, "tl.store(y_ptr + offs, acc, mask=mask)"]


def depthwise(
    draw: Draw, name: str, g: Geometry, dtype: Dtype, *, module: str = "conv", after: Chain = NOTHING
) -> Stage:
    """A filter for each channel: a program takes a run of one plane's outputs, the window is unrolled."""
    block = draw.tile("BLOCK", (128, 256, 512), (32,))
    places, outs = " * ".join(g.sizes()), " * ".join(g.sizes("O"))
    wide = widened(dtype)
    body = [
        "plane = tl.program_id(1).to(tl.int64)",
        "channel = plane % channels",
        "p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        *_coordinates(g),
        f"x_ptr += plane * {places}",
        "acc = tl.zeros([BLOCK], dtype=tl.float32)",
    ]
    indent = ""
    for axis in g.axes:
        body.append(f"{indent}for k{axis} in tl.static_range({g.tap('K', axis)}):")
        indent += "    "
        step = f"k{axis} * {g.tap('D', axis)}" if g.dilation else f"k{axis}"
        body.append(f"{indent}{axis} = {axis}0 + {step}")
    flat = _tap_place(g)
    body += [
        f"{indent}inside = {_inside(g, g.padding)} & (p < {outs})",
        f"{indent}x = tl.load(x_ptr + {_flat(g)}, mask=inside, other=0.0){wide}",
        f"{indent}acc += x * tl.load(w_ptr + channel * {_parens(g.taps())} + {flat}){wide}",
    ]
    if g.bias:
        body.append(f"acc += tl.load(b_ptr + channel){wide}")
    body += after.lines("acc", channel="channel", one=True, offsets=f"plane * {outs} + p", mask=f"p < {outs}")
    body.append(f"tl.store(y_ptr + plane * {outs} + p, acc, mask=p < {outs})")
    parameters = ["x_ptr", "w_ptr", *(["b_ptr"] if g.bias else []), *after.pointers, "y_ptr", "channels"]
    parameters += [
        *g.sizes(),
        *g.sizes("O"),
        *(f"{c}: tl.constexpr" for c, _ in g.constants()),
        "BLOCK: tl.constexpr",
    ]
    passed = ["x", "weight", *(["bias"] if g.bias else []), *after.arguments, "y", "co", *g.axes]
    passed += [*(f"o{a}" for a in g.axes), *_passed(g), f"BLOCK={block}", draw.warps((4,), (1, 8))]
    out = " * ".join(f"o{a}" for a in g.axes)
    plain = Geometry(g.rank, g.uniform, g.stride, g.padding, g.dilation, False, g.bias)
    host = [
        *host_sizes(g),
        f"y = torch.empty((n, co, {', '.join(f'o{a}' for a in g.axes)}), device=x.device, dtype=x.dtype)",
        *launch(f"{name}_kernel", f"triton.cdiv({out}, {block}), n * co", passed),
        "return y",
    ]
    return Stage(
        name,
        (kernel(f"{name}_kernel", parameters, body),),
        _takes(plain, module, after),
        tuple(host),
        after.helpers,
    )


def pointwise(
    draw: Draw, name: str, rank: int, dtype: Dtype, channels: int, *, bias: bool = True, module: str = "conv",
    after: Chain = NOTHING,
) -> Stage:  # fmt: skip
    """A kernel of size one: for each image a product of the weights and (channels, places)."""
    block_co, block_p, block_r, warps = _blocks(draw, channels)
    g = Geometry(rank, bias=bias)
    body = [
        "p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)",
        "co = tl.program_id(1) * BLOCK_CO + tl.arange(0, BLOCK_CO)",
        "image = tl.program_id(2).to(tl.int64)",
        "x_ptr += image * CI * size",
        "y_ptr += image * CO * size",
        "acc = tl.zeros((BLOCK_CO, BLOCK_P), dtype=tl.float32)",
        "for start in range(0, CI, BLOCK_R):",
        "    ci = start + tl.arange(0, BLOCK_R)",
        "    x_mask = (ci < CI)[:, None] & (p < size)[None, :]",
        "    x = tl.load(x_ptr + ci[:, None] * size + p[None, :], mask=x_mask, other=0.0)",
        "    w_mask = (co < CO)[:, None] & (ci < CI)[None, :]",
        "    weight = tl.load(w_ptr + co[:, None] * CI + ci[None, :], mask=w_mask, other=0.0)",
        f"    acc = tl.dot(weight, x, acc{precision(dtype)})",
        *_finish(g, after, "co", "size"),
    ]
    parameters = [
        "x_ptr",
        "w_ptr",
        *(["b_ptr"] if bias else []),
        *after.pointers,
        "y_ptr",
        "CI",
        "CO",
        "size",
    ]
    parameters += ["BLOCK_CO: tl.constexpr", "BLOCK_P: tl.constexpr", "BLOCK_R: tl.constexpr"]
    tiles = _tiles(draw, block_co, block_p, block_r)
    passed = ["x", "weight", *(["bias"] if bias else []), *after.arguments, "y", "ci", "co", "size"]
    passed += [f"BLOCK_CO={tiles[0]}", f"BLOCK_P={tiles[1]}", f"BLOCK_R={tiles[2]}", f"num_warps={warps}"]
    host = [
        "n, ci = x.shape[:2]",
        "co = weight.shape[0]",
        "size = x[0, 0].numel()",
        "y = torch.empty((n, co, *x.shape[2:]), device=x.device, dtype=x.dtype)",
        *launch(f"{name}_kernel", f"triton.cdiv(size, {tiles[1]}), triton.cdiv(co, {tiles[0]}), n", passed),
        "return y",
    ]
    return Stage(
        name,
        (kernel(f"{name}_kernel", parameters, body),),
        _takes(g, module, after),
        tuple(host),
        after.helpers,
    )


def transposed(
    draw: Draw,
    name: str,
    g: Geometry,
    dtype: Dtype,
    channels: int,
    *,
    module: str = "conv",
    after: Chain = NOTHING,
) -> Stage:
    """A transposed convolution by gathering: every output asks which inputs reach it through each tap."""
    block_co, block_p, block_r, warps = _blocks(draw, channels)
    places, outs = " * ".join(g.sizes()), " * ".join(g.sizes("O"))
    body = [
        "p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)",
        "co = tl.program_id(1) * BLOCK_CO + tl.arange(0, BLOCK_CO)",
        "image = tl.program_id(2).to(tl.int64)",
        f"x_ptr += image * CI * {places}",
        f"y_ptr += image * CO * {outs}",
    ]
    channel = "co"
    if g.groups:
        body += [
            "group = image % groups",
            "channel = group * CO + co",
            f"w_ptr += group * CI * CO * {_parens(g.taps())}",
        ]
        channel = "channel"
    for index, axis in enumerate(g.axes):
        inner = " * ".join(f"O{a.upper()}" for a in g.axes[index + 1 :])
        place = "p" if not inner else f"p // {_parens(inner)}"
        if index:
            place += f" % O{axis.upper()}"
        if g.padding:
            place += f" + {g.tap('P', axis)}"
        body.append(f"t{axis} = {place}")
    body.append("acc = tl.zeros((BLOCK_CO, BLOCK_P), dtype=tl.float32)")
    indent = ""
    for axis in g.axes:
        body.append(f"{indent}for k{axis} in range({g.tap('K', axis)}):")
        indent += "    "
        step = f"k{axis} * {g.tap('D', axis)}" if g.dilation else f"k{axis}"
        reach = f"t{axis} - {step}"
        if g.stride:
            s = g.tap("S", axis)
            body += [
                f"{indent}reach = {reach}",
                f"{indent}{axis} = reach // {s}",
                f"{indent}{axis}_ok = (reach >= 0) & (reach % {s} == 0) & ({axis} < {axis.upper()})",
            ]
        else:
            body += [
                f"{indent}{axis} = {reach}",
                f"{indent}{axis}_ok = ({axis} >= 0) & ({axis} < {axis.upper()})",
            ]
    flat = _tap_place(g)
    ok = " & ".join(f"{axis}_ok" for axis in g.axes)
    body += [
        f"{indent}inside = {ok}" + (f" & (p < {outs})" if g.rank < 3 else ""),
        f"{indent}for start in range(0, CI, BLOCK_R):",
        f"{indent}    ci = start + tl.arange(0, BLOCK_R)",
        f"{indent}    x_at = ci[:, None] * {_parens(places)} + ({_flat(g)})[None, :]",
        f"{indent}    x = tl.load(x_ptr + x_at, mask=(ci < CI)[:, None] & inside[None, :], other=0.0)",
        f"{indent}    w_at = (ci[None, :] * CO + co[:, None]) * {_parens(g.taps())} + {flat}",
        f"{indent}    weight = tl.load(w_ptr + w_at, mask=(ci < CI)[None, :] & (co < CO)[:, None], other=0.0)",
        f"{indent}    acc = tl.dot(weight, x, acc{precision(dtype)})",
    ]
    body += _finish(g, after, channel, outs)
    parameters = ["x_ptr", "w_ptr", *(["b_ptr"] if g.bias else []), *after.pointers, "y_ptr"]
    parameters += ["CI", *g.sizes(), "CO", *g.sizes("O"), *(["groups"] if g.groups else [])]
    parameters += [f"{c}: tl.constexpr" for c, _ in g.constants()]
    parameters += ["BLOCK_CO: tl.constexpr", "BLOCK_P: tl.constexpr", "BLOCK_R: tl.constexpr"]
    tiles = _tiles(draw, block_co, block_p, block_r)
    per_in = "ci // groups" if g.groups else "ci"
    passed = ["x", "weight", *(["bias"] if g.bias else []), *after.arguments, "y"]
    passed += [
        per_in,
        *g.axes,
        "co",
        *(f"o{a}" for a in g.axes),
        *(["groups"] if g.groups else []),
        *_passed(g),
    ]
    passed += [f"BLOCK_CO={tiles[0]}", f"BLOCK_P={tiles[1]}", f"BLOCK_R={tiles[2]}", f"num_warps={warps}"]
    out = " * ".join(f"o{a}" for a in g.axes)
    grid = f"triton.cdiv({out}, {tiles[1]}), triton.cdiv(co, {tiles[0]}), n{' * groups' if g.groups else ''}"
    lines = [
        f"n, ci, {', '.join(g.axes)} = x.shape",
        f"_, co, {', '.join(f'k{a}' for a in g.axes)} = weight.shape",
    ]
    for index, axis in enumerate(g.axes):
        step = f"({axis} - 1) * stride[{index}]" if g.stride else f"{axis} - 1"
        pad = f" - 2 * padding[{index}]" if g.padding else ""
        window = f"dilation[{index}] * (k{axis} - 1) + 1" if g.dilation else f"k{axis}"
        more = f" + output_padding[{index}]" if g.output_padding else ""
        lines.append(f"o{axis} = {step}{pad} + {window}{more}")
    total = "co * groups" if g.groups else "co"
    host = [
        *lines,
        f"y = torch.empty((n, {total}, {', '.join(f'o{a}' for a in g.axes)}), device=x.device, dtype=x.dtype)",
        *launch(f"{name}_kernel", grid, passed),
        "return y",
    ]
    takes = list(_takes(g, module, after))
    if g.output_padding:
        takes.append(("output_padding", f"self.{module}.output_padding"))
    return Stage(
        name, (kernel(f"{name}_kernel", parameters, body),), tuple(takes), tuple(host), after.helpers
    )
