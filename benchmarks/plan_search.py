"""Searches over schedules at an equal budget, replayed from a recorded table: graphs x schedules x time.

    python benchmarks/schedules.py OUT --limit 256 --near --seconds 500        # on a GPU: measured times
    python benchmarks/plan_search.py record TABLE --rows OUT/rows.jsonl        # those times
    python benchmarks/plan_search.py record TABLE --seconds 300                # without a GPU: times from the cost model
    python benchmarks/plan_search.py ask TABLE --policy default --plans SAID.jsonl --seeds 4
    python benchmarks/plan_search.py replay TABLE --seeds 32 [--plans SAID.jsonl] [--plot docs/plan_search.svg]

TABLE is an archive (`kernelwright.archive`), compressed if its name ends in .gz. Recording resumes where it stopped.
SAID.jsonl has a line per graph and seed: {"problem": name, "plans": [...]}, the plans that a policy sampled, in order.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from unittest import mock

import ranking as fitted
from block_problems import all_problems
from plan_searches import BUDGETS, SEARCHES, Race, best_after
from schedule_problems import Problem, problems_of

from kernelwright.archive import Archive, Entry, code_digest, print_from_plan
from kernelwright.candidates import parse
from kernelwright.errors import UserError
from kernelwright.graph.text import to_text
from kernelwright.graph.types import Graph
from kernelwright.hardware import target as sheet_of
from kernelwright.metrics import geometric_mean, geometric_mean_interval
from kernelwright.outcomes import Outcome
from kernelwright.policy import load_policy
from kernelwright.prompts import render
from kernelwright.records import Task
from kernelwright.synth import library
from kernelwright.synth.library import schedules_of
from kernelwright.synth.plan import parse_plan, print_plan
from kernelwright.synth.to_triton import label_of

TARGET = "h100"
"""The GPU of the recorded table, but for 325 schedules of problems that only an H200 has timed."""
SAVE_EVERY = 20


def load(path: Path) -> Archive:
    """The table; empty if the file does not exist."""
    return Archive.read([path]) if path.exists() else Archive()


# -- recording ------------------------------------------------------------------------------------------------------


def record(path: Path, rows: Path | None, seconds: float, only: str, tasks: Path | None = None) -> None:
    """Fill the table until time is up."""
    archive, deadline, fresh = load(path), time.monotonic() + seconds, 0
    clocked = {} if rows is None else _clocked(rows)
    for problem in all_problems() if tasks is None else problems_of(tasks):
        if only not in problem.name or (rows is not None and problem.name not in clocked):
            continue
        known = {
            entry.plan
            for entry in archive
            if entry.graph == problem.graph.digest and (entry.modelled_us is not None or rows is not None)
        }
        for plan in dict.fromkeys([*_plans(problem), *sorted(clocked.get(problem.name, {}))]):
            if plan == "eager":
                continue
            times = clocked.get(problem.name, {}).get(plan)
            if plan in known or (rows is not None and times is None):
                continue
            if time.monotonic() > deadline:
                archive.write(path)
                print(f"time is up: {len(archive)} schedules")
                return
            archive.add(_judged(problem, plan, times, clocked.get(problem.name, {}).get("eager")))
            fresh += 1
            if fresh % SAVE_EVERY == 0:
                archive.write(path)
    archive.write(path)
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


def _judged(problem: Problem, plan: str, ms: float | None, eager_ms: float | None) -> Iterable[Entry]:
    """The entry of one schedule: its measured time, else the model's."""
    from modelled import NoFit, modelled_microseconds

    code = print_from_plan(problem.graph, plan)
    if code is None:
        return
    estimate, measured = None, ms is not None
    try:
        if not measured:
            estimate = modelled_microseconds(code, problem.graph, sheet_of(TARGET))
    except (NoFit, RuntimeError, TypeError, ValueError, AssertionError) as error:
        print(f"{problem.name}: {plan}: {type(error).__name__}: {str(error)[:150]}", flush=True)
    us = 1e3 * ms if ms is not None else estimate
    task = Task(
        id=problem.name, suite="plans", source=to_text(problem.graph), graph=problem.graph.model_dump_json()
    )
    yield Entry(
        graph=problem.graph.digest, task=task, target=TARGET, precision=problem.precision, plan=plan,
        clock="measured" if measured else "modelled", digest=code_digest(code), us=us, modelled_us=estimate,
        eager_us=None if eager_ms is None else 1e3 * eager_ms,
        outcome=Outcome.CORRECT if us is not None else Outcome.OUT_OF_RESOURCES, source="library",
    )  # fmt: skip


# -- replaying ------------------------------------------------------------------------------------------------------


def races(
    archive: Archive, clock: str, sampled: Mapping[str, Sequence[Sequence[str]]], least: int
) -> Iterator[Race]:
    """The graphs with at least `least` schedules timed by that clock, the library's schedule first, with estimates of the linear
    model (`ranking.py`) fitted without them."""
    rows = fitted.read(archive)
    order = {
        problem.graph.digest: {p: i for i, p in enumerate(_plans(problem))} for problem in all_problems()
    }
    for graph, task in archive.tasks.items():
        some = [
            entry for entry in archive if (entry.graph, entry.clock, entry.target) == (graph, clock, TARGET)
        ]
        if sum(entry.us is not None for entry in some) < least:
            continue
        weights, places = fitted.without(rows, task.id), order.get(graph, {})
        guess = fitted.guesser(weights, Graph.model_validate_json(task.graph), TARGET)
        some.sort(key=lambda entry: (places.get(entry.plan, math.inf), entry.plan))
        schedules = [parse_plan(entry.plan)[1] for entry in some]
        yield Race(
            name=task.id,
            plans=[entry.plan for entry in some],
            schedules=[one.model_dump() for one in schedules],
            us=[entry.us for entry in some],
            modelled=list(map(guess, schedules)),
            sampled=sampled.get(task.id, ()),
        )


def ask(archive: Archive, policy: str, out: Path, seeds: int) -> None:
    """Sample the plans of a policy for every graph, a row per seed."""
    asked = load_policy(policy)
    races = list(archive.races().values())
    prompts = [
        render("frontend", archive.tasks[race[0].graph], style="compact", max_tokens=96, answer="plan", precision=race[0].precision)
        for race in races
    ]  # fmt: skip
    with out.open("w") as lines:
        for seed in range(seeds):
            said = asked.generate(prompts, n=BUDGETS[-1], seed=seed)
            for race, completions in zip(races, said, strict=True):
                plans = [parse(one.text).plan for one in completions]
                row = {"problem": archive.tasks[race[0].graph].id, "plans": plans}
                lines.write(json.dumps(row) + "\n")


def _plans_by_problem(path: Path) -> dict[str, list[list[str]]]:
    """problem -> rows of plans, under the graph's own label: the operator names in a policy's plan do not affect the kernel."""
    labels = {problem.name: label_of(problem.graph) for problem in all_problems()}
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
    parser.add_argument("what", choices=("record", "ask", "replay"))
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=Path, help="rows of schedules.py, from a GPU")
    parser.add_argument("--tasks", type=Path, help="what the rows are of, where it is not the problems here")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--only", default="", help="a part of problems' names")
    parser.add_argument("--clock", choices=("measured", "modelled"), default="measured")
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--least", type=int, default=8, help="schedules of a graph, at least")
    parser.add_argument("--plans", type=Path, help="what a policy sampled")
    parser.add_argument("--policy", default="default", help="whom to ask for plans")
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    if args.what == "record":
        record(args.table, args.rows, args.seconds, args.only, args.tasks)
        return
    if args.what == "ask":
        ask(load(args.table), args.policy, args.plans, args.seeds)
        return
    sampled = _plans_by_problem(args.plans) if args.plans else {}
    chosen = list(races(load(args.table), args.clock, sampled, args.least))
    if args.plans:
        chosen = [race for race in chosen if race.sampled]
    found = replay(chosen, args.seeds)
    schedules = sum(len(race.us) for race in chosen)
    print(f"{len(chosen)} graphs, {schedules} schedules, {args.clock} on {TARGET}, {args.seeds} seeds\n")
    print(table(found))
    if args.plot:
        plot(found, args.clock, args.plot)


if __name__ == "__main__":
    main()
