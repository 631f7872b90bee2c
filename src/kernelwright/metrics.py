"""Metrics of a set of rollouts: rates, pass@k, fast_p, speedups with intervals, counts. Pure functions.

Samples without a fair verdict (`unsupported`, `infrastructure_error`) are excluded from every denominator and counted
separately. A failure has no speedup: geometric means are over correct, timed samples, and fast_p counts a failure as not
fast. The noise of a timing is not covered: intervals resample, they do not time again.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelwright.graph.operators import packet
from kernelwright.graph.types import Graph
from kernelwright.outcomes import Category, Outcome
from kernelwright.records import FASTER, Rollout, Task

SPEEDS = (1.0, 1.5, 2.0)
"""Values of p for which `summarise` reports fast_p."""
KS = (1, 2, 4, 5, 8, 10, 16, 32, 64, 100)
"""Values of k for which `summarise` reports pass@k, if there are enough samples."""


def plan_entropy(rollouts: Iterable[Rollout]) -> dict[str, float] | None:
    """Mean surprise in nats of a sampled plan, of one of its decisions (fields after the label, in the grammar of
    `synth/plan.py`), and of a token of the code. None if no sample has log-probs and a plan."""
    nats = decisions = code = tokens = 0.0
    count = 0
    for rollout in rollouts:
        logprobs, candidate = rollout.completion.logprobs, rollout.candidate
        if logprobs is None or candidate.plan_span is None:
            continue
        count += 1
        nats -= sum(logprobs[slice(*candidate.plan_span)])
        decisions += sum(max(1, len(line.split("  ")) - 1) for line in candidate.plan.splitlines())
        if candidate.code_span is not None:
            code -= sum(logprobs[slice(*candidate.code_span)])
            tokens += candidate.code_span[1] - candidate.code_span[0]
    if not count:
        return None
    return {
        "plan": nats / count,
        "decision": nats / max(decisions, 1.0),
        "code_token": code / max(tokens, 1.0),
    }


BASELINES = ("eager", "compile", FASTER)
_RESAMPLES = 2000

Interval = tuple[float, float]
Statistic = Callable[[Sequence[float]], float]


def pass_at_k(n: int, c: int, k: int) -> float:
    """Probability that k of n samples, drawn without replacement, include one of the c correct ones.

    The unbiased estimator 1 - C(n-c, k) / C(n, k) of Chen et al. 2021 (arXiv 2107.03374, eq. 1). Raises ValueError
    unless 0 <= c <= n and 1 <= k <= n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def fast_p(speedups: Sequence[float | None], p: float) -> float:
    """Share of samples that are correct and more than p times as fast (KernelBench, arXiv 2502.10517).

    One entry per judged sample; None if it is wrong or was not timed. Raises ValueError for no samples.
    """
    if not speedups:
        raise ValueError("fast_p of no samples")
    return sum(speedup is not None and speedup > p for speedup in speedups) / len(speedups)


def fast_p_at_k(speedups: Sequence[float | None], p: float, k: int) -> float:
    """Probability that k of one task's samples include one that is correct and more than p times as fast."""
    return pass_at_k(len(speedups), sum(s is not None and s > p for s in speedups), k)


def geometric_mean(values: Sequence[float]) -> float:
    """exp of the mean logarithm. Raises ValueError if there are no values, or one is not positive and finite."""
    if not len(values):
        raise ValueError("geometric mean of no values")
    if not all(0 < value < math.inf for value in values):
        raise ValueError("geometric mean of a value that is not positive and finite")
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean. Raises ValueError for no values."""
    if not len(values):
        raise ValueError("mean of no values")
    return math.fsum(values) / len(values)


def bootstrap_interval(
    values: Sequence[float], statistic: Statistic = mean, *, resamples: int = _RESAMPLES, seed: int = 0
) -> Interval:
    """95 % percentile bootstrap interval of a statistic of independent values (Efron 1979), seeded.

    If a task's samples are not independent, give one value per task. A single value gives an interval of zero width. Raises
    what `statistic` raises for no values.
    """
    data = np.asarray(values, dtype=np.float64)
    point = statistic(values)
    if len(data) < 2:
        return point, point
    rng = np.random.default_rng(seed)
    found = np.concatenate(
        [
            _of_rows(statistic, data[rng.integers(0, len(data), (rows, len(data)))])
            for rows in _chunks(resamples, len(data))
        ]
    )
    return _percentiles(found)


def share_interval(rates: Sequence[float]) -> Interval:
    """95 % interval of a share, from one rate per task: by bootstrap, or exactly binomial (Clopper and Pearson 1934) if all
    or no tasks succeed, since resampling then has zero width."""
    tail = 0.025 ** (1.0 / len(rates))
    if all(rate == 1.0 for rate in rates):
        return tail, 1.0
    if not any(rates):
        return 0.0, 1.0 - tail
    return bootstrap_interval(rates)


def geometric_mean_interval(groups: Sequence[Sequence[float]]) -> Interval:
    """95 % bootstrap interval of the geometric mean over all values, resampling whole groups (tasks), seeded.

    Samples of one task share its difficulty, so resampling them singly would give too narrow an interval. Empty groups are
    skipped; a single group gives zero width. Raises ValueError for no values.
    """
    groups = [group for group in groups if len(group)]
    point = geometric_mean([value for group in groups for value in group])
    if len(groups) < 2:
        return point, point
    logs = np.array([math.fsum(map(math.log, group)) for group in groups])
    counts = np.array([len(group) for group in groups], dtype=np.float64)
    rng = np.random.default_rng(0)
    found = []
    for rows in _chunks(_RESAMPLES, len(groups)):
        drawn = rng.integers(0, len(groups), (rows, len(groups)))
        found.append(np.exp(logs[drawn].sum(axis=1) / counts[drawn].sum(axis=1)))
    return _percentiles(np.concatenate(found))


def summarise(rollouts: Iterable[Rollout], tasks: Iterable[Task] = ()) -> dict[str, Any]:
    """The content of metrics.json: a table of all rollouts, and one per suite, family and level; per further protocol if
    verdicts have those; `operators` if tasks are graphs, and `functions` if tasks are cases of functions.

    Families and difficulties come from `tasks`; a rollout of another task has only a suite (its id up to the last slash) and,
    if the id names one, a level. Figures that cannot be computed are None.
    """
    by_id = {task.id: task for task in tasks}
    everything = list(rollouts)
    tables: dict[str, dict[str, list[Rollout]]] = {"suites": {}, "families": {}, "levels": {}}
    for rollout in everything:
        task = by_id.get(rollout.task_id)
        labels = {
            "suites": task.suite if task else rollout.task_id.rpartition("/")[0],
            "families": task.family if task else "",
            "levels": _level(rollout.task_id, task),
        }
        for kind, label in labels.items():
            if label:
                tables[kind].setdefault(label, []).append(rollout)
    return {
        **_table(everything),
        "nats": plan_entropy(everything),
        **{
            kind: {label: _table(group) for label, group in sorted(groups.items())}
            for kind, groups in tables.items()
        },
        **({"operators": known} if (known := _operators(everything, by_id)) else {}),
        **({"functions": whole} if (whole := _functions(everything, by_id)) else {}),
        **({"protocols": others} if (others := _by_protocol(everything)) else {}),
    }


def _operators(rollouts: Sequence[Rollout], tasks: Mapping[str, Task]) -> dict[str, tuple[int, int]]:
    """(correct, judged) samples by operator of the tasks' graphs."""
    named = {
        task.id: {packet(node.op) for node in Graph.model_validate_json(task.graph).nodes}
        for task in tasks.values()
        if task.graph
    }
    found: dict[str, list[bool]] = {}
    for rollout in rollouts:
        for name in named.get(rollout.task_id, ()) if rollout.verdict.outcome.judged else ():
            found.setdefault(name, []).append(rollout.verdict.correct)
    return {name: (sum(rights), len(rights)) for name, rights in sorted(found.items())}


def _functions(rollouts: Sequence[Rollout], tasks: Mapping[str, Task]) -> dict[str, Any]:
    """For suites in which several tasks are cases of one function (`suite/NAME/1`, `suite/NAME/2`): how many functions are correct
    in all cases. Empty for other suites.

    pass@k is the probability that k samples per case include a correct one for every case: samples of different cases are
    independent, so it is the product over the cases. A function with an unjudged case is excluded from every denominator.
    """
    cases: dict[str, dict[str, list[bool]]] = {}
    for task in tasks.values():
        name, _, case = task.id.removeprefix(f"{task.suite}/").rpartition("/")
        if name and case.isdigit() and task.id.startswith(f"{task.suite}/"):
            cases.setdefault(f"{task.suite}/{name}", {})[task.id] = []
    for rollout in rollouts:
        function = cases.get(rollout.task_id.rpartition("/")[0], {})
        if rollout.task_id in function and rollout.verdict.outcome.judged:
            function[rollout.task_id].append(rollout.verdict.correct)
    judged = [list(function.values()) for function in cases.values() if all(function.values())]
    if not judged:
        return {}
    ks = [k for k in KS if k <= min(len(case) for function in judged for case in function)]
    return {
        "functions": len(judged),
        "cases": sum(map(len, judged)),
        "solved": sum(all(any(case) for case in function) for function in judged),
        "pass_at_k": {
            str(k): mean(
                [math.prod(pass_at_k(len(case), sum(case), k) for case in function) for function in judged]
            )
            for k in ks
        },
    }


def _by_protocol(rollouts: Sequence[Rollout]) -> dict[str, dict[str, Any]]:
    """A table per further protocol, for protocols that every rollout's verdict has."""
    names = {tuple(verdict.protocol for verdict in r.verdict.beside) for r in rollouts}
    if len(names) != 1:
        return {}
    return {
        name: _table([r.model_copy(update={"verdict": r.verdict.beside[place]}) for r in rollouts])
        for place, name in enumerate(names.pop())
    }


def _table(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """One row of figures. Shares are over judged samples, intervals over tasks."""
    judged = [r for r in rollouts if r.verdict.outcome.judged]
    groups: dict[str, list[Rollout]] = {}
    for rollout in judged:
        groups.setdefault(rollout.task_id, []).append(rollout)
    right = [[r.verdict.correct for r in group] for group in groups.values()]
    fast = {name: [[_speedup(r, name) for r in group] for group in groups.values()] for name in BASELINES}
    fewest = min(map(len, right), default=0)
    ks = [k for k in KS if k <= fewest]
    rates = [mean(group) for group in right]
    outcomes = Counter(r.verdict.outcome for r in rollouts)
    categories = Counter(r.verdict.outcome.category for r in rollouts)
    rewards = [r.reward.total for r in judged if r.reward is not None and r.reward.total is not None]
    tokens = [float(len(r.completion.token_ids)) for r in rollouts if r.completion.token_ids is not None]
    return {
        "tasks": len({r.task_id for r in rollouts}),
        "samples": len(rollouts),
        "judged": len(judged),
        "unjudged": {
            outcome.value: outcomes[outcome]
            for outcome in Outcome
            if not outcome.judged and outcomes[outcome]
        },
        "format_rate": _share(r.verdict.outcome.well_formed for r in judged),
        "compile_rate": _share(r.verdict.outcome.compiled for r in judged),
        "correct": sum(r.verdict.correct for r in judged),
        "correct_rate": _share(r.verdict.correct for r in judged),
        "correct_rate_ci": share_interval(rates) if len(rates) > 1 else None,
        "solved": sum(any(group) for group in right),
        "pass_at_k": {str(k): mean([pass_at_k(len(group), sum(group), k) for group in right]) for k in ks},
        "fast_p": {
            f"{p:g}": fast_p([s for group in fast["eager"] for s in group], p) if judged else None
            for p in SPEEDS
        },
        "fast_p_at_k": {
            f"{p:g}": {str(k): mean([fast_p_at_k(group, p, k) for group in fast["eager"]]) for k in ks}
            for p in SPEEDS
        },
        "speedup": {name: _speedups(values) for name, values in fast.items()},
        "timing": "+".join(sorted({r.verdict.timing.kind for r in judged if r.verdict.timing is not None}))
        or None,
        "reward": mean(rewards) if rewards else None,
        "outcomes": {outcome.value: outcomes[outcome] for outcome in Outcome if outcomes[outcome]},
        "categories": {category.value: categories[category] for category in Category if categories[category]},
        "tokens": mean(tokens) if tokens else None,
        "clipped": _share(r.completion.finish_reason == "length" for r in rollouts),
        "seconds": {
            key: mean([r.seconds[key] for r in rollouts if key in r.seconds])
            for key in sorted({key for r in rollouts for key in r.seconds})
        },
    }


def _speedups(groups: Iterable[Sequence[float | None]]) -> dict[str, Any]:
    """Geometric mean over correct, timed samples with its 95 % interval; one group per task."""
    known = [[s for s in group if s is not None] for group in groups]
    flat = [s for group in known for s in group]
    return {
        "geometric_mean": geometric_mean(flat) if flat else None,
        "ci": geometric_mean_interval(known) if sum(map(bool, known)) > 1 else None,
        "best": max(flat, default=None),
        "samples": len(flat),
    }


def _speedup(rollout: Rollout, baseline: str) -> float | None:
    """Baseline over candidate time; None for a wrong or untimed sample, or a ratio outside a float's range."""
    timing = rollout.verdict.timing
    if timing is None or baseline not in (*timing.baseline_ms, FASTER):
        return None
    value = timing.speedup(baseline)
    return value if 0 < value < math.inf else None


def _level(task_id: str, task: Task | None) -> str:
    """`kernelbench/level1/...` -> "1"; for other tasks their difficulty, the number of operators."""
    named = re.search(r"(?:^|/)level_?(\d+)(?:/|$)", task_id)
    return named[1] if named else str(task.difficulty) if task else ""


def _share(tests: Iterable[bool]) -> float | None:
    values = list(tests)
    return sum(values) / len(values) if values else None


def _chunks(resamples: int, width: int) -> list[int]:
    """Split `resamples` into parts such that a part's draw, with rows of `width`, stays under 32 MiB."""
    part = max(1, (1 << 22) // width)
    return [min(part, resamples - start) for start in range(0, resamples, part)]


def _percentiles(found: NDArray[np.float64]) -> Interval:
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def _of_rows(statistic: Statistic, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """A statistic of each row, without a Python loop for the two common ones."""
    if statistic is mean:
        return rows.mean(axis=1)
    if statistic is geometric_mean:
        return np.exp(np.log(rows).mean(axis=1))
    return np.array([statistic(row.tolist()) for row in rows])
