"""The card of a corpus: counts by operator, dtype, source, nest and schedules per graph, and a sentence on what it covers.

DIR/card.json for programs, DIR/README.md for people. Says what was judged and what was rejected, not how well a model
trained on it performs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernelwright.children import on_all_cores
from kernelwright.graph.operators import packet
from kernelwright.graph.types import Graph
from kernelwright.records import Pair

COVERS = (
    "In distribution: one-kernel graphs of up to {most} ATen operators (elementwise chains, reductions and norms, losses, one "
    "product, convolution or attention with maps around it, scans, pooling, lookups, moves of elements) in float32, bfloat16 "
    "and float16, drawn at random and from a catalogue of common operators: every single operator of a benchmark is likely to "
    "be among them, graphs that compute a benchmark's whole file are taken out where `--against` named it, and whole modules, "
    "several kernels a graph, sorting, scatters and random numbers are not covered at all."
)

_TABLES = ("kinds", "answers", "sources", "precisions", "nests", "writers", "schedules a graph", "dropped")
_COMMON = 30
"""Most operators listed in a summary."""


def describe(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Counts of pairs, graphs and schedules."""
    graphs = {pair.digest: pair for pair in pairs}
    plans: dict[str, set[str]] = {}
    for pair in pairs:
        plans.setdefault(pair.digest, set()).add(pair.plan)
    nodes = list(on_all_cores(_operators, list(graphs.values())))
    operators = Counter(name for names in nodes for name in set(names))
    many = Counter(len(one) for one in plans.values())
    return {
        "pairs": len(pairs),
        "kinds": _count(f"{pair.split} {pair.kind}" for pair in pairs),
        "graphs": len(graphs),
        "structures": len({pair.structure for pair in pairs}),
        "most operators": max(map(len, nodes), default=0),
        "operators": dict(operators.most_common()),
        "sources": _count(pair.source for pair in graphs.values()),
        "precisions": _count(pair.precision for pair in graphs.values()),
        "nests": _count(pair.plan.split("nest ")[-1].split("  ")[0] for pair in pairs),
        "answers": _count("judged" if pair.judged else "at the printer's word" for pair in pairs),
        "writers": _count(pair.writer for pair in pairs),
        "schedules a graph": {str(number): many[number] for number in sorted(many)},
    }


def _operators(pair: Pair) -> list[str]:
    return [packet(node.op) for node in Graph.model_validate_json(pair.task.graph).nodes]


def _count(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def lengths(rows: Sequence[tuple[Pair, tuple[int, ...]]]) -> dict[str, Any]:
    """Tokens of prompt, answer and both, by kind: median, 95th percentile and maximum."""
    table: dict[str, Any] = {}
    for kind in sorted({pair.kind for pair, _ in rows}):
        counts = [count for pair, count in rows if pair.kind == kind]
        for name, values in (
            ("prompt", [one[0] for one in counts]),
            ("answer", [one[1] for one in counts]),
            ("both", [sum(one) for one in counts]),
        ):
            values.sort()
            table[f"{kind} {name}"] = {
                "median": values[len(values) // 2],
                "p95": values[int(0.95 * (len(values) - 1))],
                "max": values[-1],
            }
    return table


def count_accepted(judged: Mapping[str, int]) -> tuple[int, int]:
    """(kernels accepted at the first attempt, kernels judged)."""
    outcomes = [
        (name.split(": ")[1], count)
        for name, count in judged.items()
        if _is_nest(name) and not name.startswith("priced ")
    ]
    return sum(count for name, count in outcomes if name == "correct"), sum(count for _, count in outcomes)


def survivors(judged: Mapping[str, int]) -> tuple[int, int]:
    """(planted faults that the judge accepted, faults planted)."""
    survived = judged.get("fault: survived", 0)
    return survived, survived + judged.get("fault: rejected", 0)


def _is_nest(name: str) -> bool:
    return not name.startswith(("skipped", "graphs", "fault", "survivor", "dropped"))


def summary(card: Mapping[str, Any]) -> str:
    """The card in a few lines of Markdown, for the model card of a model trained on it."""
    right, judged = count_accepted(card["judged"])
    operators = list(card["operators"].items())
    lines = [
        f"{_headline(card)} "
        + (f"The judge accepted {right} of {judged} kernels at the first try." if judged else ""),
        "",
        *(f"- {title.capitalize()}: {_list(card[title].items())}" for title in _TABLES[:-2]),
        f"- Operators, {len(operators)}, by the graphs that have them: {_list(operators[:_COMMON])}"
        + (" and others" if len(operators) > _COMMON else ""),
        f"- Benchmarks: {card['benchmarks']['pairs removed']} pairs that compute one of their files were taken out"
        if card["benchmarks"]["places"]
        else "- Benchmarks: it was compared with none",
    ]
    return "\n".join(line.rstrip() for line in lines)


def _list(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts)


def _headline(card: Mapping[str, Any]) -> str:
    return f"{card['pairs']} pairs of {card['graphs']} graphs ({card['structures']} structures), {card['practice']} practice tasks."


def text(card: Mapping[str, Any]) -> str:
    """The card as Markdown."""
    right, judged = count_accepted(card["judged"])
    survived, planted = survivors(card["judged"])
    lines = [
        "# A corpus of pairs in function form",
        "",
        COVERS.format(most=card["most operators"]),
        "",
        f"{_headline(card)} The judge accepted {right} of {judged} kernels at the first try, and {survived} of {planted} planted faults.",
        "",
    ]
    for title in _TABLES:
        lines += [f"## {title.capitalize()}", "", *_table(card[title]), ""]
    lines += [f"## Operators: {len(card['operators'])}", "", _list(card["operators"].items()), ""]
    lines += ["## Benchmarks", ""]
    lines += [f"- {name}: {value}" for name, value in card["benchmarks"].items()]
    refused = {
        name: count
        for name, count in card["judged"].items()
        if _is_nest(name) and not name.endswith(": correct")
    }
    lines += ["", "## Refused by the judge", "", *_table(refused), ""]
    return "\n".join(lines)


def _table(counts: Mapping[str, int]) -> list[str]:
    total = sum(counts.values()) or 1
    return [
        "| | | |",
        "|---|---|---|",
        *(f"| {name} | {count} | {count / total:.1%} |" for name, count in counts.items()),
    ]
