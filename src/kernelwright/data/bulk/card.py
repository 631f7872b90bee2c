"""The card of a corpus: what is in it by category, family, difficulty, teacher and length, as numbers, text and plots.

DIR/card.json for programs, DIR/README.md for people, DIR/lengths.svg and DIR/categories.svg in it.
"""

from __future__ import annotations

import html
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernelwright.outcomes import Outcome
from kernelwright.records import Example, Task
from kernelwright.runs import write_text

LEVEL_1 = (
    *("matmul", "activation", "norm", "pooling", "reduction", "convolution", "scan", "loss", "attention"),
)
"""Categories of KernelBench's level 1."""
AIM_PAIRS = 300
"""*Translate* pairs wanted in each of them."""
AIM_ACCEPTED = {"families": 0.95, "library": 0.95, "inductor": 0.80}
"""Share of a teacher's kernels that the judge should accept as they come."""
LIMIT_TOKENS = 2048
LIMIT_MEDIAN = 900
"""Tokens of an example at most, and at the median."""
_BIN = 128
"""Tokens a bar of the histogram."""


def family_of(task: Task) -> str:
    """The family that a task was drawn from, else its suite."""
    if task.suite != "families":
        return task.suite
    return task.id.removeprefix("families/").rsplit("-", 2)[0]


def _category(task: Task) -> str:
    return task.family or task.suite


_COUNTED: Mapping[str, Callable[[Example], str]] = {
    "splits": lambda example: example.split,
    "kinds": lambda example: f"{example.split} {example.kind}",
    "teachers": lambda example: f"{example.teacher} {example.kind}",
    "operators": lambda example: str(example.task.difficulty),
    "types": lambda example: example.task.dtype,
    "categories": lambda example: f"{_category(example.task)} {example.kind}",
}
"""What a card counts, by what."""


class Table:
    """Counts that grow with every example."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in _COUNTED}
        self.coverage: dict[str, Counter[str]] = defaultdict(Counter)
        self.lengths: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._kernels: set[int] = set()
        self._graphs: set[tuple[str, str]] = set()

    def add(self, example: Example, tokens: tuple[int, int]) -> None:
        """Count an example; `tokens` are those of prompt and answer."""
        for name, value_of in _COUNTED.items():
            self.counts[name][value_of(example)] += 1
        if example.kind == "translate":
            self.coverage[_category(example.task)][family_of(example.task)] += 1
        self.lengths[example.kind].append(tokens)
        self._kernels.add(hash(example.code))
        self._graphs.add((example.split, example.graph))

    def describe(self) -> dict[str, Any]:
        """The counts as plain values."""
        found = {name: dict(sorted(counts.items())) for name, counts in self.counts.items()}
        return {
            "examples": sum(self.counts["splits"].values()),
            **found,
            "graphs": dict(Counter(split for split, _ in self._graphs)),
            "kernels": len(self._kernels),
            "coverage": {name: dict(counts.most_common()) for name, counts in sorted(self.coverage.items())},
            "tokens": {
                **{kind: quantiles([sum(pair) for pair in pairs]) for kind, pairs in self.lengths.items()},
                "answer": quantiles([answer for pairs in self.lengths.values() for _, answer in pairs]),
                "all": quantiles([sum(pair) for pairs in self.lengths.values() for pair in pairs]),
            },
        }


def quantiles(values: Sequence[int]) -> dict[str, int]:
    """Median, 95th percentile and most of some lengths."""
    ordered = sorted(values) or [0]
    return {
        "median": ordered[len(ordered) // 2],
        "p95": ordered[int(0.95 * (len(ordered) - 1))],
        "max": ordered[-1],
    }


def coverage(found: Mapping[str, Any]) -> list[tuple[str, int, int, str]]:
    """Of a card: (category, families, *translate* pairs, the family with fewest), KernelBench's level 1 first."""
    table: Mapping[str, Mapping[str, int]] = found["coverage"]
    names = [*LEVEL_1, *(name for name in table if name not in LEVEL_1)]
    rows = []
    for name in names:
        families = table.get(name, {})
        least = min(families.items(), key=lambda item: item[1], default=("", 0))
        rows.append((name, len(families), sum(families.values()), f"{least[0]} {least[1]}".strip()))
    return rows


class Acceptance(NamedTuple):
    """What the judge said to one teacher's kernels, each heard once and none mended."""

    teacher: str
    heard: int
    """Kernels that got a fair hearing."""
    accepted: int
    causes: tuple[tuple[str, int], ...]
    """Outcomes of the others, the most frequent first."""

    @property
    def share(self) -> float:
        """Accepted at the first try, of those heard; 0 where none was."""
        return self.accepted / self.heard if self.heard else 0.0

    @property
    def aim(self) -> float | None:
        """The share wanted of this teacher; None where none is set."""
        return AIM_ACCEPTED.get(self.teacher)


def acceptance(found: Mapping[str, Any]) -> list[Acceptance]:
    """Of a card: how many of each teacher's kernels were accepted at the first try, and what the others met."""
    judged = {outcome.value for outcome in Outcome if outcome.judged}
    ended: dict[str, Counter[str]] = defaultdict(Counter)
    for what, count in found["heard"].items():
        teacher, _, outcome = what.partition(": ")
        if teacher != "mutant" and outcome in judged:
            ended[teacher][outcome] += count
    rows = []
    for teacher, outcomes in sorted(ended.items()):
        heard, accepted = sum(outcomes.values()), outcomes.pop(Outcome.CORRECT.value, 0)
        rows.append(Acceptance(teacher, heard, accepted, tuple(outcomes.most_common())))
    return rows


def short(found: Mapping[str, Any]) -> list[str]:
    """Of a card: every aim that the corpus misses, a line each; empty where it meets them all, or is for practice alone."""
    if not found["examples"]:
        return []
    pairs = {name: count for name, _, count, _ in coverage(found) if name in LEVEL_1}
    lines = [f"{name}: {count} of {AIM_PAIRS} pairs" for name, count in pairs.items() if count < AIM_PAIRS]
    lines += [
        f"{row.teacher}: {row.share:.1%} accepted at first try, {row.aim:.0%} wanted"
        for row in acceptance(found)
        if row.aim is not None and row.share < row.aim
    ]
    lengths = found["tokens"]["all"]
    if lengths["max"] > LIMIT_TOKENS:
        lines.append(f"tokens: an example of {lengths['max']}, {LIMIT_TOKENS} allowed")
    if lengths["median"] >= LIMIT_MEDIAN:
        lines.append(f"tokens: median {lengths['median']}, under {LIMIT_MEDIAN} wanted")
    return lines


def write(folder: Path, found: Mapping[str, Any], table: Table) -> None:
    """Write the README and its plots."""
    write_text(folder / "lengths.svg", _histogram(table.lengths))
    write_text(folder / "categories.svg", _bars([(name, pairs) for name, _, pairs, _ in coverage(found)]))
    write_text(folder / "README.md", _readme(found))


def _readme(found: Mapping[str, Any]) -> str:
    def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
        lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
        return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows), ""]

    tokens: Mapping[str, Mapping[str, int]] = found["tokens"]
    lines = [
        "# Corpus",
        "",
        f"{found['examples']} examples with {found['kernels']} different kernels, all of them accepted by the strict "
        f"judge without a GPU. Made by `kernelwright data make`; settings in `card.json`.",
        "",
        *table(("split and kind", "examples"), list(found["kinds"].items())),
        *table(("teacher and kind", "examples"), list(found["teachers"].items())),
        *table(("operators", "examples"), list(found["operators"].items())),
        *table(("type", "examples"), list(found["types"].items())),
        "## Coverage",
        "",
        f"*Translate* pairs by category; KernelBench's level 1 has the first nine, and {AIM_PAIRS} are wanted of each.",
        "",
        *table(("category", "families", "pairs", "fewest"), coverage(found)),
        "![pairs by category](categories.svg)",
        "",
        "## Tokens of an example",
        "",
        f"At most {LIMIT_TOKENS}, and under {LIMIT_MEDIAN} at the median, are wanted.",
        "",
        *table(
            ("kind", "median", "95 %", "most"),
            [(kind, *(values[key] for key in ("median", "p95", "max"))) for kind, values in tokens.items()],
        ),
        "![lengths](lengths.svg)",
        "",
        "## What was left out, and why",
        "",
        *table(("reason", "count"), list(found["dropped"].items())),
        "## Hearings",
        "",
        *table(
            ("teacher", "kernels heard", "accepted at first try", "wanted", "others"),
            [
                (
                    row.teacher,
                    row.heard,
                    f"{row.share:.1%}",
                    f"{row.aim:.0%}" if row.aim is not None else "",
                    ", ".join(f"{outcome} {count}" for outcome, count in row.causes),
                )
                for row in acceptance(found)
            ],
        ),
        *table(("what", "count"), list(found["heard"].items())),
        f"{found['core_seconds']} seconds of one core. Tasks for practice, without a kernel: {found['practice']}.",
        "",
        "## Benchmarks",
        "",
        compared(found["benchmarks"]),
        "",
    ]
    return "\n".join(lines)


def compared(found: Mapping[str, Any]) -> str:
    """What a card says of benchmarks, from its `benchmarks`: how many files of each, so that one sees what a checkout lacks."""
    files = found["files"]
    if not files:
        return "Not compared with any benchmark: `kernelwright data split DIR --against FOLDER` does it."
    removed = ", ".join(f"{count} by {how}" for how, count in found["removed"].items()) or "none"
    named = ", ".join(f"{name} ({count} files)" if count else name for name, count in files.items())
    broken = found["unreadable"]
    return (
        f"Compared with {found['references']} references and {found['kernels']} kernels of {named}. Removed: {removed}; "
        "`contamination.jsonl` lists them."
    ) + (f" No Python: {broken[0]} and {len(broken) - 1} more; is the checkout whole?" if broken else "")


def _histogram(lengths: Mapping[str, Sequence[tuple[int, int]]]) -> str:
    """Examples by tokens of prompt and answer."""
    bins = Counter(sum(pair) // _BIN for pairs in lengths.values() for pair in pairs)
    return _bars([(str(place * _BIN), bins.get(place, 0)) for place in range(max(bins, default=0) + 1)])


def _bars(rows: Sequence[tuple[str, int]]) -> str:
    """Horizontal bars with their labels and numbers, as SVG."""
    most = max((value for _, value in rows), default=0) or 1
    parts = []
    for place, (label, value) in enumerate(rows):
        y, width = 10 + 22 * place, round(400 * value / most)
        parts.append(
            f'<text x="118" y="{y + 12}" text-anchor="end">{html.escape(label)}</text>'
            f'<rect x="124" y="{y}" width="{width}" height="16" fill="#4a7"/>'
            f'<text x="{130 + width}" y="{y + 12}">{value}</text>'
        )
    height = 20 + 22 * len(rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="600" height="{height}" font-family="sans-serif" '
        f'font-size="12">{"".join(parts)}</svg>\n'
    )
