"""Does reinforcement on plans find faster schedules than the supervised model's own? Recorded times replay; no GPU needed.

    python benchmarks/plan_learning.py OUT TABLE --seeds 3 [frontend.best_of=8 ...]     # TABLE: benchmarks/plan_search.py record

Each seed holds other graphs out. A seed's folder is a run that can be stopped and gone on with. What is said of each graph
after each stage is in OUT/said-STAGE.jsonl, for `plan_search.py replay --plans`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plan_search import load, save

from kernelwright.archive import Archive, Entry
from kernelwright.config import Recipe, load_recipe
from kernelwright.data.tokenizer import train_tokenizer
from kernelwright.graph.structure import structure
from kernelwright.graph.types import Graph
from kernelwright.metrics import geometric_mean, geometric_mean_interval, plan_entropy
from kernelwright.policy import load_policy
from kernelwright.prompts import example_pair, render
from kernelwright.records import Pair, Rollout, write_jsonl
from kernelwright.rollouts import roll
from kernelwright.synth.to_triton import label_of
from kernelwright.train.prompts import judge_of

HELD = 0.3
"""Share of the graphs that a seed holds out."""
SAMPLES = 32


def make(archive: Archive, folder: Path, seed: int, recipe: Recipe) -> None:
    """Examples (every plan that ran, whatever its time) and a tokenizer, where there are none yet."""
    if (folder / "tokenizer").is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    graphs = sorted(archive.tasks)
    held = set(random.Random(seed).sample(graphs, round(HELD * len(graphs))))
    pairs = [pair for race in archive.races().values() for pair in _pairs(archive, race, held)]
    write_jsonl(folder / "examples.jsonl", pairs)
    texts = []
    for pair in pairs:
        prompt, said = example_pair(pair, recipe.data.style, recipe.data.answer)
        texts.append(prompt.messages[0].content + said)
    train_tokenizer(texts, 1024, folder / "tokenizer", share=0.5)


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
    """What a stage's checkpoint says of every graph: time over the table's best, where it was recorded."""
    held = {
        json.loads(line)["digest"] for line in (run / "data/examples.jsonl").open() if '"heldout"' in line
    }
    policy, judge = load_policy(str(run / "stages" / stage / "checkpoint")), judge_of(recipe, _Nobody())
    races = {key[0]: race for key, race in archive.races().items()}
    tasks = [archive.tasks[graph] for graph in races]
    asked = [render("frontend", one, style=recipe.data.style, max_tokens=recipe.eval.max_tokens, answer="plan",
                    precision=race[0].precision) for one, race in zip(tasks, races.values(), strict=True)]  # fmt: skip
    groups = roll(policy, asked, tasks, judge, n=SAMPLES, reward="plans", seed=seed)
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
    """A verifier that is never asked: every verdict is recorded."""

    def submit(self, task: Any, candidate: Any) -> Any:
        raise AssertionError("what is not recorded is not judged")


def _figures(some: Sequence[tuple[Sequence[Entry], Sequence[Rollout]]]) -> dict[str, Any]:
    """`slower`: geometric mean of time over the table's best, of what was recorded; its best of 4, too."""
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
        "slower": geometric_mean(flat), "ci": geometric_mean_interval(ratios), "graphs": ratios,
        "best_of_4": geometric_mean([one for row in best4 for one in row]),
        "recorded": len(flat) / len(everyone), "plans": sum(bool(r.candidate.code) for r in everyone) / len(everyone),
        "nats": plan_entropy(everyone),
    }  # fmt: skip


def main() -> None:
    """See the module."""
    from kernelwright.train import train

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--clock", choices=("measured", "modelled"), default="measured")
    parser.add_argument("--recipe", type=Path, default=Path(__file__).parents[1] / "recipes/plans.toml")
    given = parser.parse_intermixed_args()
    archive = Archive(e for e in load(given.table) if e.clock == given.clock)
    archive.tasks |= load(given.table).tasks
    given.out.mkdir(parents=True, exist_ok=True)
    plain = given.out / "table.jsonl"
    save(archive, plain)
    for said in given.out.glob("said-*.jsonl"):
        said.unlink()
    rows: list[Mapping[str, Any]] = []
    for seed in range(given.seeds):
        fixed = [f"seed={seed}", f'verify.archive="{plain}"', f'verify.recorded="{given.clock}"']
        recipe = load_recipe(given.recipe, [*fixed, *given.overrides])
        run = given.out / f"seed-{seed}"
        make(archive, run / "data", seed, recipe)
        train(recipe, run, resume=(run / "config.json").exists(), quiet=True)
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
    (given.out / "rows.json").write_text(json.dumps(rows, indent=1), "utf-8")
    for part in ("train", "heldout"):
        for stage in recipe.stages:
            graphs = [row for r in rows if r["stage"] == stage for row in r[part]["graphs"]]
            flat = [one for row in graphs for one in row]
            low, high = geometric_mean_interval(graphs)
            print(f"{part} {stage}: {geometric_mean(flat):.3f}x [{low:.3f}, {high:.3f}], {given.seeds} seeds")


if __name__ == "__main__":
    main()
