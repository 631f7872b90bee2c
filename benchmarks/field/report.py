"""Rows to a table by package and causes by count. Prints nothing that a package said itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from field.sources import MEASUREMENT_ONLY

Row = dict[str, Any]


def table(rows: Sequence[Row]) -> str:
    """Markdown: a line a package, one for all, then causes."""
    counted = [row for row in rows if "ok" in row]
    lines = ["| package | modules | ok | share | median s | not counted |", "|---|---|---|---|---|---|"]
    for package in dict.fromkeys(row["package"] for row in rows):
        name = f"{package} (measurement only)" if package in MEASUREMENT_ONLY else package
        lines.append(_line(name, [row for row in rows if row["package"] == package]))
    for dtype in ("float32", "bfloat16"):
        lines.append(_line(f"all, {dtype}", [row for row in rows if row.get("dtype") == dtype]))
    lines.append(_line("all", rows))
    split = [row for row in counted if "grouped" in row]
    if split:
        totals = {
            key: sum(row[key] for row in split)
            for key in ("groups", "nodes", "grouped", "eager_us", "grouped_us")
        }
        lines.append(
            f"\n{totals['groups']} groups of {len(split)} modules hold {totals['grouped'] / totals['nodes']:.1%} of ATen "
            f"nodes and {totals['grouped_us'] / max(totals['eager_us'], 1e-9):.1%} of modelled eager time\n"
        )
    causes = Counter(
        ("measurement only" if row["package"] in MEASUREMENT_ONLY else "open", row["cause"])
        for row in counted
        if not row["ok"]
    )
    for (kind, why), count in causes.most_common():
        lines.append(f"{count:5}  {kind}: {why}")
    skipped = Counter(row.get("unfit") or row.get("harvest") for row in rows if "ok" not in row)
    lines += [f"{count:5}  not counted: {why}" for why, count in skipped.most_common()]
    return "\n".join(lines)


def _line(name: str, rows: Sequence[Row]) -> str:
    counted = [row for row in rows if "ok" in row]
    good = sum(row["ok"] for row in counted)
    share = f"{100 * good / len(counted):.1f} %" if counted else ""
    seconds = f"{median(row['seconds'] for row in counted):.1f}" if counted else ""
    return f"| {name} | {len(counted)} | {good} | {share} | {seconds} | {len(rows) - len(counted)} |"
