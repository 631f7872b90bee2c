"""Recipes and evaluations end to end, for `train`, `eval` and the demo: workflows connected by files.

    data -> RUN/data    sft, frontend, midend, backend -> RUN/stages    an evaluation after each -> RUN/eval

Finished parts are skipped, so calling again resumes. The time of each part is in RUN/seconds.json.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from kernelwright.config import Recipe
from kernelwright.errors import UserError
from kernelwright.records import Agent, Task
from kernelwright.runs import RunFolder

if TYPE_CHECKING:
    from rich.console import Console

    from kernelwright.rollouts import Verifier


def run(
    recipe: Recipe, out: Path, *, resume: bool, evaluating: bool = True, quiet: bool = False
) -> RunFolder:
    """Data, every stage, and an evaluation after each. Raises UserError before starting for anything that cannot work."""
    check_rewards(recipe)
    from kernelwright.train import processes, train
    from kernelwright.train.model import check_base

    check_base(recipe.model)
    folder = RunFolder(out)
    if processes.first():
        folder.start(recipe, resume=resume)
    from kernelwright.verify import open_pool

    with open_pool(processes.share_of_judge(recipe.verify)) as pool:
        if not recipe.data.examples and processes.first():
            with note_seconds(folder, "data"):
                make_data(recipe, folder, pool, quiet=quiet)
            folder.finish("data")
        while not (recipe.data.examples or folder.done("data")):
            time.sleep(1.0)  # the first process makes them; if it fails, the launcher ends this one
        began = time.perf_counter()

        def after(stage: str, checkpoint: Path) -> None:
            nonlocal began
            if not processes.first():
                return
            if stage not in finished:
                _took(folder, stage, time.perf_counter() - began)
            if evaluating:
                with note_seconds(folder, f"eval/{stage}"):
                    evaluate_stage(recipe, folder, stage, checkpoint, pool, quiet=quiet)
                folder.finish(f"eval/{stage}")
            began = time.perf_counter()

        finished = {stage for stage in recipe.stages if folder.done(stage)}
        train(recipe, out, resume=True, verifier=pool, after_stage=after, quiet=quiet)
    return folder


def check_rewards(recipe: Recipe) -> None:
    """Raises UserError for a stage with an unknown reward."""
    from kernelwright import rewards

    for stage in recipe.stages:
        if stage != "sft":
            rewards.check_preset(recipe.rl(stage).reward)


def run_seeds(
    recipe: Recipe, out: Path, seeds: Sequence[int], *, resume: bool, evaluating: bool = True
) -> dict[str, dict[str, str]]:
    """One run per seed in OUT/seed-N, on the data of the first. Returns the content of OUT/seeds.json: for each evaluated stage,
    the mean of each figure and its standard deviation over seeds."""
    data = recipe.data
    metrics: dict[str, list[dict[str, Any]]] = {}
    for seed in seeds:
        one = recipe.model_copy(update={"seed": seed, "data": data})
        folder = run(one, out / f"seed-{seed}", resume=resume, evaluating=evaluating)
        if not data.examples:
            made = folder.path / "data"
            own = {"examples": "examples.jsonl", "tasks": "tasks.jsonl", "tokenizer": "tokenizer"}
            there = {key: str(made / name) for key, name in own.items() if (made / name).exists()}
            data = data.model_copy(
                update={key: path for key, path in there.items() if not getattr(data, key)}
            )
        for stage in recipe.stages:
            summary = folder.sub("eval", stage).read_json("metrics.json")
            if summary is not None:
                metrics.setdefault(stage, []).append(summary)
    found = {
        stage: {name: _spread([each.get(name) for each in rows]) for name in ("correct_rate", "format_rate")}
        for stage, rows in metrics.items()
    }
    RunFolder(out).write_json("seeds.json", {"seeds": list(seeds), "stages": found})
    return found


def _spread(values: Sequence[float | None]) -> str:
    """`0.512 +- 0.031 (3)`: mean, standard deviation and number of known values."""
    known = [value for value in values if value is not None]
    if not known:
        return "unknown"
    apart = statistics.stdev(known) if len(known) > 1 else 0.0
    return f"{statistics.fmean(known):.3f} +- {apart:.3f} ({len(known)})"


def make_data(recipe: Recipe, folder: RunFolder, verifier: Verifier, *, quiet: bool = False) -> None:
    """Make the corpus of the recipe's [data] table in RUN/data; a complete one is kept."""
    from kernelwright.cli.corpus import Steps
    from kernelwright.data import CorpusSettings, build

    if recipe.data.source:
        from kernelwright.train.prompts import write_source

        write_source(recipe, folder.path)
    elif not (folder.path / "data" / "examples.jsonl").exists():
        settings = CorpusSettings.of(recipe.data, recipe.seed)
        with Steps(quiet) as steps, _pricing(recipe, settings.priced) as pricing:
            build(settings, folder.path / "data", verifier, steps, pricing=pricing)


def _pricing(recipe: Recipe, wanted: bool) -> AbstractContextManager[Verifier | None]:
    """The verifier that prices kernels which the corpus does not judge."""
    from kernelwright.verify import open_pool

    return open_pool(recipe.verify.model_copy(update={"printed": True})) if wanted else nullcontext()


def evaluate_stage(
    recipe: Recipe, folder: RunFolder, stage: str, checkpoint: Path, judge: Verifier, *, quiet: bool = False
) -> None:
    """Evaluate a stage's checkpoint by the recipe's [eval]; a later agent starts from the previous stage's results."""
    if folder.done(f"eval/{stage}"):
        return
    from kernelwright.evaluate import evaluate, rollouts_of
    from kernelwright.policy import load_policy
    from kernelwright.train.prompts import judge_of

    settings = recipe.eval
    agent: Agent = "frontend" if stage == "sft" else stage  # type: ignore[assignment]
    kernels = None
    if agent != "frontend":
        place = list(recipe.stages).index(agent)
        if place == 0:
            return  # there are no kernels to start from
        kernels = rollouts_of(folder.path / "eval" / recipe.stages[place - 1] / "rollouts.jsonl")
    policy = load_policy(str(checkpoint))
    policy.name = f"{recipe.name}/{stage}"
    evaluate(
        policy,
        heldout(recipe, folder),
        folder.path / "eval" / stage,
        verifier=judge_of(recipe, judge),
        samples=settings.samples,
        agent=agent,
        kernels=kernels,
        protocol=recipe.verify.protocol,
        style=recipe.data.style,
        answer=recipe.data.answer if stage == "sft" else recipe.answer(stage),
        profile=recipe.data.profile,
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_tokens=settings.max_tokens,
        target=recipe.verify.target,
        seed=recipe.seed,
        resume=True,
        quiet=quiet,
    )


def heldout(recipe: Recipe, folder: RunFolder) -> list[Task]:
    """The tasks that the recipe is evaluated on."""
    from kernelwright.cli.read import suite

    if recipe.eval.suite != "heldout":
        return suite(recipe.eval.suite, recipe.eval.limit, recipe.verify.precision)
    from kernelwright.train.prompts import evaluated_on

    return evaluated_on(recipe, folder.path)


def evaluate_suite(
    tasks: Sequence[Task],
    spec: str,
    out: Path,
    *,
    agent: str,
    kernels: Path | None,
    judge: dict[str, Any],
    sampling: dict[str, Any],
    resume: bool,
    console: Console,
    search: dict[str, Any] | None = None,
) -> int:
    """`kernelwright eval`: one policy on some tasks, with a table at the end. Returns the exit code.

    `search`: settings if the policy is the ladder, or one of its rungs.
    """
    from kernelwright.cli import show
    from kernelwright.evaluate import evaluate, rollouts_of
    from kernelwright.policy import load_policy
    from kernelwright.search.asks import style_of
    from kernelwright.search.model import agents_of
    from kernelwright.search.suite import POLICIES
    from kernelwright.verify import opened

    _check_sampling(agent, kernels, sampling)
    log = kernels and kernels / "rollouts.jsonl"
    if log is not None and not log.exists():
        raise UserError(f"{log}: no such file; --kernels wants a folder that eval or optimize wrote")
    if spec in POLICIES:
        return _evaluate_rungs(tasks, spec, out, judge, search or {}, resume, console)
    named = agents_of(spec, judge["target"])
    if agent not in named:
        raise UserError(f"policy {spec}: this run trained no {agent}; it has {', '.join(named)}")
    policy = load_policy(named[agent])
    with opened.judge_at(task=None, **judge) as pool:
        summary = evaluate(
            policy,
            tasks,
            out,
            verifier=pool,
            agent=agent,
            kernels=rollouts_of(log) if log else None,
            protocol=judge["protocol"],
            style=style_of(policy),
            target=judge["target"],
            resume=resume,
            **sampling,
        )
    console.print(show.metrics([(agent, summary)]))
    console.print(show.functions(summary) + show.gains([(agent, summary)]), style="dim", end="")
    console.print(f"run {out}: see kernelwright report {out}")
    return 0


def _check_sampling(agent: str, kernels: Path | None, sampling: dict[str, Any]) -> None:
    """Raises UserError for an unknown agent, reward preset or kind of answer, and for an agent without kernels to improve."""
    from kernelwright import rewards
    from kernelwright.prompts import Answer

    if agent not in get_args(Agent):
        raise UserError(f"unknown agent {agent!r}; valid: {', '.join(get_args(Agent))}")
    rewards.check_preset(sampling["reward"])
    if sampling["answer"] not in get_args(Answer):
        raise UserError(f"--answer {sampling['answer']}: valid: {', '.join(get_args(Answer))}")
    if agent != "frontend" and kernels is None:
        raise UserError(f"{agent} improves verified kernels; name whose with --kernels RUN")


def _evaluate_rungs(
    tasks: Sequence[Task],
    policy: str,
    out: Path,
    judge: dict[str, Any],
    search: dict[str, Any],
    resume: bool,
    console: Console,
) -> int:
    """The ladder, or one of its rungs, on some tasks."""
    from kernelwright import api
    from kernelwright.cli import show
    from kernelwright.search.suite import evaluate_rungs
    from kernelwright.verify import opened

    shared = {name: judge[name] for name in ("target", "backend", "protocol", "workers")}
    settings, _, rungs = api.settings_of(rungs=() if policy == "ladder" else (policy,), **shared, **search)
    judge = {**judge, "deadline_s": max(judge["deadline_s"], settings.verdict_s)}
    summary = evaluate_rungs(
        policy,
        tasks,
        out,
        lambda: opened.judge_at(task=None, **judge),
        lambda: rungs,
        settings,
        resume=resume,
    )
    console.print(show.metrics([(policy, summary)]))
    won = ", ".join(f"{name} {count}" for name, count in summary["rungs"].items()) or "nobody"
    console.print(f"kernels by {won}; not asked: {summary['not_asked'] or 'none'}", style="dim")
    console.print(f"run {out}: see kernelwright report {out}")
    return 0


@contextmanager
def note_seconds(folder: RunFolder, part: str) -> Iterator[None]:
    """Add the block's duration to RUN/seconds.json, unless this part was already done."""
    began, again = time.perf_counter(), folder.done(part)
    try:
        yield
    finally:
        if not again:
            _took(folder, part, time.perf_counter() - began)


def _took(folder: RunFolder, part: str, seconds: float) -> None:
    """Add to the time of a part, over all resumes of the run."""
    known = folder.read_json("seconds.json") or {}
    folder.write_json("seconds.json", {**known, part: round(known.get(part, 0.0) + seconds, 2)})
