"""The geometry of convolutions, and the loops that multiply their windows by filters, as kernel lines.

What a step of the product takes of the window is chosen for the integers that it costs. Tap by tap, channels run and
all coordinates are those of places; where channels are too few for that, row by row, the last axis' taps and channels
run together; whole windows cost a division and two comparisons an axis for every element, and are the slow form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from kernelwright.data.families.spec import Draw, Dtype, precision

FEW = 16
"""Channels into a group, of which fewer do not fill a step of the product."""
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


def form_of(draw: Draw, g: Geometry, channels: int, sign: str) -> str:
    """How a window is walked: by tap, by row, or unfolded whole."""
    if draw.slow and draw.tune.random() < 0.4 and sign == "+":
        return "window"
    return "row" if channels < FEW and not _sparse(g, sign) else "tap"


def products(
    g: Geometry, form: str, counts: list[str], sign: str, channel: str, dtype: Dtype, phase: str = ""
) -> list[str]:
    """Kernel lines: `acc`, and the loop that adds up products with filters whose channels come last. `phase` is the place in
    a filter of the taps kd, kh, kw, where those are of one phase."""
    write = {"tap": _by_tap, "row": _by_row, "window": _by_window}[form]
    before, header, lines, indent = write(g, counts, sign, bool(phase))
    step, end = {"tap": ("ci", "CI"), "row": ("r", "row"), "window": ("r", "R")}[form]
    at = {"tap": "tap * CI + ci", "row": "line * row + r" if g.rank > 1 else "r", "window": "r"}[form]
    multiply = [
        f"w_at = {f'({phase}) * CI + ci' if phase else at}",
        f"w_mask = ({step} < {end})[:, None] & (co < CO)[None, :]",
        f"weight = tl.load(w_ptr + {channel}[None, :] * ({g.taps()} * CI) + w_at[:, None], mask=w_mask, other=0.0)",
        product(dtype),
    ]
    lines += [f"{indent}{line}" for line in multiply]
    return [*before, ZEROS, header, *(f"    {line}" for line in lines)]


def _by_tap(g: Geometry, counts: list[str], sign: str, phased: bool) -> Steps:
    """Of each step (places, channels `ci`) at one `tap` of `counts` an axis; `phased` taps are needed one by one, too.

    Where a transposed convolution has a stride and a dilation, a phase is reached through taps that the stride divides.
    """
    lines = ["tap = k // steps", "ci = k % steps * BLOCK_R + tl.arange(0, BLOCK_R)"]
    if _sparse(g, sign):
        steps = {axis: g.tap("S", axis) for axis in g.axes}
        for index, axis in enumerate(g.axes):
            lines.append(f"e{axis} = {_reach(g, axis, wrapped('tap', counts, index))} - f{axis}")
        reached = [f"e{axis} % {step} == 0" for axis, step in steps.items()]
        lines.append(f"if {' & '.join(f'({one})' for one in reached) if g.rank > 1 else reached[0]}:")
        inner = [f"{axis} = {axis}0 - e{axis} // {step}" for axis, step in steps.items()]
        inner += _loads(g, sign)
        return Steps(*_over_channels(counts), [*lines, *(f"    {line}" for line in inner)], "    ")
    lines += _reached(g, g.axes, "tap", counts, sign, phased)
    return Steps(*_over_channels(counts), [*lines, *_loads(g, sign)])


def _reached(g: Geometry, axes: str, flat: str, counts: list[str], sign: str, phased: bool) -> list[str]:
    """Lines that set the coordinates on `axes` at the tap whose place is `flat`, and where `phased` that tap on each."""
    lines = []
    for index, axis in enumerate(axes):
        place = wrapped(flat, counts, index)
        if phased:
            lines.append(f"k{axis} = {place}")
            place = f"k{axis}"
        lines.append(f"{axis} = {axis}0 {sign} {_reach(g, axis, place)}")
    return lines


def _over_channels(counts: list[str]) -> tuple[list[str], str]:
    """What comes before the lines of a loop over taps and channels."""
    return ["steps = tl.cdiv(CI, BLOCK_R)"], f"for k in range({' * '.join(counts)} * steps):"


def _loads(g: Geometry, sign: str) -> list[str]:
    """Lines that load `x` of (places, channels `ci`), all at coordinates of places."""
    bounds = _bounds(g, g.axes, sign)
    return [
        f"inside = {bounds or f'p < {area(g, outs=True)}'}",
        f"x_at = {_column(flat_place(g))} + (ci * {parens(area(g))})[None, :]",
        "x = tl.load(x_ptr + x_at, mask=inside[:, None] & (ci < CI)[None, :], other=0.0)",
    ]


def _by_row(g: Geometry, counts: list[str], sign: str, phased: bool) -> Steps:
    """Of each step (places, taps `r` of the last axis with their channels) at one tap of each other axis, a `line`."""
    last, others = g.axes[-1], g.axes[:-1]
    lines = ["line = k // steps", "r = k % steps * BLOCK_R + tl.arange(0, BLOCK_R)"]
    if not others:
        lines = ["r = k * BLOCK_R + tl.arange(0, BLOCK_R)"]
    lines += ["ci = r % CI", f"k{last} = {_reach(g, last, 'r // CI')}"]
    lines += _reached(g, others, "line", counts[:-1], sign, phased)
    inside = [f"(p < {area(g, outs=True)})[:, None]"]
    if bounds := _bounds(g, last, sign):
        lines.append(f"{last} = {last}0[:, None] {sign} k{last}[None, :]")
        inside = [*([f"({_bounds(g, others, sign)})[:, None]"] if others else []), bounds]
    start = _column(spelled(flat_place(g), last, f"{last}0"))
    lines += [
        f"inside = {' & '.join([*inside, '(r < row)[None, :]'])}",
        f"x_at = {start} + (ci * {parens(area(g))} {sign} k{last})[None, :]",
        "x = tl.load(x_ptr + x_at, mask=inside, other=0.0)",
    ]
    before = [f"row = {counts[-1]} * CI", "steps = tl.cdiv(row, BLOCK_R)"]
    return Steps(before, f"for k in range({' * '.join([*counts[:-1], 'steps'])}):", lines)


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


def _sparse(g: Geometry, sign: str) -> bool:
    """Whether few of the taps reach an output: of a transposed convolution with a stride and a dilation."""
    return sign == "-" and g.stride and g.dilation


def _bounds(g: Geometry, axes: str, sign: str) -> str:
    """Whether coordinates lie in the input; empty where all do, for any place of the output."""
    return "" if not g.padding and sign == "+" else within(axes)


def product(dtype: Dtype) -> str:
    return f"acc = tl.dot(x, weight, acc{precision(dtype)})"
