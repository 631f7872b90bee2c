"""Makes one problem of a corpus from its number: a graph as a task, kernels from several schedules, and broken kernels.

    number -> catalogue row, random graph or harvested task -> symbols, small sizes -> schedules -> plans and code

The same settings and number give the same problem on any machine. Kernels are not guaranteed to be correct: `decide.py`
has them judged.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from kernelwright import faults
from kernelwright.data.naming import rename_values
from kernelwright.data.settings import CorpusSettings
from kernelwright.data.variety import add_batch, join_graphs, vary_operators, vary_sizes
from kernelwright.errors import UserError
from kernelwright.graph import sizes, stitch
from kernelwright.graph.draws import Draw, describe
from kernelwright.graph.execute import execute
from kernelwright.graph.operators import kind
from kernelwright.graph.recast import recast
from kernelwright.graph.shrink import with_symbols
from kernelwright.graph.structure import operator_count, structure
from kernelwright.graph.task import drawn_values, to_task
from kernelwright.graph.types import Graph
from kernelwright.records import Candidate, PrecisionName, Task
from kernelwright.synth.catalogue import ROWS
from kernelwright.synth.drawing import Within
from kernelwright.synth.extents import NotDrawn, holds, small_sets, too_large
from kernelwright.synth.library import schedules_of
from kernelwright.synth.plan import print_plan
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import Program
from kernelwright.synth.random_graphs import random_graph
from kernelwright.synth.ranking import likely
from kernelwright.synth.to_triton import label_of, print_triton

DTYPES: dict[PrecisionName, str] = {
    "bf16": "bfloat16", "fp16": "float16", "default": "float32", "ieee": "float32", "tf32": "float32",
}  # fmt: skip
_MOST_ALIKE = 0.9
"""Most of a result's elements that may be equal, as a share."""
_PARTNERS = 200
"""Graphs that are tried as another one's continuation."""
TRIES = 30
"""Most draws for one problem."""


class Skipped(Exception):
    """A number gave no problem; the message is counted."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """One schedule with its plan and code."""

    schedule: Any
    plan: str
    code: str


@dataclasses.dataclass(frozen=True)
class Broken:
    """A kernel with one planted fault, and the index of the answer it was made from."""

    of: int
    kind: str
    code: str


@dataclasses.dataclass(frozen=True)
class Problem:
    """A task, its graph, and the kernels to be judged."""

    task: Task
    graph: Graph
    structure: str
    label: str
    operators: int
    source: Literal["catalogue", "random", "harvest"]
    precision: PrecisionName
    answers: tuple[Answer, ...]
    broken: tuple[Broken, ...]
    judged: bool = True

    def candidate(self, code: str) -> Candidate:
        """The candidate that the judge gets for `code`."""
        return Candidate(code=stitch.candidate(code, self.graph))


def problem(
    settings: CorpusSettings, number: int, tasks: Sequence[Task] = (), practice: bool = False
) -> Problem:
    """The problem with that number; with `practice`, only its task. Raises Skipped."""
    rng = random.Random(f"{settings.seed}/{'practice' if practice else 'pairs'}/{number}")
    names, shares = zip(*settings.precisions, strict=True)
    precision: PrecisionName = rng.choices(names, shares)[0]
    judged = random.Random(f"{settings.seed}/judged/{number}").random() < settings.judged
    reason = ""
    for _ in range(TRIES):
        try:
            task, graph, source = _draw(settings, rng, precision, number, tasks)
            if not task.shapes:  # no size is free, but the judge needs small ones
                raise NotDrawn("no size is free")
            if len(graph.nodes) > settings.most_operators:
                raise NotDrawn("too many operators")
            answers = () if practice else _answers(settings, graph, precision, rng, judged or settings.priced)
        except (NotDrawn, Unsupported, UserError) as error:
            reason = str(error)
            continue
        broken = _broken(settings, answers, precision, rng) if judged else ()
        return Problem(
            task,
            graph,
            structure(graph),
            label_of(graph),
            operator_count(graph),
            source,
            precision,
            answers,
            broken,
            judged,
        )
    raise Skipped(reason.split(";")[0][:80])


def _draw(
    settings: CorpusSettings, rng: random.Random, precision: PrecisionName, number: int, tasks: Sequence[Task]
) -> tuple[Task, Graph, Literal["catalogue", "random", "harvest"]]:
    """Draw a task with its graph. Raises NotDrawn, Unsupported or UserError."""
    if tasks and rng.random() < 0.5:
        return (*_harvest(tasks, settings.varied, precision, rng), "harvest")
    dtype = DTYPES[precision]
    if rng.random() < settings.catalogue:
        row = rng.choice(ROWS)
        drawn = row.drawn(dtype, rng)
        source: Literal["catalogue", "random"] = "catalogue"
        family = row.name
    else:
        form: Any = rng.choice(settings.forms)
        within = Within(settings.operators, settings.ranks, settings.reduced)
        made = random_graph(rng, dtype, form if len(settings.forms) < 11 else None, within)
        drawn, source, family = made, "random", made.form  # type: ignore[assignment]
    graph, kept = drawn.graph, drawn.kept
    if settings.varied and rng.random() < settings.varied:
        graph, kept = vary_sizes(graph, kept, rng)
    plain, names = rename_values(graph, rng, settings.names)
    graph = with_symbols(plain, [(names[name], dim) for name, dim in kept if name in names])
    if too_large(graph):
        raise NotDrawn("too many elements")
    if not graph.symbols:
        raise NotDrawn("no size that varies")
    described: dict[str, Draw] = {
        **describe(graph),
        **{names[name]: draw for name, draw in drawn.draws.items()},
    }
    task = to_task(graph, f"{source}/{settings.seed}-{number:06d}", suite=source, shapes=small_sets(graph, rng),
                   described=described, family=family)  # fmt: skip
    task = task.model_copy(update={"precision": precision})
    if not varies(graph, described, next(iter(task.shapes.values()), {})):
        raise NotDrawn("a result that hardly varies")
    return task, graph, source


def _harvest(
    tasks: Sequence[Task], varied: float, precision: PrecisionName, rng: random.Random
) -> tuple[Task, Graph]:
    """A harvested graph in the drawn precision or, with probability `varied`, a variation of it: continued with another one, for
    several inputs at once, with other operators. Raises NotDrawn."""
    task = rng.choice(tasks)
    graph = _recast(task.graph, DTYPES[precision])
    identity, shapes = f"{task.id}/{precision}", task.shapes
    if varied and rng.random() < varied:
        as_harvested = sizes.static(graph, {})
        changed = _continued(graph, tasks, precision, rng) if rng.random() < 0.6 else as_harvested
        batched = add_batch(changed, rng.randint(2, 16)) if rng.random() < 0.7 else changed
        changed = batched if batched is changed or holds(batched, {}) else changed
        if changed != as_harvested:
            graph = with_symbols(changed)
            if not graph.symbols or too_large(graph):
                raise NotDrawn("no sizes that may vary, or too many elements")
            shapes = small_sets(graph, rng)
        if shapes is task.shapes or rng.random() < 0.5:
            graph = vary_operators(graph, rng)
        identity += f"/{graph.digest}"
    free = {one.name for one in graph.symbols}
    shapes = {
        name: {key.lower(): size for key, size in one.items() if key.lower() in free}
        for name, one in shapes.items()
    }
    made = to_task(graph, identity, suite="harvest", shapes=shapes, family="harvest")
    return made.model_copy(update={"precision": precision}), graph


@functools.lru_cache(maxsize=1 << 14)
def _recast(json: str, dtype: str) -> Graph:
    return recast(Graph.model_validate_json(json), dtype)


def _continued(graph: Graph, tasks: Sequence[Task], precision: PrecisionName, rng: random.Random) -> Graph:
    """The graph continued with another one, without symbols. Raises NotDrawn if none of some fits."""
    for task in rng.sample(tasks, min(_PARTNERS, len(tasks))):
        joined = join_graphs(graph, _recast(task.graph, DTYPES[precision]), rng)
        if joined is not None and sum(kind(node.op) == "contraction" for node in joined.nodes) < 2:
            return joined
    raise NotDrawn("no graph continues this one")


def varies(graph: Graph, described: Mapping[str, Draw], shape: Mapping[str, int]) -> bool:
    """Whether every result varies between elements or between draws; otherwise a kernel that does nothing could pass."""
    symbols = {name.lower(): size for name, size in shape.items()}
    runs = []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for seed in range(4):
            torch.manual_seed(seed)
            runs.append(execute(sizes.static(graph, symbols), drawn_values(graph, described, {}, symbols)))
    for results in zip(*runs, strict=True):
        flat = torch.cat([one.detach().double().flatten() for one in results])
        if not flat.numel():
            return False
        commonest = (flat == flat.median()).double().mean().item()
        if commonest > _MOST_ALIKE or float(flat.std()) <= 1e-3 * float(flat.abs().max()):
            return False
    return True


def _answers(
    settings: CorpusSettings, graph: Graph, precision: PrecisionName, rng: random.Random, told_apart: bool
) -> tuple[Answer, ...]:
    """The library's best schedule first, then others: random ones if `told_apart` (judged or priced), else those that should be
    fast. Kernels are named by their nest: the plan has the operators, so a small model has less to copy. Raises Unsupported if
    none can be printed."""
    found = schedules_of(graph, settings.target, precision)
    if told_apart:
        order = found[:1] + rng.sample(found[1:], len(found) - 1)
    else:
        order = found[:1] + likely(graph, found[1:], rng, settings.target)
    label, made, codes = label_of(graph), [], set()
    for schedule in order[: 3 * settings.schedules]:
        try:
            code = print_triton(Program(graph=graph, schedule=schedule), schedule.nest)
        except Unsupported:
            continue
        if code not in codes:
            codes.add(code)
            made.append(Answer(schedule, print_plan(label, schedule), code))
        if len(made) == settings.schedules:
            break
    if not made:
        raise Unsupported("no schedule can be printed")
    return tuple(made)


def _broken(
    settings: CorpusSettings, answers: Sequence[Answer], precision: PrecisionName, rng: random.Random
) -> tuple[Broken, ...]:
    """Planted faults of random kinds. Those of precision only in float32: in lower precisions PyTorch itself rounds as much."""
    kinds = [*faults.KINDS, *(faults.PRECISION if DTYPES[precision] == "float32" else ())]
    whole, part = divmod(settings.faults, 1)
    count = int(whole) + (rng.random() < part) if answers else 0
    made: list[Broken] = []
    for _ in range(count):
        of = rng.randrange(len(answers))
        planted = [
            one
            for one in faults.sample(answers[of].code, DTYPES[precision], 1, rng, kinds)
            if not one.equivalent
        ]
        if planted:
            fault = rng.choice(planted)
            made.append(Broken(of, fault.kind, fault.code))
    return tuple(made)
