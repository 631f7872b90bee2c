"""A chart of the best kernel that searches found by number of judged kernels: a standalone SVG for light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 720, 320, 52, 34, 230, 36
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#b279a2", "#9d755d")


def budget_chart(title: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """`series`: search -> [(kernels judged, time over the best)]; the number of kernels has a logarithmic scale."""
    points = [point for some in series.values() for point in some]
    assert points
    least, most = min(x for x, _ in points), max(x for x, _ in points)
    top = max(y for _, y in points)

    def x_of(count: float) -> float:
        share = math.log(count / least) / max(math.log(most / least), 1e-9)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y_of(ratio: float) -> float:
        return _TOP + (top - ratio) / max(top - 1.0, 1e-9) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<text x="{_LEFT}" y="18" font-size="14">{escape(title)}</text>']
    for share in range(5):
        ratio = 1.0 + (top - 1.0) * share / 4
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y_of(ratio):.1f}" y2="{y_of(ratio):.1f}" '
                     'stroke="#8888" stroke-width="0.5"/>')  # fmt: skip
        parts.append(f'<text x="{_LEFT - 6}" y="{y_of(ratio) + 4:.1f}" text-anchor="end">{ratio:.2f}x</text>')
    for count in sorted({x for x, _ in points}):
        parts.append(f'<text x="{x_of(count):.1f}" y="{_HEIGHT - 14}" text-anchor="middle">{count:g}</text>')
    for number, (name, some) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in some)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = _TOP + 12 + 20 * number
        parts.append(
            f'<text x="{_WIDTH - _RIGHT + 14}" y="{y}" fill="{colour}">{escape(name)}: {some[-1][1]:.3f}</text>'
        )
    style = "text{font:12px sans-serif}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" fill="#777">'
        f"<style>{style}</style>{''.join(parts)}</svg>\n"
    )
