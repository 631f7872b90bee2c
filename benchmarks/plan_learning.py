"""Does each stage's policy find faster schedules than the previous one, on graphs it never saw? Replays recorded times; no GPU needed.

    python benchmarks/plan_learning.py OUT TABLE --seeds 3 [frontend.best_of=8 ...]     # TABLE: benchmarks/plan_search.py record
    kernelwright data make DRAWN graphs=0 practice=3000 catalogue=0.4 most_operators=5 'precisions=[["bf16",0.6],["default",0.25],["tf32",0.15]]'
    cat DRAWN/parts/practice-*[0-9].jsonl > TASKS
    python benchmarks/plan_learning.py OUT TABLE --drawn TASKS --keep elite             # and on these random graphs

Each seed holds out other graphs of the table. Plans for random graphs are the best of each graph's schedules by the linear model
of `synth/ranking.py`, which is fitted without problems that have the sizes of a held-out one; random graphs with the structure of
a held-out graph are excluded. A seed's folder is a resumable run. OUT/said-STAGE.jsonl has the completions for each graph after
each stage, for `plan_search.py replay --plans`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import ranking as fitted
from plan_search import TARGET, load

from kernelwright.archive import Archive, Entry, code_digest
from kernelwright.config import Recipe, load_recipe
from kernelwright.data.tokenizer import train_tokenizer
from kernelwright.graph.structure import structure
from kernelwright.graph.types import Graph
from kernelwright.metrics import geometric_mean, geometric_mean_interval, plan_entropy
from kernelwright.outcomes import Outcome
from kernelwright.policy import load_policy
from kernelwright.prompts import example_pair, render
from kernelwright.records import Pair, Rollout, Task, read_jsonl, write_jsonl
from kernelwright.rollouts import roll
from kernelwright.synth import library
from kernelwright.synth.library import schedules_of
from kernelwright.synth.plan import print_plan
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import Program
from kernelwright.synth.to_triton import label_of, print_triton
from kernelwright.train.prompts import judge_of

HELD = 0.3
"""Share of the graphs that a seed holds out."""
SAMPLES = 32


@dataclass(frozen=True)
class Lesson:
    """Training data of a seed."""

    drawn: Sequence[Task]
    """Random graphs besides the table's, in function form."""
    keep: str
    """`elite`: the fastest plans of a graph. `alike`: all plans of the table that ran, and as many random ones of a random graph."""
    raced: int
    """Number of random graphs with every schedule in an archive, for reinforcement by the linear model; 0: by the table."""
    most: int = 3
    """Most plans of a random graph."""


def make(archive: Archive, folder: Path, seed: int, recipe: Recipe, lesson: Lesson) -> None:
    """Make examples, a tokenizer and, if random graphs are raced, their archive, unless they exist."""
    if (folder / "tokenizer").is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    graphs = sorted(archive.tasks)
    held = set(random.Random(seed).sample(graphs, round(HELD * len(graphs))))
    pairs = []
    for race in archive.races().values():
        kept = race[: lesson.most] if lesson.keep == "elite" and race[0].graph not in held else race
        pairs += _pairs(archive, kept, held)
    raced = Archive()
    weights = _weights(archive, {archive.tasks[one].id for one in held})
    gone = {pair.structure for pair in pairs if pair.split == "heldout"}
    for task in lesson.drawn:
        graph = Graph.model_validate_json(task.graph)
        if (alike := structure(graph)) in gone:
            continue
        order = _ordered(task, graph, weights)
        pairs += _taught(task, graph, alike, order, lesson, random.Random(f"{seed}/{task.id}"))
        if len(raced.tasks) < lesson.raced:
            raced.add(_race(task, graph, order))
    write_jsonl(folder / "examples.jsonl", pairs)
    if lesson.raced:
        raced.write(folder / "raced.jsonl")
        write_jsonl(folder / "tasks.jsonl", raced.tasks.values())
    texts = []
    for pair in pairs:
        prompt, answer = example_pair(pair, recipe.data.style, recipe.data.answer)
        texts.append(prompt.messages[0].content + answer)
    train_tokenizer(texts, 2048 if lesson.drawn else 1024, folder / "tokenizer", share=0.5)


def _weights(archive: Archive, held: set[str]) -> dict[str, dict[str, float]]:
    """The linear model, fitted without problems that have the sizes of a held-out one."""
    sizes = {fitted.sizes_of(name) for name in held}
    return fitted.fit(
        {name: rows for name, rows in fitted.read(archive).items() if fitted.sizes_of(name) not in sizes}
    )


def _ordered(task: Task, graph: Graph, weights: dict[str, dict[str, float]]) -> list[tuple[float, Any]]:
    """(log2 of the time up to a constant, schedule), fastest first, without the table of best schedules."""
    with mock.patch.object(library, "_table", dict):
        found = schedules_of(graph, "h200", task.precision)
    guess = fitted.guesser(weights, graph)
    return sorted(((guess(one), one) for one in found), key=lambda pair: pair[0])


def _taught(
    task: Task,
    graph: Graph,
    alike: str,
    order: Sequence[tuple[float, Any]],
    lesson: Lesson,
    rng: random.Random,
) -> Iterator[Pair]:
    """Plans of a random graph that can be printed."""
    some = list(order) if lesson.keep == "elite" else rng.sample(order, len(order))
    label, count = label_of(graph), 0
    for _, schedule in some:
        try:
            code = print_triton(Program(graph=graph, schedule=schedule))
        except Unsupported:
            continue
        yield Pair(
            task=_plain(task), digest=graph.digest, structure=alike, label=label, source="random", target="h200",
            precision=_precision(task), plan=print_plan(label, schedule), code=code,
        )  # fmt: skip
        count += 1
        if count == lesson.most:
            return


def _plain(task: Task) -> Task:
    return task.model_copy(update={"precision": "default"})


def _precision(task: Task) -> Any:
    """The precision in the table's terms: bf16 is expressed by the graph's dtypes."""
    return "default" if task.precision == "bf16" else task.precision


def _race(task: Task, graph: Graph, order: Sequence[tuple[float, Any]]) -> Iterator[Entry]:
    """Every schedule of a random graph with its time by the linear model, scaled so that the fastest takes 100 us."""
    label = label_of(graph)
    for log, schedule in order:
        try:
            code = print_triton(Program(graph=graph, schedule=schedule))
        except Unsupported:
            continue
        us = 100.0 * 2 ** (log - order[0][0])
        yield Entry(
            graph=graph.digest, task=_plain(task), target="h200", precision=_precision(task), clock="modelled",
            plan=print_plan(label, schedule), digest=code_digest(code), us=us, eager_us=200.0, outcome=Outcome.CORRECT, source="ranking",
        )  # fmt: skip


def _pairs(archive: Archive, race: Sequence[Entry], held: set[str]) -> list[Pair]:
    task = archive.tasks[race[0].graph]
    graph = Graph.model_validate_json(task.graph)
    found = []
    for entry in race:
        code = archive.code_of(entry)
        if code is not None:
            found.append(Pair(
                task=task, digest=entry.graph, structure=structure(graph), label=label_of(graph), source="archive",
                precision=entry.precision, target=entry.target, plan=entry.plan, code=code, clock=entry.clock,
                us=entry.us, best_us=race[0].us, split="heldout" if entry.graph in held else "train",
            ))  # fmt: skip
    return found


def measure(recipe: Recipe, archive: Archive, run: Path, stage: str, seed: int) -> dict[str, Any]:
    """Results of a stage's checkpoint on every graph: time over the table's best, where recorded."""
    held = {
        json.loads(line)["digest"]
        for line in (run / "data/examples.jsonl").open()
        if '"split":"heldout"' in line
    }
    policy, judge = load_policy(str(run / "stages" / stage / "checkpoint")), judge_of(recipe, _Nobody())
    races = {key[0]: race for key, race in archive.races().items()}
    tasks = [archive.tasks[graph] for graph in races]
    prompts = [render("frontend", one, style=recipe.data.style, max_tokens=recipe.eval.max_tokens, answer="plan",
                    precision=race[0].precision) for one, race in zip(tasks, races.values(), strict=True)]  # fmt: skip
    groups = roll(policy, prompts, tasks, judge, n=SAMPLES, reward="plans", seed=seed)
    with (run.parent / f"said-{stage}.jsonl").open("a") as out:
        for graph, group in zip(races, groups, strict=True):
            if graph in held:
                row = {"problem": group[0].task_id, "plans": [r.candidate.plan for r in group]}
                out.write(json.dumps(row) + "\n")
    found: dict[str, Any] = {}
    for name, wanted in (("train", False), ("heldout", True)):
        some = [(races[g], group) for g, group in zip(races, groups, strict=True) if (g in held) == wanted]
        found[name] = _figures(some)
    return found


class _Nobody:
    """A verifier that must never be asked, since every verdict is recorded."""

    def submit(self, task: Any, candidate: Any) -> Any:
        raise AssertionError("what is not recorded is not judged")


def _figures(some: Sequence[tuple[Sequence[Entry], Sequence[Rollout]]]) -> dict[str, Any]:
    """`slower`: geometric mean of recorded times over the table's best; `best_of_4`: the same for the best of four."""
    ratios, best4 = [], []
    for race, group in some:
        times = [
            r.verdict.timing.candidate_ms * 1e3 / (race[0].us or math.nan) for r in group if r.verdict.timing
        ]
        if times:
            ratios.append(times)
        fours = [group[start : start + 4] for start in range(0, len(group) - 3, 4)]
        best = [min((r.verdict.timing.candidate_ms * 1e3 / (race[0].us or math.nan) for r in four if r.verdict.timing),
                    default=math.nan) for four in fours]  # fmt: skip
        best4.append([one for one in best if one == one])
    flat = [one for row in ratios for one in row]
    everyone = [r for _, group in some for r in group]
    return {
        "slower": geometric_mean(flat) if flat else math.nan,
        "ci": geometric_mean_interval(ratios) if flat else (math.nan, math.nan),
        "graphs": ratios,
        "best_of_4": geometric_mean([one for row in best4 for one in row]) if flat else math.nan,
        "recorded": len(flat) / len(everyone),
        "plans": sum(bool(r.candidate.code) for r in everyone) / len(everyone),
        "nats": plan_entropy(everyone),
    }


def main() -> None:
    """See the module."""
    from kernelwright.train import train

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--drawn", type=Path, help="tasks of random graphs to learn from")
    parser.add_argument("--most", type=int, default=10**9, help="of them")
    parser.add_argument("--raced", type=int, default=0, help="of them, for reinforcement by the linear model")
    parser.add_argument("--keep", choices=("alike", "elite"), default="alike", help="plans to learn from")
    parser.add_argument("--clock", choices=("measured", "modelled"), default="measured")
    parser.add_argument("--recipe", type=Path, default=Path(__file__).parents[1] / "recipes/plans.toml")
    args = parser.parse_intermixed_args()
    recorded = load(args.table)
    archive = Archive(e for e in recorded if (e.clock, e.target) == (args.clock, TARGET))
    timed = {entry.graph for entry in archive}
    archive.tasks |= {graph: task for graph, task in recorded.tasks.items() if graph in timed}
    args.out.mkdir(parents=True, exist_ok=True)
    plain = args.out / "table.jsonl"
    archive.write(plain)
    for old in args.out.glob("said-*.jsonl"):
        old.unlink()
    rows: list[Mapping[str, Any]] = []
    drawn = list(read_jsonl(args.drawn, Task))[: args.most] if args.drawn else []
    lesson = Lesson(drawn, args.keep, args.raced)
    for seed in range(args.first, args.first + args.seeds):
        run = args.out / f"seed-{seed}"
        fixed = [f"seed={seed}", f'verify.archive="{plain}"', f'verify.recorded="{args.clock}"']
        recipe = load_recipe(args.recipe, [*fixed, *args.overrides])
        make(archive, run / "data", seed, recipe, lesson)
        raced = [f'verify.archive="{run / "data/raced.jsonl"}"', 'verify.recorded="modelled"'] * bool(
            args.raced
        )
        taught = load_recipe(args.recipe, [*fixed, *raced, *args.overrides])
        train(taught, run, resume=(run / "config.json").exists(), quiet=True)
        for stage in recipe.stages:
            row = {"seed": seed, "stage": stage, **measure(recipe, archive, run, stage, seed)}
            rows.append(row)
            for part in ("train", "heldout"):
                f = row[part]
                low, high = f["ci"]
                print(
                    f"seed {seed} {stage:9} {part:8} {f['slower']:.3f}x [{low:.3f}, {high:.3f}] of the best's time, best of 4 "
                    f"{f['best_of_4']:.3f}, recorded {f['recorded']:.0%}, plans {f['plans']:.0%}, "
                    f"{f['nats']['decision']:.2f} nats a decision, {f['nats']['plan']:.1f} a plan",
                    flush=True,
                )
    (args.out / "rows.json").write_text(json.dumps(rows, indent=1), "utf-8")
    for part in ("train", "heldout"):
        for stage in recipe.stages:
            graphs = [row for r in rows if r["stage"] == stage for row in r[part]["graphs"]]
            flat = [one for row in graphs for one in row]
            if not flat:
                continue
            low, high = geometric_mean_interval(graphs)
            print(f"{part} {stage}: {geometric_mean(flat):.3f}x [{low:.3f}, {high:.3f}], {args.seeds} seeds")


if __name__ == "__main__":
    main()
