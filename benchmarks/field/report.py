"""A table of rows by package, and causes by count. Prints nothing that a package's code said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from field.intervals import exact
from field.sources import MEASUREMENT_ONLY

Row = dict[str, Any]


def table(rows: Sequence[Row]) -> str:
    """A Markdown table: a line per package, one in total, then causes."""
    counted = [row for row in rows if "ok" in row]
    lines = ["| package | modules | ok | share | median s | not counted |", "|---|---|---|---|---|---|"]
    for package in dict.fromkeys(row["package"] for row in rows):
        name = f"{package} (measurement only)" if package in MEASUREMENT_ONLY else package
        lines.append(_line(name, [row for row in rows if row["package"] == package]))
    for dtype in ("float32", "bfloat16"):
        lines.append(_line(f"all, {dtype}", [row for row in rows if row.get("dtype") == dtype]))
    lines.append(_line("all", rows))
    lines += _wholes(counted)
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


def _wholes(rows: Sequence[Row]) -> list[str]:
    """Further lines for rows of the stage `whole`: time, shares, and what `optimize` would have returned."""
    good = [row for row in rows if row["ok"] and "own_nodes" in row]
    if not good:
        return []
    low, high = exact(len(good), len(rows))
    ended = [row for row in rows if "cpu" in row]  # without killed workers
    total = {key: sum(row[key] for row in good) for key in ("own_nodes", "nodes", "own_us", "eager_us")}
    return [
        "",
        f"- verified whole: {len(good)} of {len(rows)}, {len(good) / len(rows):.1%} [{low:.1%}, {high:.1%}], exact 95 %",
        f"- no slower than the faster of eager and torch.compile, modelled: {sum(row['kept'] for row in good)}",
        f"- of those verified, in own kernels: {total['own_nodes'] / total['nodes']:.1%} of nodes, "
        f"{total['own_us'] / max(total['eager_us'], 1e-9):.1%} of modelled eager time",
        f"- within 45 s of CPU time: {sum(row['cpu'] <= 45 for row in good)}; of wall clock: "
        f"{sum(row['seconds'] <= 45 for row in good)}; load {min(row['load'] for row in ended)} to "
        f"{max(row['load'] for row in ended)}",
        f"- median CPU {median(row['cpu'] for row in ended):.0f} s, a second call {median(row['second'] for row in good):.2f} s",
        "",
    ]


def _line(name: str, rows: Sequence[Row]) -> str:
    counted = [row for row in rows if "ok" in row]
    good = sum(row["ok"] for row in counted)
    share = f"{100 * good / len(counted):.1f} %" if counted else ""
    seconds = f"{median(row['seconds'] for row in counted):.1f}" if counted else ""
    return f"| {name} | {len(counted)} | {good} | {share} | {seconds} | {len(rows) - len(counted)} |"
