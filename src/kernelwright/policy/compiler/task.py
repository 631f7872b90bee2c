"""Reads a task in the KernelBench form as one graph with symbols, and writes the module that calls its kernel.

    whole = read(task)                   builds the reference at several sizes, captures each, unifies the graphs
    whole.graph, whole.sizes             for `lower`
    module(whole, code)                  `kernel` inside a `ModelNew` with the same state

A reference is trusted code and is executed here: call this only where it may run. Raises CannotCompile. The graph may be wrong
at sizes that were not built: the judge runs the task's own shape sets.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.errors import UserError
from kernelwright.graph import Argument, Graph
from kernelwright.graph.family import Formulas, NoFamily, unify
from kernelwright.graph.simplify import live_nodes
from kernelwright.graph.sizes import evaluate, untold
from kernelwright.graph.types import NumberType, TensorType
from kernelwright.policy.compiler.reasons import CannotCompile
from kernelwright.precision import precision_of
from kernelwright.records import Task
from kernelwright.shapes import apply_shape, constants
from kernelwright.tasks.reference import Reference, on_meta

_LONG = 100
"""Nodes beyond which, for the time that a capture takes, each constant is varied once only."""
_LITERAL = 256
"""Most elements of a constant tensor that is written out."""
_REGISTERED = """\
            *path, leaf = name.split(".")
            home = self
            for part in path:
                if part not in home._modules:
                    home.add_module(part, nn.Module())
                home = home._modules[part]
            if learnable:
                home.register_parameter(leaf, nn.Parameter(value, requires_grad=value.is_floating_point()))
            else:
                home.register_buffer(leaf, value)"""
"""Lines of a constructor that register a tensor by its dotted name."""


@dataclass(frozen=True)
class Build:
    """The task at one shape set."""

    sizes: dict[str, int]
    init: tuple[Any, ...]
    graph: Graph
    captured: Any
    state: dict[str, Any]
    """The module's parameters and buffers, by dotted name."""


@dataclass(frozen=True)
class Whole:
    """A task as a graph."""

    graph: Graph
    sizes: tuple[dict[str, int], ...]
    """Values of the symbols at each shape set of the task."""
    state: dict[str, tuple[str, str, tuple[int | str, ...]]]
    """Dotted name -> `parameter` or `buffer`, dtype, and shape as expressions over the constructor's arguments."""
    numbers: dict[str, int | str]
    """Number arguments of the graph, as expressions over the constructor's arguments."""
    signature: tuple[str, ...]
    """Names of the constructor's arguments."""
    constants: dict[str, Any]
    """Tensors by argument that are neither state nor inputs."""
    call: Any
    """Nesting of arguments and results: `graph.capture.Call`; None for a task that was printed from a graph."""
    inputs: tuple[str, ...]
    """Names of forward's arguments, without optional ones that the task does not give."""


def read(task: Task) -> Whole:
    """The task's graph over its varying constants, or the graph that the task was printed from. Raises CannotCompile."""
    if task.graph:
        return _print(task)
    builds, sets = _builds(task)
    names = _symbol_names(builds)
    graph, renamed = _unified(builds, names)
    graph = _with_numbers(graph)
    symbols = {one.name for one in graph.symbols}
    full = {names[key]: value for key, value in sets[0].items()}
    hints = tuple(one.model_copy(update={"hint": full[one.name]}) for one in graph.symbols)
    graph = graph.model_copy(update={"symbols": hints})
    held = [{names[k]: v for k, v in one.items() if names[k] in symbols} for one in sets]
    first = builds[0]
    signature = tuple(inspect.signature(first.captured["model"].__init__).parameters)[: len(first.init)]
    formulas = _constructor(builds, signature)
    _check_full(task, graph, {name: full[name] for name in symbols})
    given = [one.name for one in graph.arguments if isinstance(one.type, NumberType)]
    return Whole(
        graph=graph,
        sizes=tuple(held),
        state=_state(builds, formulas),
        numbers={name: _from_constructor(formulas, name, [one[name] for one in renamed]) for name in given},
        signature=signature,
        constants=_constants(graph, builds),
        call=first.captured["call"],
        inputs=tuple(inspect.signature(first.captured["model"].forward).parameters)[
            : first.captured["given"]
        ],
    )


def _unified(builds: Sequence[Build], names: Mapping[str, str]) -> tuple[Graph, list[dict[str, int]]]:
    """The graph over the constants, called `names`, and their values in each build."""
    sizes = [{names[key]: value for key, value in build.sizes.items()} for build in builds]
    try:
        return unify([build.graph for build in builds], sizes), sizes
    except NoFamily as error:
        raise CannotCompile("size", str(error)[:160]) from None


def _print(task: Task) -> Whole:
    """A task in function form: its arguments are the graph's, and there is no state."""
    graph = Graph.model_validate_json(task.graph)
    names = tuple(one.name for one in graph.arguments)
    upper = {one.name.upper(): one.name for one in graph.symbols}
    sizes = tuple(
        {upper[key]: value for key, value in over.items() if key in upper} for over in task.shapes.values()
    )
    return Whole(graph, sizes, {}, {}, (), {}, None, names)


def _builds(task: Task) -> tuple[list[Build], list[dict[str, int]]]:
    """Captures at and near the small shape sets; and the sizes of each shape set, the full one first."""
    full = _sizes(task, task.shapes.get("full", {}))
    small = [dict(over) for over in task.small_sets.values()] or [{}]
    sets = [full, *(_sizes(task, over) for over in small)]
    found = [_build(task, over) for over in small]
    if not all(_alike(found[0], one) for one in found):
        raise CannotCompile("size", "other operators run at other small sizes")
    _unified(found, _symbol_names(found))  # before further captures, if these already follow no formula
    known = {tuple(one.sizes.values()) for one in found}
    varying = [name for name in full if any(one[name] != full[name] for one in sets)]
    base = small[-1]
    for name in varying:
        wanted = 2 if len(varying) < 4 and len(found[0].graph.nodes) <= _LONG else 1
        alone = [{name: size} for size in _near(sets[-1][name], far=wanted == 1)]
        together = [
            {name: 2 * sets[-1][name], other: 2 * sets[-1][other]} for other in varying if other != name
        ]
        for over in (*alone, *together):
            try:
                sizes = _sizes(task, {**base, **over})
                if tuple(sizes.values()) in known:
                    continue
                known.add(tuple(sizes.values()))
                other = _build(task, {**base, **over})
            except CannotCompile:
                continue
            if _alike(found[0], other):
                found.append(other)
                wanted -= 1
            if not wanted:
                break
    for name in varying:
        if len({one.sizes[name] for one in found}) == 1:
            raise CannotCompile("size", f"{name} cannot be changed")
    return found, sets


def _sizes(task: Task, overrides: Mapping[str, int]) -> dict[str, int]:
    """Every module-level constant at a shape set, including derived ones."""
    return {**constants(apply_shape(task.source, overrides)), **overrides}


def _near(size: int, far: bool) -> tuple[int, ...]:
    """Other values of a constant, tried one at a time: the first that the reference accepts distinguish formulas. `far`: begin with one
    that still differs from the other extents behind several strides."""
    first, second = (2 * size, size + 3) if far else (size + 3, 2 * size)
    return first, second, size + 8, 3 * size, size - 1


def _alike(one: Build, other: Build) -> bool:
    return [node.op for node in one.graph.nodes] == [node.op for node in other.graph.nodes]


def _build(task: Task, overrides: Mapping[str, int]) -> Build:
    from kernelwright.graph.capture import capture

    source = apply_shape(task.source, overrides)
    try:
        with torch.no_grad():
            reference = Reference(source)
            init = tuple(reference.init_inputs())
            model, inputs = cast_to(precision_of(task).cast, reference.module(), reference.inputs())
    except Exception as error:  # a reference may raise anything
        raise CannotCompile("broken task", f"{type(error).__name__}: {error}"[:160]) from None
    try:
        captured = capture(model, inputs, breaks=False)
        graph, part, call = captured.graph, captured.part, captured.part.call
    except UserError as error:
        raise CannotCompile("capture", str(error)[:160]) from None
    state: dict[str, Any] = {
        name: ("parameter", value) for name, value in model.named_parameters(remove_duplicate=False)
    }
    kept = model.state_dict()
    state |= {
        name: ("buffer", value) for name, value in model.named_buffers(remove_duplicate=False) if name in kept
    }
    things = {"model": model, "call": call, "values": part.values, "given": len(inputs)}
    return Build(_sizes(task, overrides), init, forward_only(graph), things, state)


def cast_to(dtype: str, model: Any, inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Module and inputs with floating-point tensors cast to `dtype`; empty: unchanged."""
    if not dtype:
        return model, list(inputs)
    kind = getattr(torch, dtype)
    floats = [isinstance(one, torch.Tensor) and one.is_floating_point() for one in inputs]
    return model.to(kind), [
        one.to(kind) if is_float else one for one, is_float in zip(inputs, floats, strict=True)
    ]


def forward_only(graph: Graph) -> Graph:
    """The graph without its buffers' new values, on which forward's output does not depend, and without what only they need."""
    if any(one.mutated and one.role == "input" for one in graph.arguments):
        raise CannotCompile("in-place input", "forward writes to what it is given")
    mutated = sum(one.mutated for one in graph.arguments)
    results = graph.results[mutated:]
    nodes, read = live_nodes(graph.nodes, results)
    arguments = tuple(
        one.model_copy(update={"mutated": False})
        for one in graph.arguments
        if one.role == "input" or one.name in read
    )
    return graph.model_copy(update={"arguments": arguments, "nodes": tuple(nodes), "results": results})


def _check_full(task: Task, graph: Graph, symbols: Mapping[str, int]) -> None:
    """Raises CannotCompile if the full-size shapes of weights and inputs differ from the formulas."""
    try:
        with on_meta(apply_shape(task.source, task.shapes.get("full", {}))) as (model, inputs):
            state = dict(model.named_parameters()) | dict(model.named_buffers())
    except Exception:  # some references need data: the judge runs them
        return
    given = iter([value for value in inputs if hasattr(value, "shape")])
    for argument in graph.arguments:
        if not isinstance(argument.type, TensorType):
            continue
        value = next(given, None) if argument.role == "input" else state.get(argument.origin)
        wanted = tuple(evaluate(dim, symbols) for dim in argument.type.shape)
        if value is not None and tuple(value.shape) != wanted:
            what = argument.origin or argument.name
            raise CannotCompile("size", f"{what} is {tuple(value.shape)} at full size, not {wanted}")


def _symbol_names(builds: Sequence[Build]) -> dict[str, str]:
    """Maps the task's constants to symbol names that no value has."""
    taken = set(builds[0].graph.types()) | {"min", "max", "kernel"}
    found: dict[str, str] = {}
    for name in builds[0].sizes:
        stem = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_") or "size"
        stem = stem if stem[0].isalpha() else f"size_{stem}"
        new, number = stem, 1
        while new in taken or new in ("is", "in", "if", "as", "or", "and", "not", "del", "for", "def"):
            number += 1
            new = f"{stem}_{number}"
        taken.add(new)
        found[name] = new
    return found


def _with_numbers(graph: Graph) -> Graph:
    """The graph with symbols that appear in no shape as number arguments."""
    more = tuple(Argument(name=name, type=NumberType(of="int")) for name in untold(graph))
    return graph.model_copy(update={"arguments": (*graph.arguments, *more)})


def _constructor(builds: Sequence[Build], signature: Sequence[str]) -> Formulas:
    """Formulas over the constructor's integer arguments."""
    rows: dict[str, list[int]] = {}
    for place, name in enumerate(signature):
        rows |= dict(_integers(name, [build.init[place] for build in builds]))
    return Formulas(rows)


def _from_constructor(formulas: Formulas, what: str, values: Sequence[int]) -> int | str:
    try:
        return formulas.of(values)
    except NoFamily as error:
        raise CannotCompile("size", f"{what}: {error}"[:160]) from None


def _state(builds: Sequence[Build], formulas: Formulas) -> dict[str, tuple[str, str, tuple[int | str, ...]]]:
    names = list(builds[0].state)
    if any(list(build.state) != names for build in builds):
        raise CannotCompile("size", "the module's parameters are others at other sizes")
    found = {}
    for name in names:
        kind, first = builds[0].state[name]
        shapes = [tuple(build.state[name][1].shape) for build in builds]
        dims = tuple(
            _from_constructor(formulas, f"shape of {name}", row) for row in zip(*shapes, strict=True)
        )
        found[name] = (kind, str(first.dtype), dims)
    return found


def _integers(path: str, values: Sequence[Any]) -> list[tuple[str, list[int]]]:
    """Integers in a constructor's argument, by the expression that reads each."""
    if all(type(value) is int for value in values):
        return [(path, list(values))]
    if all(isinstance(value, (tuple, list)) and len(value) == len(values[0]) for value in values):
        rows = [_integers(f"{path}[{at}]", [one[at] for one in values]) for at in range(len(values[0]))]
        return [one for row in rows for one in row]
    return []


def _constants(graph: Graph, builds: Sequence[Build]) -> dict[str, Any]:
    found = {}
    for argument in graph.arguments:
        if argument.role == "input" or argument.origin in builds[0].state:
            continue
        values = [build.captured["values"][argument.name] for build in builds]
        if any(value.shape != values[0].shape or not torch.equal(value, values[0]) for value in values[1:]):
            raise CannotCompile("constant tensor", f"{argument.origin or argument.name} depends on a size")
        if values[0].numel() > _LITERAL:
            raise CannotCompile(
                "constant tensor", f"{argument.origin or argument.name} has more than {_LITERAL} elements"
            )
        found[argument.name] = values[0]
    return found


def module(whole: Whole, code: str, entry: str = "kernel") -> str:
    """The code with a `ModelNew` that holds the reference's state and calls `kernel`, or `run`, which returns a tuple."""
    lines = [
        "class ModelNew(nn.Module):",
        f"    def __init__({', '.join(['self', *whole.signature])}):",
        "        super().__init__()",
    ]
    if whole.state:
        rows = (
            f"            ({name!r}, torch.empty({_shape(dims)}, dtype={dtype}), {kind == 'parameter'}),"
            for name, (kind, dtype, dims) in whole.state.items()
        )
        lines += ["        for name, value, learnable in (", *rows, "        ):", _REGISTERED]
    for name, value in whole.constants.items():
        literal = f"torch.tensor({value.tolist()!r}, dtype={value.dtype})".replace(
            "inf", "float('inf')"
        ).replace("nan", "float('nan')")
        lines.append(f"        self.register_buffer({name!r}, {literal}, persistent=False)")
    lines += [f"        self.{name} = {text}" for name, text in whole.numbers.items()]
    lines += ["", f"    def forward({', '.join(['self', *whole.inputs])}):"]
    given: dict[str, str] = {}
    for place, leaf in enumerate(whole.inputs if whole.call is None else whole.call.leaves):
        if isinstance(leaf, str):
            given[leaf] = whole.inputs[place]
    arguments = []
    for argument in whole.graph.arguments:
        if argument.name in given:
            arguments.append(given[argument.name])
        elif argument.name in whole.constants or argument.name in whole.numbers:
            arguments.append(f"self.{argument.name}")
        else:
            kind = whole.state[argument.origin][0]
            arguments.append(f"self.get_{kind}({argument.origin!r})")
    only = "[0]" if entry == "run" and len(whole.graph.results) == 1 else ""
    lines += [f"        {line}" for line in _returned(whole, f"{entry}({', '.join(arguments)}){only}")]
    if not re.search(r"^import torch\.nn as nn$", code, re.MULTILINE):
        code = re.sub(
            r"^import torch$", "import torch\nimport torch.nn as nn", code, count=1, flags=re.MULTILINE
        )
    return code.rstrip() + "\n\n\n" + "\n".join(lines) + "\n"


def _shape(dims: Sequence[int | str]) -> str:
    return ", ".join(map(str, dims)) if dims else "()"


def _returned(whole: Whole, call: str) -> list[str]:
    """Lines that call `kernel` and return its results in the reference's form."""
    from torch.utils import _pytree as pytree

    if whole.call is None:
        return [f"return {call}"]
    several = len(whole.graph.results) > 1
    flat = [f"found[{at}]" if several else "found" for at in range(len(whole.graph.results))]
    shift = min((at for at in whole.call.results if isinstance(at, int)), default=0)
    leaves = [flat[at - shift] if isinstance(at, int) else repr(at[0]) for at in whole.call.results]
    form = _write(pytree.tree_unflatten(leaves, whole.call.outputs))
    return [f"return {call}"] if form == "found" else [f"found = {call}", f"return {form}"]


def _write(tree: Any) -> str:
    if isinstance(tree, str):
        return tree
    if type(tree) is dict:
        return "{" + ", ".join(f"{key!r}: {_write(value)}" for key, value in tree.items()) + "}"
    if type(tree) is list:
        return f"[{', '.join(map(_write, tree))}]"
    if type(tree) is tuple:
        return f"({', '.join(map(_write, tree))}{',' if len(tree) == 1 else ''})"
    raise CannotCompile("unsupported", f"an output of type {type(tree).__name__}")
