"""What is searched for: the graph of a live module or of a task; and how to write the result as a file.

    case = of_captured(captured, check)          judged in function form, at small sizes that its graph allows
    case = of_task(task)                         a task in the KernelBench form is judged as such, with its own shape sets
    case.search(judge, rungs, cache, settings)   a Found; case.text(found.answer) is the file
    case.posed(text)                             the task and candidate code, to judge such a file again

If sizes cannot be derived from a task (constants that no formula gives, no smaller sizes that run), or if its small sizes are
those of a network whose widths are no constants of the file, it is captured at its full size like a live module, if it fits into
memory. Its reference is executed here: tasks are trusted.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.utils.flop_counter import FlopCounterMode

from kernelwright.errors import UserError
from kernelwright.graph import Graph
from kernelwright.graph.agree import agree
from kernelwright.graph.capture import Captured, capture
from kernelwright.graph.partition import alone
from kernelwright.graph.shrink import PRODUCTS, Ties, counted_to, cut_into, scaled_by
from kernelwright.graph.stitch import candidate, state_of, stitch
from kernelwright.parsing import names_within
from kernelwright.policy.compiler.reasons import CannotCompile
from kernelwright.policy.compiler.task import cast_to, forward_only, module, read
from kernelwright.precision import precision_of
from kernelwright.records import Task
from kernelwright.rollouts import Verifier
from kernelwright.search.cache import Answer, KernelCache, Rung
from kernelwright.search.ladder import Form, Sizes, Watch, function_form, graph_form
from kernelwright.search.rung import AnyRung, CannotWrite, check_parameters, entry_of, has_run
from kernelwright.search.rungs import CompilerRung, Contractions
from kernelwright.search.whole import Found, Settings, pin_symbols, search_whole, shrunk
from kernelwright.shapes import apply_shape
from kernelwright.tasks.reference import Reference, on_meta

_LARGEST = 2 << 30
"""Most bytes of weights and inputs of a task that is captured at full size on a machine without a GPU."""
_DEAR = 16 * PRODUCTS
"""Multiplications at a task's small sizes beyond which its graph is made small in every free size instead: a judge runs the reference
some two hundred times."""


@dataclass(frozen=True)
class Case:
    """What one search is for."""

    name: str
    graph: Graph
    values: Mapping[str, Any] | None = None
    """Example values by argument."""
    shapes: Sizes = field(default_factory=dict)
    """Small values of the graph's symbols."""
    form: Form | None = None
    """How to present the whole to the judge; None: in function form."""
    check: Callable[[], object] = lambda: None
    """Raises UserError if the graph disagrees with what it was captured from."""

    def search(
        self,
        judge: Callable[[], AbstractContextManager[Verifier]],
        rungs: Callable[[], Sequence[AnyRung]],
        cache: KernelCache,
        settings: Settings,
        *,
        user: str = "",
        began: float | None = None,
        watch: Watch = lambda tried: None,
    ) -> Found:
        """Search for kernels within the budget; see `search_whole`."""

        def started() -> Sequence[AnyRung]:
            made = rungs()
            for rung in made:
                if isinstance(rung, CompilerRung):
                    rung.start()
            return made

        return search_whole(
            self.graph, self.values, judge, started, cache, settings,
            shapes=self.shapes, form=self.form, user=user, began=began, watch=watch, check=self.check,
        )  # fmt: skip

    def text(self, answer: Answer) -> str:
        """The answer as a file, with a `ModelNew` that has the module's state_dict if the graph needs no other tensors."""
        if self.form:
            return self.form.text(answer.code, answer.rung)
        if entry_of(answer.code) == "module":
            return answer.code
        return answer.code.rstrip() + "\n\n\n" + self._module

    @property
    def _module(self) -> str:
        """The `ModelNew` around `run`."""
        try:
            state = stitch(alone(self.graph), {}, state=state_of(self.graph))
        except UserError:  # tensors that no state_dict has
            return candidate("", self.graph, "run").lstrip("\n")
        return state[state.index("STATE = ") :]

    def _stays(self, ties: Ties) -> list[tuple[str, int]]:
        """(argument, dimension) pairs with sizes that the graph has as numbers, but a kernel may compute from shapes."""
        return [*scaled_by(self.graph), *counted_to(self.graph, ties), *cut_into(self.graph, self.values)]

    def posed(self, text: str, precision: str = "default", ties: Ties = ()) -> tuple[Task, str]:
        """(task, candidate code) to judge a file. Not for a task in the KernelBench form.

        A file written by `Case.text` is judged as in the search: `run` at the sizes that it reads, and it may leave operators with
        ATen; its `ModelNew` is not executed, but must be the one that belongs to this module. A `kernel` or `ModelNew` of another
        origin takes the graph's arguments and does all the work, at sizes that `ties` keep equal. Raises CannotWrite for any other file.
        """
        assert self.form is None
        written = has_run(text)
        ties = () if written else ties
        kept = () if written else self._stays(ties)
        graph, shapes = shrunk(self.graph, self.values, ties, kept)
        if written:
            text = _without(text, self._module, self.name)
            names = {one.name: one.hint for one in graph.symbols if one.name not in _names_assigned(text)}
            graph, shapes = pin_symbols(graph, self.values, shapes, names)
        else:
            check_parameters(text, graph)
        policy: Literal["partial", "full"] = "partial" if written else "full"
        free = [one.name for one in self.graph.symbols]
        form = function_form(graph, self.values, shapes, policy, precision, free=free)
        return form.task, form.text(text, "user")


def _without(text: str, module: str, name: str) -> str:
    """A file without the `ModelNew` after its `run`. Raises CannotWrite if that differs from `module`."""
    found, wanted = ast.parse(text).body, ast.parse(module).body
    last = found[-len(wanted) :]
    if [ast.dump(one) for one in last] != [ast.dump(one) for one in wanted]:
        raise CannotWrite(
            f"its ModelNew is not the one that optimize writes around run(...) for {name}; optimize again, or define kernel(...)"
        )
    return "\n".join(text.split("\n")[: last[0].lineno - 1])


def _names_assigned(code: str) -> set[str]:
    """Names that `run` assigns."""
    run = next(one for one in ast.parse(code).body if isinstance(one, ast.FunctionDef) and one.name == "run")
    return {*names_within(run, ast.Store)}


def of_captured(captured: Captured, check: Callable[[], object]) -> Case:
    """The case of a captured live module. Raises UserError if it was captured as several graphs."""
    return Case(captured.graph.name, captured.graph, captured.part.arguments, check=check)


def of_task(task: Task, contractions: Contractions = "own", *, large: bool = False) -> Case:
    """The case of a task. `large`: capture at any size, since there is a GPU. Raises UserError, in one line."""
    if contractions == "auto":
        task = task.model_copy(update={"policy": "partial", "min_share": 0.0})
    if task.graph:
        graph = Graph.model_validate_json(task.graph)
        shapes = {
            name: {key.lower(): size for key, size in one.items()} for name, one in task.small_sets.items()
        }

        return Case(task.id, graph, shapes=shapes, form=graph_form(task, graph))
    why = "it has no smaller sizes that run"
    if task.small_sets:
        if _multiplications(task) > _DEAR:
            with contextlib.suppress(UserError):
                case = _at_full_size(task, why, large)
                if shrunk(case.graph, case.values)[1]:
                    return case
        try:
            return _of_module(task)
        except CannotCompile as error:
            why = str(error)
    return _at_full_size(task, why, large)


def _of_module(task: Task) -> Case:
    """The case of a task in the KernelBench form, whose sizes are module constants. Raises CannotCompile."""
    whole = read(task)
    small = dict(zip(task.small_sets, whole.sizes[1:], strict=True))

    def text(code: str, rung: Rung) -> str:
        entry = entry_of(code)
        return code if entry == "module" else module(whole, code, entry)

    return Case(task.id, whole.graph, shapes=small if whole.graph.symbols else {}, form=Form(task, text))


def _at_full_size(task: Task, why: str, large: bool) -> Case:
    """The case of a task captured at its full size. Raises UserError if that fails, citing `why` smaller sizes were impossible."""
    if not large and (size := _bytes(task)) > _LARGEST:
        raise UserError(
            f"{task.id}: {why}, and its full size takes {size / 2**30:.0f} GiB; give it smaller sizes in a task.toml"
        )
    try:
        with torch.no_grad():
            reference = Reference(task.source)
            model, inputs = cast_to(precision_of(task).cast, reference.module(), reference.inputs())
    except Exception as error:  # a reference may raise anything
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"task {task.id} raises {type(error).__name__}: {reason}; fix the task") from None
    try:
        captured = capture(model, inputs, breaks=False)
        graph = forward_only(captured.graph)
    except (UserError, CannotCompile) as error:
        raise UserError(f"task {task.id} cannot be captured: {error}") from None
    return Case(task.id, graph, captured.part.arguments, check=lambda: agree(captured.part))


def _multiplications(task: Task) -> int:
    """Multiplications of products and convolutions at the first of a task's small sizes; 0 if the reference needs data."""
    over = next(iter(task.small_sets.values()))
    with contextlib.suppress(Exception), FlopCounterMode(display=False) as counted:
        with on_meta(apply_shape(task.source, over)) as (model, inputs):
            model(*inputs)
        return counted.get_total_flops() // 2
    return 0


def _bytes(task: Task) -> int:
    """Bytes of weights, buffers and inputs at full size; 0 if the task cannot be built on the meta device."""
    try:
        with on_meta(task.source) as (model, inputs):
            tensors = [
                *model.parameters(),
                *model.buffers(),
                *(one for one in inputs if hasattr(one, "numel")),
            ]
            return sum(one.numel() * one.element_size() for one in tensors)
    except Exception:  # some references fail on the meta device; real capture reports their error
        return 0
