"""Searches over schedules at an equal budget, replayed from a recorded table: graphs x schedules x time.

    python benchmarks/schedules.py OUT --limit 256 --near --seconds 500        # on a GPU: measured times
    python benchmarks/plan_search.py record TABLE --rows OUT/rows.jsonl        # those times; --estimates adds the model's
    python benchmarks/plan_search.py record TABLE --seconds 300                # without a GPU: times from the cost model
    python benchmarks/plan_search.py replay TABLE --seeds 32 [--plans SAID.jsonl] [--plot docs/plan_search.svg]

TABLE is an archive (`kernelwright.archive`), compressed if its name ends in .gz. Recording resumes where it stopped.
SAID.jsonl has a line per graph and seed: {"problem": name, "plans": [...]}, the plans that a policy sampled, in order.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from plan_searches import BUDGETS, SEARCHES, Race, best_after
from schedule_problems import Problem, problems, problems_of

from kernelwright.archive import Archive, Entry, code_digest, print_from_plan
from kernelwright.errors import UserError
from kernelwright.graph.text import to_text
from kernelwright.hardware import target as sheet_of
from kernelwright.metrics import geometric_mean, geometric_mean_interval
from kernelwright.outcomes import Outcome
from kernelwright.records import Task
from kernelwright.synth import library
from kernelwright.synth.library import schedules_of
from kernelwright.synth.plan import parse_plan, print_plan
from kernelwright.synth.to_triton import label_of

TARGET = "h200"
SAVE_EVERY = 20


def load(path: Path) -> Archive:
    """The table; empty if the file does not exist."""
    if not path.exists():
        return Archive()
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    return Archive(Entry.model_validate_json(line) for line in text.splitlines())


def save(archive: Archive, path: Path) -> None:
    """Write the table, compressed if its name ends in .gz."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    archive.write(plain)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
        plain.unlink()


# -- recording ------------------------------------------------------------------------------------------------------


def record(
    path: Path, rows: Path | None, seconds: float, only: str, estimates: bool, tasks: Path | None = None
) -> None:
    """Fill the table until time is up."""
    archive, deadline, fresh = load(path), time.monotonic() + seconds, 0
    clocked = {} if rows is None else _clocked(rows)
    for problem in problems() if tasks is None else problems_of(tasks):
        if only not in problem.name or (rows is not None and problem.name not in clocked):
            continue
        known = {
            entry.plan
            for entry in archive
            if entry.graph == problem.graph.digest and (entry.modelled_us is not None or not estimates)
        }
        for plan in dict.fromkeys([*_plans(problem), *sorted(clocked.get(problem.name, {}))]):
            if plan == "eager":
                continue
            times = clocked.get(problem.name, {}).get(plan)
            if plan in known or (rows is not None and times is None):
                continue
            if time.monotonic() > deadline:
                save(archive, path)
                print(f"time is up: {len(archive)} schedules")
                return
            archive.add(_judged(problem, plan, times, clocked.get(problem.name, {}).get("eager"), estimates))
            fresh += 1
            if fresh % SAVE_EVERY == 0:
                save(archive, path)
    save(archive, path)
    print(f"done: {len(archive)} schedules of {len(archive.tasks)} graphs")


def _plans(problem: Problem) -> list[str]:
    """The library's schedules in the order of its rule of thumb; its table of best schedules comes from such rows, and would leak them."""
    label = label_of(problem.graph)
    with mock.patch.object(library, "_table", dict):
        return [print_plan(label, one) for one in schedules_of(problem.graph, TARGET, problem.precision)]


def _clocked(path: Path) -> dict[str, dict[str, float | None]]:
    """problem -> plan -> ms from `schedules.py`'s rows; None for a schedule that failed. The longer measurement counts."""
    found: dict[str, dict[str, float | None]] = {}
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["plan"] == "eager" or (
            "schedule" in row and not row.get("fault", "").startswith(("not compiled", "NameError"))
        ):
            found.setdefault(row["problem"], {})[row["plan"]] = row.get("ms")
    return found


def _judged(
    problem: Problem, plan: str, ms: float | None, eager_ms: float | None, estimates: bool
) -> Iterable[Entry]:
    """The entry of one schedule: its measured time and the model's estimate, or the model's alone."""
    from kernelwright.verify.interpret.clock import NoFit, modelled_microseconds

    code = print_from_plan(problem.graph, plan)
    if code is None:
        return
    estimate, measured = None, ms is not None
    try:
        if estimates:
            estimate = modelled_microseconds(code, problem.graph, sheet_of(TARGET))
    except (NoFit, RuntimeError, TypeError, ValueError, AssertionError) as error:
        print(f"{problem.name}: {plan}: {type(error).__name__}: {str(error)[:150]}", flush=True)
    us = 1e3 * ms if ms is not None else estimate
    task = Task(
        id=problem.name, suite="plans", source=to_text(problem.graph), graph=problem.graph.model_dump_json()
    )
    yield Entry(
        graph=problem.graph.digest, task=task, target=TARGET, precision=_precision(problem), plan=plan,
        clock="measured" if measured else "modelled", digest=code_digest(code), us=us, modelled_us=estimate,
        eager_us=None if eager_ms is None else 1e3 * eager_ms,
        outcome=Outcome.CORRECT if us is not None else Outcome.OUT_OF_RESOURCES, source="library",
    )  # fmt: skip


def _precision(problem: Problem) -> Any:
    return problem.precision


# -- replaying ------------------------------------------------------------------------------------------------------


def races(
    archive: Archive, clock: str, sampled: Mapping[str, Sequence[Sequence[str]]], least: int
) -> Iterator[Race]:
    """The graphs with at least `least` schedules timed by that clock, the library's schedule first."""
    order = {problem.graph.digest: {p: i for i, p in enumerate(_plans(problem))} for problem in problems()}
    for graph, task in archive.tasks.items():
        some = [entry for entry in archive if entry.graph == graph and entry.clock == clock]
        if sum(entry.us is not None for entry in some) < least:
            continue
        places = order.get(graph, {})
        some.sort(key=lambda entry: (places.get(entry.plan, math.inf), entry.plan))
        yield Race(
            name=task.id,
            plans=[entry.plan for entry in some],
            schedules=[parse_plan(entry.plan)[1].model_dump() for entry in some],
            us=[entry.us for entry in some],
            modelled=[entry.modelled_us or math.inf for entry in some],
            sampled=sampled.get(task.id, ()),
        )


def _plans_by_problem(path: Path) -> dict[str, list[list[str]]]:
    """problem -> rows of plans, under the graph's own label: the operator names in a policy's plan do not affect the kernel."""
    labels = {problem.name: label_of(problem.graph) for problem in problems()}
    found: dict[str, list[list[str]]] = {}
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        plans = []
        for plan in row["plans"]:
            try:
                plans.append(print_plan(labels[row["problem"]], parse_plan(plan)[1]))
            except UserError:
                plans.append(plan)
        found.setdefault(row["problem"], []).append(plans)
    return found


def replay(chosen: Sequence[Race], seeds: int) -> dict[str, dict[int, list[list[float]]]]:
    """search -> budget -> per graph, the best time over the table's best for each seed; only graphs whose library schedule ran."""
    chosen = [race for race in chosen if math.isfinite(race.time(0))]
    found: dict[str, dict[int, list[list[float]]]] = {}
    for name, search in SEARCHES.items():
        if name == "policy" and not any(race.sampled for race in chosen):
            continue
        if "cost model" in name and not all(min(race.modelled) < math.inf for race in chosen):
            continue  # cannot rank without estimates: record --estimates
        budgets: dict[int, list[list[float]]] = {budget: [] for budget in BUDGETS}
        for race in chosen:
            tried = [
                search(race, BUDGETS[-1], random.Random(f"{name}/{race.name}/{seed}"))
                for seed in range(seeds)
            ]
            for budget in BUDGETS:
                # The library's own schedule is always available, whatever a search finds.
                own = race.time(0) / race.best_us
                budgets[budget].append([min(best_after(race, one, budget), own) for one in tried])
        found[name] = budgets
    return found


def table(found: Mapping[str, Mapping[int, list[list[float]]]]) -> str:
    """A Markdown table: geometric mean over graphs and seeds with its 95 % interval over graphs."""
    lines = ["| search | " + " | ".join(f"after {budget}" for budget in BUDGETS) + " |", "|---" * 6 + "|"]
    for name, budgets in found.items():
        cells = []
        for budget in BUDGETS:
            flat = [ratio for row in budgets[budget] for ratio in row]
            low, high = geometric_mean_interval(budgets[budget])
            cells.append(f"{geometric_mean(flat):.3f} [{low:.3f}, {high:.3f}]")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ranking(chosen: Iterable[Race]) -> str:
    """How well the cost model ranks the schedules of one graph: Spearman's correlation, median over graphs."""
    found = []
    for race in chosen:
        both = [
            (m, us) for m, us in zip(race.modelled, race.us, strict=True) if us is not None and m < math.inf
        ]
        if len(both) >= 8:
            found.append((_spearman([m for m, _ in both], [us for _, us in both]), race.name))
    found.sort()
    if not found:
        return "no graph has eight schedules with a time and an estimate"
    middle = found[len(found) // 2][0]
    return f"Spearman within a graph, {len(found)} graphs: median {middle:.2f}, least {found[0][0]:.2f} ({found[0][1]})"


def _spearman(one: Sequence[float], other: Sequence[float]) -> float:
    a, b = _ranks(one), _ranks(other)
    mean = (len(a) - 1) / 2
    cov = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    spread = math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return cov / spread if spread else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 0; equal values share their mean rank."""
    order = sorted(values)
    return [(order.index(v) + len(order) - 1 - order[::-1].index(v)) / 2 for v in values]


def plot(found: Mapping[str, Mapping[int, list[list[float]]]], clock: str, path: Path) -> None:
    """The best time over the table's best by budget, as SVG for light and dark pages."""
    from budget_chart import budget_chart

    points = {
        name: [(b, geometric_mean([r for row in budgets[b] for r in row])) for b in BUDGETS]
        for name, budgets in found.items()
    }
    path.write_text(budget_chart(f"best time over the table's best ({clock})", points), "utf-8")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("record", "replay"))
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=Path, help="rows of schedules.py, from a GPU")
    parser.add_argument("--tasks", type=Path, help="what the rows are of, where it is not the problems here")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--estimates", action="store_true", help="the cost model's, beside a clock's times")
    parser.add_argument("--only", default="", help="a part of problems' names")
    parser.add_argument("--clock", choices=("measured", "modelled"), default="measured")
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--least", type=int, default=8, help="schedules of a graph, at least")
    parser.add_argument("--plans", type=Path, help="what a policy sampled")
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    if args.what == "record":
        record(
            args.table,
            args.rows,
            args.seconds,
            args.only,
            args.estimates or args.rows is None,
            args.tasks,
        )
        return
    sampled = _plans_by_problem(args.plans) if args.plans else {}
    chosen = list(races(load(args.table), args.clock, sampled, args.least))
    if args.plans:
        chosen = [race for race in chosen if race.sampled]
    found = replay(chosen, args.seeds)
    schedules = sum(len(race.us) for race in chosen)
    print(f"{len(chosen)} graphs, {schedules} schedules, {args.clock} on {TARGET}, {args.seeds} seeds\n")
    print(table(found))
    print(f"\n{ranking(chosen)}")
    if args.plot:
        plot(found, args.clock, args.plot)


if __name__ == "__main__":
    main()
