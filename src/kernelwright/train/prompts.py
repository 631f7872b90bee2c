"""From examples and tasks to the prompts of a stage of reinforcement learning.

The front end is asked about practice tasks, whose kernels nobody has shown (or, without any, about the tasks of the
training examples), the mid-end about kernels that were verified, with their profiles. Examples whose split is not
`train` are never looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright import extensions, prompts
from kernelwright.config import Recipe, Style
from kernelwright.errors import UserError
from kernelwright.records import Agent, Example, Prompt, Rollout, Task, read_jsonl, write_jsonl


@dataclass(frozen=True)
class Ask:
    """One thing to ask a policy about: a task, and for the later agents a verified kernel and its profile."""

    task: Task
    agent: Agent = "frontend"
    kernel: str = ""
    profile: str = ""
    target: str = ""

    def prompt(self, style: Style, max_tokens: int) -> Prompt:
        return prompts.render(
            self.agent,
            self.task,
            style=style,
            kernel=self.kernel,
            profile=self.profile,
            target=self.target,
            max_tokens=max_tokens,
        )


def read_examples(path: Path) -> list[Example]:
    """The training split of a JSONL file of examples. Raises UserError where there is none."""
    return read_splits(path)[0]


def read_splits(path: Path, needed: bool = True) -> tuple[list[Example], list[Example]]:
    """(training split, validation split) of a JSONL file of examples. Raises UserError where nothing is to train on, unless
    they are not `needed`."""
    if not path.exists():
        if not needed:
            return [], []
        raise UserError(
            f"no examples at {path}; make them with kernelwright data make or data synth, or set data.examples"
        )
    splits: dict[str, list[Example]] = {"train": [], "validation": [], "heldout": []}
    for example in read_jsonl(path, Example):
        splits[example.split].append(example)
    if needed and not splits["train"]:
        raise UserError(f'{path} holds no example with split = "train"')
    return splits["train"], splits["validation"]


def refuse_heldout(asks: Iterable[Ask], path: Path) -> None:
    """Raises UserError when an ask is about a task that the examples in `path` hold out, by content."""
    if not path.exists():
        return
    held = {e.task.digest: e.split for e in read_jsonl(path, Example) if e.split != "train"}
    leaked = sorted({ask.task.id for ask in asks if ask.task.digest in held})
    if leaked:
        raise UserError(
            f"{len(leaked)} tasks to train on are held out by {path}, such as {leaked[0]}; remove them from data.tasks"
        )


def read_tasks(path: Path) -> list[Task]:
    """The practice tasks in a JSONL file; none where there is no such file."""
    return list(read_jsonl(path, Task)) if path.exists() else []


def write_source(recipe: Recipe, run: Path) -> None:
    """Write what the function of `data.source` returns where a run's examples and tasks are. Raises UserError for what is
    neither."""
    spec = recipe.data.source
    records = list(extensions.call(extensions.load(spec, "data.source"), spec, "data.source"))
    wrong = next((each for each in records if not isinstance(each, Task | Example)), None)
    if wrong is not None or not records:
        got = "nothing" if wrong is None else f"a {type(wrong).__name__}"
        raise UserError(f"data.source = {spec!r} returned {got}; return kernelwright.records Task or Example")
    (run / "data").mkdir(parents=True, exist_ok=True)
    for name, kind in (("examples", Example), ("tasks", Task)):
        some = [each for each in records if isinstance(each, kind)]
        if some:
            write_jsonl(run / "data" / f"{name}.jsonl", some)


def frontend_asks(tasks: Iterable[Task], families: Sequence[str] = ()) -> list[Ask]:
    """Each task once."""
    different = {task.digest: task for task in tasks}
    return [Ask(task) for task in different.values() if not families or task.family in families]


def midend_asks(
    examples: Sequence[Example],
    tasks: Iterable[Task] = (),
    accepted: Iterable[Rollout] = (),
    families: Sequence[str] = (),
    *,
    target: str = "",
) -> list[Ask]:
    """Kernels that may be made faster: those of `improve` examples, and those that stages before got accepted.

    `tasks` are those that `accepted` may be about besides the examples' own. With a `target` the back end is asked,
    which is told it.
    """
    agent: Agent = "backend" if target else "midend"
    shown: dict[tuple[str, str], Ask] = {}
    for example in examples:
        if example.kind == "improve" and example.kernel:
            shown[example.task.digest, example.kernel] = Ask(
                example.task, agent, example.kernel, example.feedback, target
            )
    known = {task.id: task for task in (*tasks, *(example.task for example in examples))}
    for rollout in accepted:
        task = known.get(rollout.task_id)
        if task is not None and rollout.verdict.correct:
            code = rollout.candidate.code
            shown.setdefault(
                (task.digest, code), Ask(task, agent, code, prompts.profile(rollout.verdict), target)
            )
    return [ask for ask in shown.values() if not families or ask.task.family in families]
