"""Does the model of `synth/ranking.py` rank the schedules of one graph like measured times? Fit, and rank correlation.

    python benchmarks/ranking.py             # each problem left out of the fit, with all of its sizes: Spearman's correlation, and
                                             # the time of the best of the first four over the best measured
    python benchmarks/ranking.py --fit       # the same, then weights from all rows to src/kernelwright/synth/ranking.json

Rows are those of the recorded table (`plan_search.py`). Features and log times are centred per problem before the ridge
regression, one for each nest.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright.archive import Archive
from kernelwright.graph.types import Graph
from kernelwright.synth import ranking
from kernelwright.synth.facts import extents_of, itemsize_of
from kernelwright.synth.plan import parse_plan
from kernelwright.synth.to_triton import scheduled_part

HERE = Path(__file__).parent
RIDGE = 2.0
TABLE = HERE / "recorded/plan_search.jsonl.gz"
FEWEST = 20
"""Least number of schedules of a problem to report it."""
FAMILY = {"transpose": "map"}

Rows = dict[str, list[tuple[str, ranking.Features, float]]]
"""Problem -> (nest, features, log2 of the time)."""


def read(archive: Archive) -> Rows:
    """The measured rows with their features."""
    sizes = {}
    found: Rows = defaultdict(list)
    for entry in archive:
        if entry.us is None or entry.clock != "measured":
            continue
        name, graph = archive.tasks[entry.graph].id, entry.graph
        if graph not in sizes:
            source, nest = scheduled_part(Graph.model_validate_json(archive.tasks[graph].graph))
            sizes[graph] = extents_of(source, nest), itemsize_of(source)
        _, schedule = parse_plan(entry.plan)
        nest = FAMILY.get(schedule.nest, schedule.nest)
        found[name].append((nest, ranking.features(schedule, *sizes[graph]), float(np.log2(entry.us))))
    return found


def fit(rows: Rows) -> dict[str, dict[str, float]]:
    """Weights by nest."""
    made = {}
    for nest in {nest for some in rows.values() for nest, _, _ in some}:
        names = sorted(
            {name for some in rows.values() for one, found, _ in some if one == nest for name in found}
        )
        left, right, weights = [], [], []
        for some in rows.values():
            own = [(found, log) for one, found, log in some if one == nest]
            if len(own) < 2:
                continue
            x = np.array([[found.get(name, 0.0) for name in names] for found, _ in own])
            y = np.array([log for _, log in own]).clip(max=min(log for _, log in own) + 4)
            left.append(x - x.mean(0))
            right.append(y - y.mean())
            weights.append(np.full(len(own), 1 / np.sqrt(len(own))))
        x, y, w = np.concatenate(left), np.concatenate(right), np.concatenate(weights)
        scale = x.std(0) + 1e-9
        a = (x / scale) * w[:, None]
        solved = np.linalg.solve(a.T @ a + RIDGE * np.mean(w**2) * np.eye(len(names)), a.T @ (y * w)) / scale
        made[nest] = {name: round(float(value), 4) for name, value in zip(names, solved, strict=True)}
    return made


def spearman(left: np.ndarray, right: np.ndarray) -> float:
    """Rank correlation, ties by their mean rank; 0 if one side orders nothing."""
    ranks = [_ranks(one) for one in (left, right)]
    return float(np.corrcoef(*ranks)[0, 1]) if min(one.std() for one in ranks) > 0 else 0.0


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2)[inverse]


def without(rows: Rows, name: str) -> dict[str, dict[str, float]]:
    """Weights fitted without a problem and those of its sizes."""
    return fit({other: many for other, many in rows.items() if sizes_of(other) != sizes_of(name)})


def guess(weights: dict[str, dict[str, float]], nest: str, found: ranking.Features) -> float:
    return sum(weights.get(nest, {}).get(name, 0.0) * value for name, value in found.items())


def guesser(
    weights: dict[str, dict[str, float]], graph: Graph, target: str = "h200"
) -> Callable[[Any], float]:
    """A function that predicts log2 of the time of this graph's schedules, up to a constant."""
    source, nest = scheduled_part(graph)
    sizes, width = extents_of(source, nest), itemsize_of(source)
    return lambda one: guess(
        weights, FAMILY.get(one.nest, one.nest), ranking.features(one, sizes, width, target)
    )


def sizes_of(name: str) -> str:
    """Kind and sizes: problems with the same ones, in another dtype or epilogue, leave the fit together."""
    return "/".join(name.split("/")[:3] if name.startswith("conv") else name.split("/")[:2])


def report(rows: Rows) -> list[float]:
    """Print a line for each problem with enough schedules, fitted without it and problems of its sizes."""
    found = []
    rng = random.Random(0)
    print(f"{'problem':42} schedules  spearman  best of 4  by chance")
    for name, some in rows.items():
        if len(some) < FEWEST:
            continue
        weights = without(rows, name)
        guesses = np.array([guess(weights, nest, one) for nest, one, _ in some])
        logs = np.array([log for _, _, log in some])
        rho = spearman(guesses, logs)
        best = 2 ** (logs[np.argsort(guesses)[:4]].min() - logs.min())
        chance = float(np.median([min(rng.sample(list(logs), 4)) for _ in range(400)]) - logs.min())
        found.append(rho)
        print(f"{name:42} {len(some):9}  {rho:8.2f}  {best:8.2f}x  {2**chance:8.2f}x")
    print(
        f"{len(found)} problems: median {np.median(found):.2f}, quarter {np.quantile(found, 0.25):.2f}, least {min(found):.2f}"
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--fit", action="store_true")
    args = parser.parse_args()
    rows = read(Archive.read([TABLE]))
    report(rows)
    if args.fit:
        place = HERE.parent / "src/kernelwright/synth/ranking.json"
        text = {"command": "python benchmarks/ranking.py --fit", "weights": fit(rows)}
        place.write_text(json.dumps(text, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
