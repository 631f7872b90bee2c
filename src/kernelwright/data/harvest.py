"""Harvests graphs to write kernels for from packages' models, and records the packages' licences.

    models() -> build each -> submodules with arguments of a real call -> capture -> symbols -> groups -> small sizes
             -> one task in function form for each group that has a nest

As in `optimize`, sizes become symbols in the whole submodule before it is cut: a group's sizes are related as they are in the
module, and those that its own arguments do not determine are number arguments.

A function in a user's file names the models: it yields (name, build), and `build()` returns (model, args, kwargs). Each
model is built and run in a forked process with limits, which contain accidents, not attacks. Groups that compute the
same as an earlier one at the same sizes are dropped. Only graphs of a package are kept.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import multiprocessing
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, BinaryIO

import torch

from kernelwright import extensions
from kernelwright.children import run_forked
from kernelwright.data.streams import Progress, Stream, silent
from kernelwright.errors import UserError, one_line
from kernelwright.graph import operators
from kernelwright.graph.capture import capture
from kernelwright.graph.partition import partition
from kernelwright.graph.shrink import with_symbols
from kernelwright.graph.submodules import Called, submodules
from kernelwright.graph.task import to_task
from kernelwright.graph.types import Graph
from kernelwright.records import Record, Task
from kernelwright.synth.extents import NotDrawn, small_sets
from kernelwright.synth.library import program_of
from kernelwright.synth.primitives import Unsupported

SECONDS = 600.0
"""Most seconds per model."""
MEMORY = 16 * 2**30

Build = Callable[[], tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]]


class Origin(Record):
    """Where a submodule comes from, and what its groups became."""

    model: str
    path: str = ""
    """Dotted name in the model; empty for the model itself."""
    package: str = ""
    version: str = ""
    licence: str = ""
    tasks: tuple[Task, ...] = ()
    left: tuple[str, ...] = ()
    """Why groups, or the whole submodule, gave no task."""


def harvest(spec: str, out: Path, progress: Progress = silent, jobs: int = 1) -> Counter[str]:
    """Write the tasks to `out` and their origins next to it; resumes a stopped run. Returns counts by result.

    `spec` is `my_models.py:function`; `jobs` models are harvested at once. Raises UserError if there is no such function, or it
    yields something else.
    """
    tasks, origins = Stream(out, Task), Stream(out.with_name(f"{out.stem}.origins.jsonl"), Origin)
    models = list(_models(spec))
    done = {one.model for one in origins.records()}
    seen = {Graph.model_validate_json(one.graph).digest for one in tasks.records()}
    context = multiprocessing.get_context("spawn")  # threads of this process do not survive a fork
    with tasks, origins, ProcessPoolExecutor(jobs, mp_context=context) as pool:
        pending = [pool.submit(_fork, spec, name) for name in models if name not in done]
        try:
            for number, ended in enumerate(as_completed(pending), 1 + len(models) - len(pending)):
                for one in ended.result():
                    for task in one.tasks:
                        digest = Graph.model_validate_json(task.graph).digest
                        if digest not in seen:
                            tasks.write(task)
                        seen.add(digest)
                    origins.write(one.model_copy(update={"tasks": ()}))
                progress("harvest", number, len(models))
        except BaseException:  # such as Ctrl-C; nothing under way is waited for
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
    counts = Counter(reason for one in origins.records() for reason in one.left)
    counts["tasks"] = len(seen)
    return counts


@functools.cache
def _models(spec: str) -> dict[str, Build]:
    key = "data harvest"
    given = list(extensions.call(extensions.load(spec, key), spec, key))
    wrong = [one for one in given if not (isinstance(one, tuple) and len(one) == 2 and callable(one[1]))]
    if wrong or not given:
        got = f"a {type(wrong[0]).__name__}" if wrong else "nothing"
        raise UserError(f"{spec} yields {got}; yield (name, build), where build() is (model, args, kwargs)")
    return {str(name): build for name, build in given}


def _fork(spec: str, name: str) -> list[Origin]:
    """A model's origins, made in a child with limits."""
    import torch._dynamo  # noqa: F401  # once, before the children: it takes seconds

    build = _models(spec)[name]

    def run(into: BinaryIO) -> None:
        into.write(json.dumps([one.model_dump(mode="json") for one in origins_of(name, build)]).encode())

    ended = run_forked(run, SECONDS, memory=MEMORY)
    if ended.status is None:
        return [Origin(model=name, left=(f"not within {SECONDS:g} s",))]
    try:
        return [Origin.model_validate(one) for one in json.loads(ended.data)]
    except ValueError:
        return [Origin(model=name, left=("the process died",))]


def origins_of(name: str, build: Build) -> list[Origin]:
    """One model's submodules, each with the tasks of its groups."""
    torch.manual_seed(0)
    try:
        model, args, kwargs = build()
        found = submodules(model, args, kwargs, whole=True)
    except Exception as error:  # a package's model may raise anything; then it gives no tasks
        return [Origin(model=name, left=(f"does not run: {one_line(error, 80)}",))]
    return [_origin(name, one) for one in found]


def _origin(name: str, called: Called) -> Origin:
    package, version, licence = _package(type(called.module).__module__.partition(".")[0])
    tasks, refused = [], []
    try:
        graph = with_symbols(capture(called.module, called.args, called.kwargs).graph)
    except UserError as error:
        refused.append(f"not captured: {one_line(error, 80)}")
    else:
        for number, group in enumerate(partition(graph).groups):
            try:
                tasks.append(
                    _task(
                        group.graph,
                        f"{name}/{called.path or 'whole'}/{number}",
                        random.Random(group.graph.digest),
                    )
                )
            except (NotDrawn, Unsupported, UserError) as error:
                refused.append(one_line(error, 80))
    return Origin(
        model=name, path=called.path, package=package, version=version, licence=licence, tasks=tuple(tasks),
        left=tuple(refused),
    )  # fmt: skip


def _package(top: str) -> tuple[str, str, str]:
    """Name, version and licence of the distribution that has a top-level module; without one, only the module's name."""
    for name in importlib.metadata.packages_distributions().get(top, ()):
        facts = importlib.metadata.metadata(name)
        licenses = [*facts.get_all("License-Expression", []), *facts.get_all("License", [])]
        classified = [
            one.rpartition("::")[2].strip() for one in facts.get_all("Classifier", []) if "License ::" in one
        ]
        license = licenses[0].splitlines()[0] if licenses and licenses[0] else ", ".join(classified)
        return name, facts["Version"], license
    return top, "", ""


def _task(graph: Graph, id: str, rng: random.Random) -> Task:
    if not any(operators.kind(node.op) not in ("view", "create") for node in graph.nodes):
        raise NotDrawn("views alone")
    if program_of(graph) is None:
        raise NotDrawn("no nest")
    return to_task(graph, id, suite="harvest", shapes=small_sets(graph, rng), family="harvest")
