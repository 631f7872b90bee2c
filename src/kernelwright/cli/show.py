"""Verdicts, tasks and tables as text for a terminal.

Verdicts quote hostile code, so control characters are escaped: nothing here can move the cursor or set a title. Colour is
used only if the terminal supports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from kernelwright.outcomes import Outcome
from kernelwright.prompts.feedback import feedback, size
from kernelwright.records import Cost, Rollout, Task, Timing, Verdict
from kernelwright.search.asks import rejected_kernels
from kernelwright.search.cache import Row
from kernelwright.search.ladder import Tried
from kernelwright.tasks.tritonbench import Skipped


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would exit with 1, which means a rejection here."""
        raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """A console that does not highlight, wrap or interpret its input."""
    return _Console(highlight=False, markup=False, emoji=False, soft_wrap=True, stderr=stderr)


def show_rung(tried: Tried) -> None:
    """Print a rung's result as it arrives."""
    print(f"{plain(tried.graph)}: {tried.rung}: {plain(tried.what)}", file=sys.stderr, flush=True)


LEAST_SHARE = 0.005
"""Share of time below which operators outside all groups have no row."""


def groups(rows: Sequence[Row], whole: Verdict | None) -> Group:
    """One row per distinct group of a module: share of time, origin and speed of its kernel; one for what ATen does outside of
    groups; the whole; notes."""
    columns = ("group", "operators", "times", "share", "rung", "us", "over eager", "over compile")
    found = table(*columns, right=[name for name in columns if name not in ("operators", "rung")])

    def times(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}x"

    for row in rows:
        us = "" if row.ms is None else f"{1e3 * row.ms:.1f}"
        cells = (str(row.number), plain(row.operators)[:60], str(row.count), f"{row.share:.0%}", row.rung, us)
        found.add_row(*cells, times(row.over_eager), times(row.over_compile))
    rest = 1.0 - sum(row.share for row in rows)
    if rows and rest >= LEAST_SHARE:
        found.add_row("", "other operators", "", f"{rest:.0%}", "aten", "", "", "")
    timing = whole.timing if whole else None
    if timing is not None:
        us = f"{1e3 * timing.candidate_ms:.1f}"
        over = times(timing.speedup("compile")) if "compile" in timing.baseline_ms else ""
        source = f"{timing.kind} on {timing.target}"
        found.add_row("whole", source, "", "", "", us, times(timing.speedup()), over, style="bold")
    notes: dict[str, list[int]] = {}
    for row in rows:
        if row.detail:
            notes.setdefault(plain(row.detail)[:80], []).append(row.number)
        elif row.ms is None and row.rung != "aten":
            notes.setdefault("judged only within the whole", []).append(row.number)
    return Group(found, *(f"{_numbered(numbers)}: {note}" for note, numbers in notes.items()))


def _numbered(numbers: Sequence[int]) -> str:
    """ "group 3", or "groups 1, 4 to 9" for ascending numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    listed = ", ".join(f"{one[0]} to {one[-1]}" if len(one) > 2 else ", ".join(map(str, one)) for one in runs)
    return f"group{'s' if len(numbers) > 1 else ''} {listed}"


def plain(text: str) -> str:
    """`text` with control characters escaped, except line ends and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def verdict(found: Verdict) -> Text:
    """Outcome, detail and evidence, in some ten lines."""
    colour = "green" if found.correct else "red" if found.outcome.judged else "yellow"
    text = Text()
    text.append(found.outcome.value.replace("_", " "), style=f"bold {colour}")
    seconds = sum(found.evidence.seconds.values())
    text.append(
        f"  {plain(found.task_id)} · {found.protocol} protocol · {found.precision} precision{' · gradients' * found.gradients} · {found.backend} · {seconds:.1f} s\n"
    )
    for name, line in _facts(found):
        text.append(f"  {name:<11}", style="dim").append(f"{plain(line)}\n")
    text.rstrip()
    return text


def _facts(found: Verdict) -> Iterable[tuple[str, str]]:
    evidence = found.evidence
    if not found.correct:
        yield (
            "decided at",
            f"the {found.gate.value.replace('_', ' ')} gate ({found.outcome.category.value.replace('_', ' ')})",
        )
    if found.detail:
        yield "because", " ".join(found.detail.split("\n"))
    for other in found.beside:
        yield other.protocol, f"{other.outcome.value.replace('_', ' ')} {other.detail}".strip()
    if evidence.cases:
        worst = (
            "" if evidence.worst_error is None else f", worst error {evidence.worst_error:.2g} of the allowed"
        )
        yield "cases", f"{evidence.cases} passed{worst}"
    if evidence.proof is not None and evidence.proof.status == "proven":
        yield "proven", f"equal for every input over the reals, at {', '.join(evidence.proof.shapes)}"
    elif evidence.proof is not None:
        yield "not proven", evidence.proof.reason
    if found.sizes:
        ranges = (f"{name} {least} to {most}" for name, (least, most) in found.sizes.items())
        yield "holds for", ", ".join(ranges)
    if evidence.where:
        yield "failed on", evidence.where
    if evidence.aten_ops:
        yield "torch did", ", ".join(f"{name} ×{count}" for name, count in evidence.aten_ops.items())
    for launch in evidence.launches:
        constants = " ".join(f"{name}={value}" for name, value in launch.constexprs.items())
        grid = "×".join(map(str, launch.grid))
        yield (
            "launch",
            f"{launch.kernel}  grid {grid}, {launch.num_warps} warps, {launch.num_stages} stages  {constants}",
        )
    for binary in evidence.binaries:
        yield (
            "binary",
            f"{binary.kernel}  {binary.target}: {binary.registers} registers, {binary.spills} B spilled, "
            f"{size(binary.shared_bytes)} shared, occupancy {binary.occupancy:.0%}",
        )
    if evidence.cost is not None:
        line = _moves(evidence.cost)
        if evidence.reference_cost is not None:
            line += f"; eager: {_moves(evidence.reference_cost)}"
        yield "moves", line + "  (modelled)"
    if found.timing is not None:
        yield from _timing(found.timing)


def _timing(timing: Timing) -> Iterable[tuple[str, str]]:
    """Times and speedups, each labelled as modelled or measured."""
    low, high = timing.candidate_ci
    line = f"{timing.candidate_ms:.4g} ms [{low:.4g}, {high:.4g}] {timing.kind} on {timing.target}"
    if timing.roofline_fraction is not None:
        line += f", {timing.roofline_fraction:.0%} of the roofline"
    yield "time", line
    if said := rates(timing):
        yield "rate", said
    for name, ms in timing.baseline_ms.items():
        low, high = timing.speedup_ci[name]
        yield (
            "speedup",
            f"{timing.speedup(name):.2f}× [{low:.2f}, {high:.2f}] over {name} ({ms:.4g} ms), {timing.kind}",
        )


def rates(timing: Timing) -> str:
    """`1234 GB/s, 56.7 TFLOP/s`, as far as known."""
    found = [] if timing.gb_s is None else [f"{timing.gb_s:.4g} GB/s"]
    if timing.gflop_s is not None:
        large = timing.gflop_s >= 1000
        found.append(f"{timing.gflop_s / (1000 if large else 1):.3g} {'TFLOP/s' if large else 'GFLOP/s'}")
    return ", ".join(found)


def _moves(cost: Cost) -> str:
    return f"{size(cost.bytes)} in {cost.launches} launch{'es' if cost.launches != 1 else ''}"


def attempts_table(rollouts: Sequence[Rollout]) -> Table:
    """How attempts ended: one row per outcome, furthest through the funnel first, with an example message."""
    order = list(Outcome)
    by_outcome: dict[Outcome, list[Rollout]] = {}
    for rollout in rollouts:
        by_outcome.setdefault(rollout.verdict.outcome, []).append(rollout)
    rows = table("attempts", "ended as", "at", "for example", right=("attempts",))
    for outcome in sorted(by_outcome, key=lambda each: -order.index(each)):
        group = by_outcome[outcome]
        detail = next((r.verdict.detail for r in group if r.verdict.detail), "")
        rows.add_row(
            str(len(group)),
            outcome.value.replace("_", " "),
            group[0].verdict.gate.value.replace("_", " "),
            plain(" ".join(detail.split()))[:120],
        )
    return rows


def show_unsolved(to: Console, reason: str, tries: Sequence[Rollout]) -> None:
    """Why nothing was verified, how far each attempt came, and the feedback on the best."""
    to.print(f"\n{plain(reason)}")
    if tries:
        to.print()
        to.print(attempts_table(tries))
        last = rejected_kernels(tries)[0] if rejected_kernels(tries) else tries[0]
        to.print(f"\nfurthest:\n{plain(feedback(last.verdict)) or plain(last.verdict.detail)}", style="dim")


def metrics(
    rows: Sequence[tuple[str, Mapping[str, Any]]], seconds: Mapping[str, float] | None = None
) -> Table:
    """One row per stage: (label, its metrics.json). `seconds`: label -> wall-clock seconds spent on it.

    Rows of later agents show what the pipeline passes on (see `evaluate`); their tokens are those of their own answers.
    """
    kind = next((summary["timing"] for _, summary in rows if summary["timing"]), "")
    columns = ["stage", "format", "compile", "correct", f"{kind} speedup".strip(), "tokens"]
    columns += ["seconds"] if seconds is not None else []
    found = table(*columns, right=columns[1:])
    for label, summary in rows:
        gain, tokens = summary["speedup"]["eager"], summary.get("attempts", summary)["tokens"]
        cells = [
            label,
            _percent(summary["format_rate"]),
            _percent(summary["compile_rate"]),
            _percent(summary["correct_rate"]) + _interval(summary["correct_rate_ci"], _percent),
            _times(gain["geometric_mean"]) + _interval(gain["ci"], _times),
            "–" if tokens is None else f"{tokens:.0f}",
        ]
        if seconds is not None:
            cells.append(f"{seconds[label]:.0f}" if label in seconds else "–")
        found.add_row(*cells)
    return found


def gains(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """One line per later agent: results of its own answers, and what they gained over the given kernels."""
    lines = []
    for label, summary in rows:
        if "gain" in summary:
            own, gain = summary["attempts"], summary["gain"]
            lines.append(
                f"{label}, asked about {own['samples']} kernels: {_percent(own['compile_rate'])} of its answers compile, "
                f"{_percent(own['correct_rate'])} are correct, {_percent(gain['improved'])} are faster than what it was "
                f"given; {_times(gain['geometric_mean'])}{_interval(gain['ci'], _times)} in time handed on\n"
            )
    return "".join(lines)


def segments(curves: Sequence[Mapping[str, Any]]) -> str:
    """One line per reinforcement stage: share of correct samples, rewards of plans and code, entropy of plans, and time of correct
    kernels over the best known, at the start and at the end.

    Means over the first and the last quarter of its steps in `curves.jsonl`.
    """
    lines = []
    for stage in dict.fromkeys(row["stage"] for row in curves if "reward_plan" in row):
        rows = [row for row in curves if row["stage"] == stage]
        part = max(1, len(rows) // 4)
        ends = [_paid(rows[:part]), _paid(rows[-part:])]
        shown = (
            f"{name} {first} to {last}"
            for name, first, last in zip(_PAID, *ends, strict=True)
            if first != "–"
        )
        lines.append(f"{stage}: {', '.join(shown)}\n")
    return "".join(lines)


def _paid(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The means of `_PAID`, as text."""
    slower = [1 / ratio if (ratio := row.get("over_known")) else None for row in rows]
    columns = [[row.get("pass_rate") for row in rows], [row.get("reward_plan") for row in rows],
               [row.get("reward_code") for row in rows], [(row.get("nats") or {}).get("decision") for row in rows], slower]  # fmt: skip
    known = [[value for value in column if value is not None] for column in columns]
    return [f"{sum(column) / len(column):.2f}" if column else "–" for column in known]


_PAID = ("right", "plans paid", "code paid", "nats a decision", "time over the best known")


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _interval(pair: Sequence[float] | None, form: Callable[[float], str]) -> str:
    return "" if pair is None else f" [{form(pair[0])}, {form(pair[1])}]"


def functions(summary: Mapping[str, Any]) -> str:
    """One line if tasks are cases of functions: how many functions are correct in all their cases."""
    whole = summary.get("functions")
    if not whole:
        return ""
    first = whole["pass_at_k"].get("1")
    return (
        f"{whole['solved']} of {whole['functions']} functions are right in all of their {whole['cases']} cases at some try, "
        f"{_percent(first)} at one\n"
    )


def skipped_calls(skipped: Sequence[Skipped]) -> Table:
    """One row per reason."""
    rows = table("left out", "for", "such as", right=("left out",))
    reasons: dict[str, list[str]] = {}
    for one in skipped:
        reasons.setdefault(one.meaning, []).append(one.id)
    for meaning, ids in sorted(reasons.items(), key=lambda item: -len(item[1])):
        rows.add_row(str(len(ids)), meaning, f"{', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''}")
    return rows


def tasks(found: Sequence[Task]) -> Table:
    """One row per task."""
    rows = table("task", "family", "operators", "dtype", "shape sets")
    for task in found:
        rows.add_row(task.id, task.family, str(task.difficulty), task.dtype, ", ".join(task.shapes))
    return rows


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """A bare table; columns named in `right` are aligned to the right."""
    rows = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        rows.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return rows
