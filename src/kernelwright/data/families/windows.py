"""The geometry of convolutions, and the loops that multiply their windows by filters, as kernel lines.

What a step takes of the window is chosen for what it costs beside the arithmetic. Tap by tap, a product runs over
channels and all coordinates are those of places. Channels that are too few to fill a product are taken one by one, each
an outer product without tensor cores: on an H200 in two thirds of the time or less, at three of them. Whole windows
cost a division and two comparisons an axis for every element, and are the slow form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from kernelwright.data.families.spec import Draw, Dtype, precision, widened

_FEW, _FEW_HALF = 8, 4
"""Channels into a group, of which so many are taken one by one: in float32, and where a product costs half as much.
Clocked on an H200 with 3, 4, 8, 12 and 16 in float32; the second is a guess."""
ZEROS = "acc = tl.zeros((BLOCK_P, BLOCK_CO), dtype=tl.float32)"


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


class Steps(NamedTuple):
    """A loop over a window."""

    before: list[str]
    header: str
    lines: list[str]
    """Those in it that load `x` of a step."""
    indent: str = ""
    """Of what follows them, where they end inside of a condition."""


def _place_on(flat: str, extents: list[str], index: int) -> str:
    """The coordinate on the `index`-th axis of a flat place, not yet wrapped at the axis's own extent."""
    inner = " * ".join(extents[index + 1 :])
    return f"{flat} // {parens(inner)}" if inner else flat


def wrapped(flat: str, extents: list[str], index: int) -> str:
    """The same for a place that lies in those extents, where only the first axis needs no wrapping."""
    return _place_on(flat, extents, index) + (f" % {extents[index]}" if index else "")


def coordinates(g: Geometry, *, flip: bool = False) -> list[str]:
    """Kernel lines: the window's first coordinate on each axis, from the output's flat place `p`.

    With `flip`, of a transposed convolution: what the input's coordinate times the stride, plus the tap, must be.
    """
    lines = []
    for index, axis in enumerate(g.axes):
        place = wrapped("p", g.sizes("O"), index)
        if g.stride and not flip:
            place += f" * {g.tap('S', axis)}"
        if g.padding:
            place += f" {'+' if flip else '-'} {g.tap('P', axis)}"
        lines.append(f"{axis}0 = {place}")
    return lines


def over_taps(g: Geometry, loop: str) -> tuple[list[str], str]:
    """Nested loops over the taps, and the indent inside; each sets the coordinate on its axis."""
    body, indent = [], ""
    for axis in g.axes:
        body.append(f"{indent}for k{axis} in {loop}({g.tap('K', axis)}):")
        indent += "    "
        body.append(f"{indent}{axis} = {axis}0 + {_reach(g, axis, f'k{axis}')}")
    return body, indent


def within(axes: str, negative: bool = True) -> str:
    """Whether the coordinates on `axes` lie in the input; `negative` ones may occur."""
    parts = []
    for axis in axes:
        if negative:
            parts.append(f"({axis} >= 0)")
        parts.append(f"({axis} < {axis.upper()})")
    return " & ".join(parts)


def flat_place(g: Geometry) -> str:
    """The place in a channel of the coordinates d, h, w."""
    return {1: "w", 2: "h * W + w", 3: "(d * H + h) * W + w"}[g.rank]


def tap_place(g: Geometry) -> str:
    """The place in a filter of the taps kd, kh, kw."""
    return {
        1: "kw",
        2: f"kh * {g.tap('K', 'w')} + kw",
        3: f"(kd * {g.tap('K', 'h')} + kh) * {g.tap('K', 'w')} + kw",
    }[g.rank]


def area(g: Geometry, outs: bool = False) -> str:
    """Places of a channel of the input, or of the output."""
    return " * ".join(g.sizes("O" if outs else ""))


def parens(text: str) -> str:
    return f"({text})" if "*" in text else text


def spelled(text: str, axis: str, name: str) -> str:
    """`text`, in which the coordinate `axis` is called `name`."""
    return re.sub(rf"\b{axis}\b", name, text)


def _column(text: str) -> str:
    return f"{text}[:, None]" if text.isidentifier() else f"({text})[:, None]"


def form_of(draw: Draw, dtype: Dtype, channels: int, sign: str) -> str:
    """How a window is walked: by `tap`, by tap and `channel`, or as a `window` unfolded whole."""
    if draw.slow and draw.tune.random() < 0.4 and sign == "+":
        return "window"
    return "channel" if channels <= (_FEW if dtype == "float32" else _FEW_HALF) else "tap"


def products(
    g: Geometry, form: str, counts: list[str], sign: str, channel: str, dtype: Dtype, phase: str = ""
) -> list[str]:
    """Kernel lines: `acc`, and the loop that adds up products with filters whose channels come last. `phase` is the place in
    a filter of the taps kd, kh, kw, where those are of one phase."""
    write = {"tap": _by_tap, "channel": _by_channel, "window": _by_window}[form]
    before, header, lines, indent = write(g, counts, sign, bool(phase))
    tap = f"({phase})" if phase else "tap"
    filters = f"w_ptr + {channel}{{}} * ({g.taps()} * CI)"
    if form == "channel":
        wide = widened(dtype)
        multiply = [
            f"w_at = {tap} * CI",
            "for ci in range(CI):",
            f"    x = tl.load(x_ptr + ci * {parens(area(g))} + x_at, mask=inside, other=0.0){wide}",
            f"    weight = tl.load({filters.format('')} + w_at + ci, mask=co < CO, other=0.0){wide}",
            "    acc += x[:, None] * weight[None, :]",
        ]
    else:
        step, end, at = ("r", "R", "r") if form == "window" else ("ci", "CI", f"{tap} * CI + ci")
        multiply = [
            f"w_at = {at}",
            f"w_mask = ({step} < {end})[:, None] & (co < CO)[None, :]",
            f"weight = tl.load({filters.format('[None, :]')} + w_at[:, None], mask=w_mask, other=0.0)",
            product(dtype),
        ]
    lines += [f"{indent}{line}" for line in multiply]
    return [*before, ZEROS, header, *(f"    {line}" for line in lines)]


def _by_tap(g: Geometry, counts: list[str], sign: str, phased: bool) -> Steps:
    """Of each step (places, channels `ci`) at one `tap` of `counts` an axis."""
    lines = ["tap = k // steps", "ci = k % steps * BLOCK_R + tl.arange(0, BLOCK_R)"]
    taps, indent = _at_tap(g, counts, sign, phased)
    loads = [
        f"x_at = {_column(flat_place(g))} + (ci * {parens(area(g))})[None, :]",
        "x = tl.load(x_ptr + x_at, mask=inside[:, None] & (ci < CI)[None, :], other=0.0)",
    ]
    header = f"for k in range({' * '.join(counts)} * steps):"
    before = ["steps = tl.cdiv(CI, BLOCK_R)"]
    return Steps(before, header, [*lines, *taps, *(indent + line for line in loads)], indent)


def _by_channel(g: Geometry, counts: list[str], sign: str, phased: bool) -> Steps:
    """Of each `tap` where places have it in the first channel, `x_at`; channels are taken one by one after that."""
    lines, indent = _at_tap(g, counts, sign, phased)
    header = f"for tap in range({' * '.join(counts)}):"
    return Steps([], header, [*lines, f"{indent}x_at = {flat_place(g)}"], indent)


def _at_tap(g: Geometry, counts: list[str], sign: str, phased: bool) -> tuple[list[str], str]:
    """Lines that find the coordinates of all places at a `tap`, and whether they are `inside`; and the indent of what uses
    them. `phased` taps are needed one by one, too.

    Where a transposed convolution has a stride and a dilation, a phase is reached through taps that the stride divides.
    """
    if not (sign == "-" and g.stride and g.dilation):
        return [*_reached(g, counts, sign, phased), _inside(g, sign)], ""
    steps = {axis: g.tap("S", axis) for axis in g.axes}
    lines = [
        f"e{axis} = {_reach(g, axis, wrapped('tap', counts, index))} - f{axis}"
        for index, axis in enumerate(g.axes)
    ]
    reached = [f"e{axis} % {step} == 0" for axis, step in steps.items()]
    lines.append(f"if {' & '.join(f'({one})' for one in reached) if g.rank > 1 else reached[0]}:")
    inner = [*(f"{axis} = {axis}0 - e{axis} // {step}" for axis, step in steps.items()), _inside(g, sign)]
    return [*lines, *(f"    {line}" for line in inner)], "    "


def _inside(g: Geometry, sign: str) -> str:
    """A line that says which places have all their coordinates in the input; without padding, those that exist."""
    return f"inside = {within(g.axes) if g.padding or sign == '-' else f'p < {area(g, outs=True)}'}"


def _reached(g: Geometry, counts: list[str], sign: str, phased: bool) -> list[str]:
    """Lines that set the coordinates at a `tap`, and where `phased` that tap on each axis."""
    lines = []
    for index, axis in enumerate(g.axes):
        place = wrapped("tap", counts, index)
        if phased:
            lines.append(f"k{axis} = {place}")
            place = f"k{axis}"
        lines.append(f"{axis} = {axis}0 {sign} {_reach(g, axis, place)}")
    return lines


def _by_window(g: Geometry, counts: list[str], sign: str, phased: bool) -> Steps:
    """Of each step (places, a part `r` of the unfolded window), channels first; forward and never phased."""
    assert sign == "+"
    assert not phased
    lines = ["r = start + tl.arange(0, BLOCK_R)", f"ci = r // {parens(g.taps())}"]
    for index, axis in enumerate(g.axes):
        tap = f"{_place_on('r', counts, index)} % {counts[index]}"
        lines.append(f"k{axis} = {_reach(g, axis, tap)}")
    size = parens(area(g))
    if g.padding:
        lines += [f"{axis} = {axis}0[:, None] + k{axis}[None, :]" for axis in g.axes]
        lines.append(f"inside = {within(g.axes)} & (r < R)[None, :]")
        x_at = f"(ci * {size})[None, :] + {flat_place(g)}"
    else:
        rows, columns = flat_place(g), flat_place(g)
        for axis in g.axes:
            rows, columns = spelled(rows, axis, f"{axis}0"), spelled(columns, axis, f"k{axis}")
        lines.append(f"inside = (p < {area(g, outs=True)})[:, None] & (r < R)[None, :]")
        x_at = f"{_column(rows)} + (ci * {size} + {columns})[None, :]"
    lines += [f"x_at = {x_at}", "x = tl.load(x_ptr + x_at, mask=inside, other=0.0)"]
    return Steps([f"R = {' * '.join(['CI', *counts])}"], "for start in range(0, R, BLOCK_R):", lines)


def _reach(g: Geometry, axis: str, tap: str) -> str:
    """How far a tap reaches."""
    return f"{tap} * {g.tap('D', axis)}" if g.dilation else tap


def product(dtype: Dtype) -> str:
    return f"acc = tl.dot(x, weight, acc{precision(dtype)})"
