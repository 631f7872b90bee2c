"""Makes the prompts of a reinforcement learning stage from examples and tasks.

The front end is asked about practice tasks, whose kernels no example shows (without any: about the tasks of the
training examples). The mid-end is asked about verified kernels, with their profiles. Examples outside the `train`
split are never used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelwright import extensions, prompts
from kernelwright.archive import Archive, Clock, verdicts
from kernelwright.config import Recipe, Style
from kernelwright.errors import UserError
from kernelwright.graph.types import Graph
from kernelwright.precision import in_precision
from kernelwright.records import (
    Agent,
    Example,
    Pair,
    Prompt,
    Rollout,
    Supervised,
    Task,
    read_jsonl,
    read_supervised,
    write_jsonl,
)
from kernelwright.rollouts import Judge, Verifier
from kernelwright.tasks import load_suite


@dataclass(frozen=True)
class Ask:
    """One question for a policy: a task and, for the later agents, a verified kernel and its profile."""

    task: Task
    agent: Agent = "frontend"
    kernel: str = ""
    plan: str = ""
    """The plan of `kernel`, if known."""
    profile: str = ""
    others: tuple[str, ...] = ()
    """Further kernels of the graph with their times, formatted by `prompts.contrast`."""
    precision: str = "default"
    target: str = ""
    best_us: float | None = None
    """Microseconds of the best known kernel."""
    clock: Clock = "modelled"
    """The kind of clock behind `best_us`."""

    def prompt(self, style: Style, max_tokens: int, answer: prompts.Answer = "plan+code") -> Prompt:
        return prompts.render(
            self.agent,
            self.task,
            style=style,
            kernel=self.kernel,
            plan=self.plan,
            profile=self.profile,
            others=self.others,
            precision=self.precision,
            target=self.target,
            max_tokens=max_tokens,
            answer=answer,
        )


def evaluated_on(recipe: Recipe, run: Path) -> list[Task]:
    """The tasks that a recipe is evaluated on: a suite's, or those of held-out examples. Raises UserError if there are none."""
    most = recipe.eval.limit or None
    if recipe.eval.suite != "heldout":
        return [in_precision(task, recipe.verify.precision) for task in load_suite(recipe.eval.suite)[:most]]
    path = recipe.examples_in(run)
    there = read_supervised(path) if path.exists() else ()
    found = {e.task.id: e.task for e in there if e.split == "heldout"}
    if not found:
        raise UserError(f'{path} holds no example with split = "heldout"; set eval.suite to a suite')
    return [in_recipe_precision(task, recipe) for task in list(found.values())[:most]]


def in_recipe_precision(task: Task, recipe: Recipe) -> Task:
    """`task` in the recipe's precision. A corpus task with a precision other than the default keeps it, since the model learned it
    that way."""
    drawn = task.graph and task.precision != "default"
    return task if drawn else in_precision(task, recipe.verify.precision)


def read_splits(path: Path, needed: bool = True) -> tuple[list[Supervised], list[Supervised]]:
    """(training split, validation split) of a JSONL file of examples. If `needed`, raises UserError for an empty training
    split."""
    if not path.exists():
        if not needed:
            return [], []
        raise UserError(f"no examples at {path}; make them with kernelwright data make, or set data.examples")
    splits: dict[str, list[Supervised]] = {"train": [], "validation": [], "heldout": []}
    for example in read_supervised(path):
        splits[example.split].append(example)
    if needed and not splits["train"]:
        raise UserError(f'{path} holds no example with split = "train"')
    return splits["train"], splits["validation"]


def judge_of(recipe: Recipe, verifier: Verifier) -> Judge:
    """The verifier, wrapped to use verdicts stored in the recipe's archive."""
    config = recipe.verify
    if not config.archive:
        return Judge(verifier)
    known = Archive.read([Path(config.archive)])
    return Judge(
        verifier, memory=verdicts(known, config.target, _clock(recipe), missing=bool(config.recorded))
    )


def inform_asks(asks: Sequence[Ask], recipe: Recipe, contrast: int = 0) -> list[Ask]:
    """The asks, keeping only best times from the judge's kind of clock, and profiles if the recipe shows them, and adding what the recipe's archive knows of their
    graphs: the best time and, for the later agents, `contrast` further kernels with their times, the fastest and the slowest
    first (contrastive, as in CUDA-L1, arXiv 2507.14111)."""
    # Modelled times are not comparable with measured ones.
    asks = [
        replace(
            ask,
            best_us=ask.best_us if ask.clock == _clock(recipe) else None,
            profile=ask.profile if recipe.data.profile else "",
        )
        for ask in asks
    ]
    if not recipe.verify.archive:
        return asks
    archive, wanted = Archive.read([Path(recipe.verify.archive)]), (recipe.verify.target, _clock(recipe))
    races = {key[0]: race for key, race in archive.races().items() if (key[1], key[3]) == wanted}

    def inform(ask: Ask) -> Ask:
        race = races.get(Graph.model_validate_json(ask.task.graph).digest) if ask.task.graph else None
        if not race:
            return ask
        assert race[0].us is not None
        others = [entry for entry in race if entry.plan != ask.plan and entry.plan]
        chosen = [*others[: -(-contrast // 2)], *others[-(-contrast // 2) :][::-1][: contrast // 2]]
        shown = (prompts.contrast(one.plan, "", one.us or 0.0, one.clock) for one in chosen)
        return replace(
            ask,
            best_us=min(race[0].us, ask.best_us or math.inf),
            others=tuple(shown) if ask.agent != "frontend" else (),
        )

    return [inform(ask) for ask in asks]


def _clock(recipe: Recipe) -> Clock:
    """The kind of times that the recipe's judge gives."""
    return recipe.verify.recorded or ("measured" if recipe.verify.backend == "cuda" else "modelled")


def refuse_heldout(asks: Iterable[Ask], path: Path) -> None:
    """Raises UserError if an ask's task has the same content as one that the examples in `path` hold out."""
    if not path.exists():
        return
    held = {e.task.digest: e.split for e in read_supervised(path) if e.split != "train"}
    leaked = sorted({ask.task.id for ask in asks if ask.task.digest in held})
    if leaked:
        raise UserError(
            f"{len(leaked)} tasks to train on are held out by {path}, such as {leaked[0]}; remove them from data.tasks"
        )


def read_tasks(path: Path) -> list[Task]:
    """The practice tasks in a JSONL file; empty without such a file."""
    return list(read_jsonl(path, Task)) if path.exists() else []


def write_source(recipe: Recipe, run: Path) -> None:
    """Call the function `data.source` and write the records that it returns as the run's examples and tasks. Raises UserError if
    any is neither."""
    spec = recipe.data.source
    records = list(extensions.call(extensions.load(spec, "data.source"), spec, "data.source"))
    wrong = next((each for each in records if not isinstance(each, Task | Example | Pair)), None)
    if wrong is not None or not records:
        got = "nothing" if wrong is None else f"a {type(wrong).__name__}"
        raise UserError(
            f"data.source = {spec!r} returned {got}; return kernelwright.records Task, Example or Pair"
        )
    (run / "data").mkdir(parents=True, exist_ok=True)
    for name, kind in (("examples", Example | Pair), ("tasks", Task)):
        some = [each for each in records if isinstance(each, kind)]
        if some:
            write_jsonl(run / "data" / f"{name}.jsonl", some)


def frontend_asks(
    tasks: Iterable[Task], families: Sequence[str] = (), examples: Sequence[Supervised] = ()
) -> list[Ask]:
    """Each task once; what is known of its graph comes from the examples."""
    known = _pair_of_each(examples)
    different = {task.digest: task for task in tasks}
    return [
        Ask(task, precision=known[digest].precision, best_us=known[digest].best_us, clock=known[digest].clock)
        if digest in known
        else Ask(task)
        for digest, task in different.items()
        if not families or task.family in families
    ]


def midend_asks(
    examples: Sequence[Supervised],
    tasks: Iterable[Task] = (),
    accepted: Iterable[Rollout] = (),
    families: Sequence[str] = (),
    *,
    target: str = "",
) -> list[Ask]:
    """Kernels that may be made faster: those of `improve` examples, and those accepted in earlier stages.

    `tasks`: further tasks, beyond the examples' own, that `accepted` may be about. With a `target` the asks are for the
    back end, whose prompt names it.
    """
    agent: Agent = "backend" if target else "midend"
    pairs = _pair_of_each(examples)

    def ask(task: Task, kernel: str, plan: str, profile: str) -> Ask:
        found = Ask(task, agent, kernel, plan, profile, target=target)
        pair = pairs.get(task.digest)
        if pair is None:
            return found
        return replace(found, precision=pair.precision, best_us=pair.best_us, clock=pair.clock)

    shown: dict[tuple[str, str], Ask] = {}
    for example in examples:
        if example.kind != "improve":
            continue
        if isinstance(example, Pair):
            assert example.shown is not None
            kernel, plan, profile = example.shown.code, example.shown.plan, example.shown.feedback
        else:
            kernel, plan, profile = example.kernel, "", example.feedback
        if kernel:
            shown[example.task.digest, kernel] = ask(example.task, kernel, plan, profile)
    known = {task.id: task for task in (*tasks, *(example.task for example in examples))}
    for rollout in accepted:
        task = known.get(rollout.task_id)
        if task is not None and rollout.verdict.correct:
            candidate = rollout.candidate
            made = ask(task, candidate.code, candidate.plan, prompts.profile(rollout.verdict))
            shown.setdefault((task.digest, candidate.code), made)
    return [ask for ask in shown.values() if not families or ask.task.family in families]


def _pair_of_each(examples: Iterable[Supervised]) -> dict[str, Pair]:
    """For each task with pairs, by digest, the pair with the best known time."""
    found: dict[str, Pair] = {}
    for example in examples:
        if isinstance(example, Pair):
            old = found.get(example.task.digest)
            if old is None or (example.best_us or math.inf) < (old.best_us or math.inf):
                found[example.task.digest] = example
    return found
