"""The page's charts as inline SVG: curves over training steps, and the distribution of speedups.

They are 440 units wide, so that text stays readable when a phone shrinks them to 350 pixels. Colours come from the
page's style sheet (classes `s0`, `s1`, ... by stage, the same in every chart), so one drawing serves light and dark mode.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup, escape

WIDTH, HEIGHT = 440, 230
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 30, 30

Points = Sequence[tuple[float, float]]


def curves(
    title: str,
    series: Mapping[str, Points],
    colours: Mapping[str, int],
    *,
    percent: bool = False,
    line_at: float | None = None,
) -> Markup:
    """One metric over steps, stages side by side. `series`: stage -> [(step, value)]. Returns empty markup without data."""
    series = {name: _finite(points) for name, points in series.items()}
    series = {name: points for name, points in series.items() if points}
    if not series:
        return Markup("")
    values = [v for points in series.values() for _, v in points] + ([] if line_at is None else [line_at])
    low, high = (0.0, 1.0) if percent else _pad(min(values), max(values))
    lengths = {name: max(1.0, points[-1][0] - points[0][0]) for name, points in series.items()}
    gap = 0.03 * sum(lengths.values())
    scale = (WIDTH - LEFT - RIGHT) / (sum(lengths.values()) + gap * (len(series) - 1))

    def y_of(value: float) -> float:
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    bands: list[str] = []
    parts: list[str] = []
    start = float(LEFT)
    for name, points in series.items():
        width = lengths[name] * scale
        origin = points[0][0]
        place = [(start + (x - origin) * scale, y_of(v)) for x, v in points]
        smooth = [(start + (x - origin) * scale, y_of(v)) for x, v in _smooth(points)]
        colour = _colour(name, colours)
        bands.append(
            f'<rect class="band" x="{start:.1f}" y="{TOP}" width="{width:.1f}" height="{HEIGHT - TOP - BOTTOM}"/>'
        )
        if len(place) == 1:
            parts.append(
                f'<circle class="{colour} dot" cx="{place[0][0]:.1f}" cy="{place[0][1]:.1f}" r="4"/>'
            )
        else:
            parts.append(f'<polyline class="{colour} raw" points="{_path(place)}"/>')
            parts.append(f'<polyline class="{colour} line" points="{_path(smooth)}"/>')
        middle = start + width / 2
        parts.append(_text(middle, TOP - 8, name, f"{colour} name"))
        parts.append(_text(middle, HEIGHT - 10, f"steps {origin:g}–{points[-1][0]:g}", "tick"))
        start += width + gap * scale
    back = [*bands, _y_axis(low, high, y_of, percent)]
    if line_at is not None:
        y = y_of(line_at)
        back.append(f'<line class="unit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
    ends = "; ".join(f"{name} ends at {_show(points[-1][1], percent)}" for name, points in series.items())
    return _svg(title, f"{title} over training steps: {ends}", [*back, *parts], WIDTH, HEIGHT)


def speedups(
    title: str,
    series: Mapping[str, tuple[Sequence[float], float | None]],
    colours: Mapping[str, int],
    width: int = WIDTH,
) -> Markup:
    """Every correct sample's speedup as a dot on a log axis, one row per stage, with the 1x line and the geometric mean.

    `series`: stage -> (speedups, geometric mean).
    """
    series = {
        name: ([v for v in values if v > 0 and math.isfinite(v)], mean)
        for name, (values, mean) in series.items()
    }
    series = {name: pair for name, pair in series.items() if pair[0]}
    if not series:
        return Markup("")
    everything = [v for values, _ in series.values() for v in values]
    low, high = min(0.5, *everything) / 1.15, max(2.0, *everything) * 1.15
    left, bin_width, gap = 14, 5.6, 34

    def x_of(value: float) -> float:
        return left + math.log(value / low) / math.log(high / low) * (width - left - RIGHT)

    def bin_of(value: float) -> int:
        return round(x_of(value) / bin_width)

    # A row is as tall as its tallest stack, so that its name is closer to its own dots than to those above.
    tallest = {name: max(Counter(map(bin_of, values)).values()) for name, (values, _) in series.items()}
    rise = {name: min(bin_width, 36 / most) for name, most in tallest.items()}
    tall = {name: 12 + rise[name] * (most - 1) for name, most in tallest.items()}
    height = sum(tall.values()) + gap * len(series) + 34
    parts, base = [], 0.0
    for tick in _log_ticks(low, high):
        x, css = x_of(tick), "unit" if tick == 1 else "grid"
        parts.append(f'<line class="{css}" x1="{x:.1f}" x2="{x:.1f}" y1="6" y2="{height - 24:.1f}"/>')
        parts.append(_text(x, height - 8, f"{tick:g}×", "tick"))
    for name, (values, mean) in series.items():
        base += gap + tall[name]
        colour = _colour(name, colours)
        stacks: Counter[int] = Counter()
        for value in values:
            bin_ = bin_of(value)
            y = base - stacks[bin_] * rise[name]
            stacks[bin_] += 1
            parts.append(f'<circle class="{colour} dot" cx="{bin_ * bin_width:.1f}" cy="{y:.1f}" r="2.5"/>')
        label = f"{name} · {len(values)} correct"
        if mean is not None:
            x = x_of(mean)
            label += f" · mean {mean:.2f}×"
            parts.append(
                f'<line class="{colour} mean" x1="{x:.1f}" x2="{x:.1f}" y1="{base - tall[name]:.1f}" y2="{base + 7:.1f}"/>'
            )
        parts.append(_text(left, base - tall[name] - 5, label, f"{colour} name", anchor="start"))
    ends = "; ".join(
        f"{name}: geometric mean {mean:.2f}×" for name, (_, mean) in series.items() if mean is not None
    )
    return _svg(title, f"{title} by stage. {ends}", parts, width, height)


def _colour(name: str, colours: Mapping[str, int]) -> str:
    return f"s{colours.get(name, 0) % 6}"


def _svg(title: str, description: str, parts: Sequence[str], width: float, height: float) -> Markup:
    body = "".join(parts)
    return Markup(
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(description)}">'
        f"<title>{escape(title)}</title>{body}</svg>"
    )


def _y_axis(low: float, high: float, y_of: Callable[[float], float], percent: bool) -> str:
    parts = []
    for tick in _ticks(low, high):
        y = y_of(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(LEFT - 6, y + 4, _show(tick, percent), "tick", anchor="end"))
    return "".join(parts)


def _text(x: float, y: float, text: str, css: str, anchor: str = "middle") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _finite(points: Points) -> list[tuple[float, float]]:
    return sorted((x, v) for x, v in points if math.isfinite(x) and math.isfinite(v))


def _pad(low: float, high: float) -> tuple[float, float]:
    room = 0.06 * (high - low) or max(0.5, abs(high) * 0.1)
    return (low - room if low < 0 or low - room > 0 else 0.0), high + room


def _smooth(points: Points) -> list[tuple[float, float]]:
    """Centred moving average over about a tenth of the stage, which does not lag."""
    half = len(points) // 20
    values = [v for _, v in points]
    return [
        (x, sum(values[max(0, i - half) : i + half + 1]) / len(values[max(0, i - half) : i + half + 1]))
        for i, (x, _) in enumerate(points)
    ]


def _path(points: Points) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _ticks(low: float, high: float, about: int = 5) -> list[float]:
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    ticks = [m * 10.0**d for d in decades for m in (1, 2, 5) if low <= m * 10.0**d <= high]
    if len(ticks) > 9:
        ticks = [t for t in ticks if f"{t:e}"[0] == "1"]
    return [float(f"{t:.6g}") for t in ticks]


def _show(value: float, percent: bool) -> str:
    return f"{100 * value:.0f} %" if percent else f"{value:.3g}"
