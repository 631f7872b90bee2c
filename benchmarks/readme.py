"""The README's table of results and its picture, from the evaluations of a run.

    python benchmarks/readme.py docs/runs/default_model-9

Reads RUN/level1.json and level2.json (each the metrics.json of `kernelwright eval` on that level of KernelBench), and where they
are there level1-h200.json and level2-h200.json (the same on a GPU), and writes what stands between the marks in README.md,
and docs/kernelbench.svg. `--check` writes nothing and exits 1 where these are not what the run says.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
README, PICTURE = ROOT / "README.md", ROOT / "docs" / "kernelbench.svg"
START, END = "<!-- results: python benchmarks/readme.py RUN -->", "<!-- end of results -->"
LEVELS = (1, 2)
_ROW, _BAR, _LEFT, _TOP = 22, 300, 120, 48


def table(found: dict[int, dict[str, Any]], clocked: dict[int, dict[str, Any]]) -> str:
    """One line a level and place; shares and intervals are over all samples, speedups over the right ones."""
    lines = [
        "| KernelBench | judged | samples | correct | faster than eager | over eager, where correct | over torch.compile |",
        "|---|---|---|---|---|---|---|",
    ]
    for place, metrics_of in (("without a GPU", found), ("on an H200", clocked)):
        for level, metrics in metrics_of.items():
            low, high = metrics["correct_rate_ci"]
            gains = [metrics["speedup"][baseline] for baseline in ("eager", "compile")]
            said = [
                f"{gain['geometric_mean']:.2f}x [{gain['ci'][0]:.2f}, {gain['ci'][1]:.2f}] {metrics['timing']}"
                for gain in gains
            ]
            lines.append(
                f"| level {level}, {metrics['tasks']} tasks | {place} | {metrics['samples']} | {_share(metrics['correct_rate'])} "
                f"[{low:.0%}, {high:.0%}] | {metrics['fast_p']['1']:.0%} | {said[0]} | {said[1]} |"
            )
    return "\n".join(lines)


def _share(share: float) -> str:
    """In whole percent, but nearly all is not all."""
    return f"{share:.1%}" if 0.99 < share < 1 else f"{share:.0%}"


def picture(found: dict[int, dict[str, Any]]) -> str:
    """Correct kernels by category, a bar each, as SVG that reads on light and dark pages."""
    parts: list[str] = []
    y = _TOP
    for level, metrics in found.items():
        parts.append(_text(0, y, f"Level {level}: {metrics['correct']} of {metrics['samples']}", weight=600))
        y += _ROW
        for name, row in sorted(metrics["families"].items(), key=lambda item: (-item[1]["tasks"], item[0])):
            share = row["correct_rate"]
            parts += [
                _text(_LEFT - 8, y, name, anchor="end"),
                f'<rect x="{_LEFT}" y="{y - 12}" width="{_BAR}" height="14" rx="3" fill="#8884"/>',
                f'<rect x="{_LEFT}" y="{y - 12}" width="{share * _BAR:.1f}" height="14" rx="3" fill="#3a7ca5"/>',
                _text(_LEFT + _BAR + 8, y, f"{row['correct']} of {row['samples']}"),
            ]
            y += _ROW
        y += _ROW // 2
    title = "Correct kernels by category, one sample a task, strict protocol"
    width = _LEFT + _BAR + 100
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13"><title>{title}</title>\n'
        "<style>text{fill:#333}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>\n"
        + "\n".join([_text(0, 18, title, weight=600), *parts])
        + "\n</svg>\n"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", weight: int = 400) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'


def written(readme: str, found: dict[int, dict[str, Any]], clocked: dict[int, dict[str, Any]]) -> str:
    """`readme` with the table between its marks."""
    before, _, rest = readme.partition(START)
    _, mark, after = rest.partition(END)
    if not mark:
        sys.exit(f"README.md: no {START!r} followed by {END!r}")
    return f"{before}{START}\n{table(found, clocked)}\n\n![correct kernels by category](docs/kernelbench.svg)\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found = {level: json.loads((options.run / f"level{level}.json").read_text("utf-8")) for level in LEVELS}
    on_gpu = {level: options.run / f"level{level}-h200.json" for level in LEVELS}
    clocked = {level: json.loads(path.read_text("utf-8")) for level, path in on_gpu.items() if path.exists()}
    new = {README: written(README.read_text("utf-8"), found, clocked), PICTURE: picture(found)}
    if options.check:
        stale = [
            path.name for path, text in new.items() if not path.exists() or path.read_text("utf-8") != text
        ]
        sys.exit(f"{', '.join(stale)}: not what {options.run} says" if stale else 0)
    for path, text in new.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
