"""Problems: a task in one or more wordings, the kernels that answer it, and mutants of one of them.

Every problem has its own random state, `(seed, teacher, number)`: it can be made again, anywhere, in any order. Its
split hangs on the digest of its operator graph alone; held-out problems have sizes of their own besides. Nothing here
is verified.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Literal

from kernelwright import shapes
from kernelwright.data import graphs, library, mutations, pairs
from kernelwright.data.arrangement import arranged
from kernelwright.data.bulk.config import FUNCTIONS, WEIGHTS, BulkConfig, Teacher
from kernelwright.data.families.spec import Family
from kernelwright.data.families.table import chosen, pair
from kernelwright.data.fingerprint import prints
from kernelwright.data.numbering import numbered, plain
from kernelwright.policy.compiler import Answer
from kernelwright.records import Example, Record, Task
from kernelwright.tasks import lowered

Teach = Callable[[Task], Answer]
_ATTEMPTS = 400
TRACED = (
    *("activation", "norm", "reduction", "scan", "loss", "pooling", "training"),
    *("elementwise", "row_fusion"),
)
"""Families, and categories of them, for which Inductor writes kernels instead of calling a library."""


class Kernel(Record):
    """One honest answer, unverified."""

    teacher: str
    code: str
    marked: str = ""
    """As the teacher wrote it, with the reference's steps marked where it knows them."""

    def worded(self, reference: str) -> str:
        """The kernel arranged after a lowered reference: with its constructor, and its names for steps."""
        return _worded(self.marked or self.code, reference)


@functools.lru_cache(maxsize=64)
def _worded(code: str, reference: str) -> str:
    """A kernel answers each wording several times: by itself, to what is slower and to what is wrong."""
    return arranged(numbered(code, reference), reference)


class Problem(Record):
    """What is put before the judge at once."""

    wordings: tuple[Task, ...]
    """The same task in other words; the first is judged."""
    kernels: tuple[Kernel, ...]
    """The one that should be fastest first."""
    mutants: tuple[str, ...]
    """Of the first kernel, one fault each."""
    graph: str
    split: Literal["train", "validation", "heldout"]


class Skipped(Exception):
    """There is no problem at this place; `str()` is the counted reason."""


def problem(
    config: BulkConfig,
    teacher: Teacher,
    number: int,
    teach: Teach | None = None,
    given: Task | Example | None = None,
) -> Problem:
    """The problem with that number. `teach` is Inductor, for the teachers `inductor` and `tasks`; `given` is that line
    of their file, for `tasks` and `examples`. Raises Skipped."""
    rng = random.Random(f"{config.seed}:{teacher}:{number}")
    if teacher == "practice":
        return _as_read(config, _practice(config, rng, f"{config.seed}:p:{number}", number % 3 == 0))
    if teacher == "families":
        made = _of_family(config, rng, f"{config.seed}:f:{number}")
    elif teacher == "graphs":
        made = _of_graph(config, rng)
    elif teacher == "inductor":
        assert teach is not None
        traced = config.model_copy(update={"names": TRACED, "slower": 0.0})
        place = f"{config.seed}:i:{number}"
        made = taught(_of_graph(traced, rng) if number % 2 else _of_family(traced, rng, place), teach)
    elif teacher == "tasks":
        assert isinstance(given, Task)
        assert teach is not None
        made = _of_task(config, given, teach)
    else:
        assert isinstance(given, Example)
        made = _of_example(config, given)
    return _with_mutants(config, rng, _as_read(config, made))


def _as_read(config: BulkConfig, made: Problem) -> Problem:
    """For a policy that reads lowered references: those kept with the tasks, the kernels arranged after the first."""
    if config.style != "lowered":
        return made
    wordings = tuple(task.model_copy(update={"lowered": lowered(task)}) for task in made.wordings)
    kernels = tuple(
        one.model_copy(update={"code": one.worded(wordings[0].lowered), "marked": one.marked or one.code})
        for one in made.kernels
    )
    return made.model_copy(update={"wordings": wordings, "kernels": kernels})


def _practice(config: BulkConfig, rng: random.Random, seed: str, sampled: bool) -> Problem:
    """A problem of the training split in one wording: one operator, or two and more."""
    single = rng.random() < config.single
    lengths = (1,) if single else config.practice_lengths
    wanted = config.model_copy(update={"lengths": lengths, "wordings": 1, "slower": 0.0})
    for attempt in range(_ATTEMPTS):
        drawn = sampled and not single
        made = _of_graph(wanted, rng) if drawn else _of_family(wanted, rng, f"{seed}:{attempt}")
        if made.split == "train" and (made.wordings[0].difficulty == 1) == single:
            return made
    raise Skipped("no practice task")


def taught(given: Problem, teach: Teach) -> Problem:
    """A problem with Inductor's kernel besides its own. Raises Skipped with Inductor's reason."""
    answer = teach(given.wordings[0])
    if answer.reason:
        raise Skipped(f"inductor: {answer.reason}")
    kernels = (Kernel(teacher="inductor", code=answer.code), *given.kernels)
    return given.model_copy(update={"kernels": kernels, "graph": given.graph or answer.graph})


def _of_task(config: BulkConfig, task: Task, teach: Teach) -> Problem:
    """Somebody else's task, answered by Inductor."""
    made = taught(Problem(wordings=(task,), kernels=(), mutants=(), graph="", split="train"), teach)
    return made.model_copy(update={"split": pairs.split_of(made.graph, 2, config.corpus)})


def _of_example(config: BulkConfig, example: Example) -> Problem:
    """Somebody else's kernel; where it was shown a slower one, that too."""
    graph = example.graph or prints(example.task)[0] or example.task.digest
    codes = [example.code] + ([example.kernel] if example.kind == "improve" else [])
    return Problem(
        wordings=(example.task,),
        kernels=tuple(Kernel(teacher=example.teacher or "given", code=code) for code in codes),
        mutants=(),
        graph=graph,
        split=pairs.split_of(graph, 2, config.corpus),
    )


def _with_mutants(config: BulkConfig, rng: random.Random, made: Problem) -> Problem:
    whole, part = divmod(config.faults, 1.0)
    found: dict[str, None] = {}
    for _ in range(int(whole) + (rng.random() < part) if made.split == "train" else 0):
        try:
            found[mutations.mutate(made.kernels[0].code, rng)] = None
        except ValueError:
            break
    return made.model_copy(update={"mutants": tuple(found)})


@functools.lru_cache(maxsize=8)
def _by_category(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[int, ...], dict[str, list[Family]]]:
    table: dict[str, list[Family]] = {}
    for family in chosen(names):
        table.setdefault(family.category, []).append(family)
    return tuple(table), tuple(WEIGHTS.get(category, 3) for category in table), table


def draw_family(config: BulkConfig, rng: random.Random) -> tuple[Family, int]:
    """A family, by its category and how many functions it stands for, and a number of operators."""
    categories, weights, table = _by_category(config.names)
    alike = table[rng.choices(categories, weights)[0]]
    family = rng.choices(alike, [FUNCTIONS.get(one.name, 1) for one in alike])[0]
    return family, rng.choice([n for n in config.lengths if n in family.levels] or family.levels)


def _of_family(config: BulkConfig, rng: random.Random, seed: str) -> Problem:
    """A problem of a family, at sizes of its split."""
    for attempt in range(_ATTEMPTS):
        family, length = draw_family(config, rng)
        place = f"{seed}:{attempt}"
        made = pair(family, place, f"{place}:kernel", length, spellings=config.wordings, freed=config.freed)
        split = pairs.split_of(made.graph, made.operators, config.corpus)
        sizes = list(shapes.constants(made.task.source).values())
        if pairs.shape_is_heldout(sizes) == (split == "heldout"):
            break
    else:
        raise Skipped("no free sizes")
    kernels = [made]
    if rng.random() < config.slower:
        slower = pair(family, place, f"{place}:slow", length, slow=True, freed=config.freed)
        kernels += [slower] * (slower.code != made.code)
    return Problem(
        wordings=(made.task, *made.others),
        kernels=tuple(Kernel(teacher="families", code=one.code, marked=one.marked) for one in kernels),
        mutants=(),
        graph=made.graph,
        split=split,
    )


def _of_graph(config: BulkConfig, rng: random.Random) -> Problem:
    """A problem on a sampled operator graph."""
    corpus = config.corpus
    graph = graphs.draw_sound(corpus, rng, _ATTEMPTS)
    if graph is None:
        raise Skipped("no sound graph")
    split = pairs.split_of(graph.digest, len(graph.steps), corpus)
    asked = pairs.ask(corpus, rng, graph, split == "heldout")
    best = library.best_variant(graph, asked.width)
    variants = [best]
    if rng.random() < config.slower:
        slower = rng.choice(library.slower_variants(graph, asked.width))
        variants.append(
            library.alike(rng, graph, slower, asked.width, True) if rng.random() < 0.5 else slower
        )
    codes = dict.fromkeys(library.write(graph, asked.reference, variant, marks=True) for variant in variants)
    return Problem(
        wordings=(asked.task,),
        kernels=tuple(Kernel(teacher="library", code=plain(code), marked=code) for code in codes),
        mutants=(),
        graph=graph.digest,
        split=split,
    )
