"""Prints programs as Triton: a file that defines `def kernel(...)` over the graph's arguments, and its `@triton.jit` functions.

Sizes are read from shapes at run time, so one file works for a family of shapes. Raises `Unsupported` if the schedule's nest
does not fit the graph. Correctness is not guaranteed here: the judge checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernelwright.graph.task import order_of
from kernelwright.graph.types import Graph, Node, Ref, TensorType, Value
from kernelwright.synth.lowering import Lowered
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import Program
from kernelwright.synth.shapes import Shapes
from kernelwright.synth.source import Source
from kernelwright.synth.stages import PRINTERS, Stage, cut, nest_of

_BESIDE = {("transpose", "map"), ("depthwise", "convolution"), ("depthwise", "row")}
"""(schedule's nest, graph's nest) pairs that are allowed although they differ."""
_QUIET = {"view", "permute", "t", "transpose", "expand", "to", "to_copy", "clone", "unsqueeze", "squeeze"}
"""Operators that a label omits."""


@contextmanager
def unsupported() -> Iterator[None]:
    """Turns errors of the library's rules, at sizes and forms that they do not support, into Unsupported."""
    try:
        yield
    except (KeyError, ValueError, IndexError, ArithmeticError) as error:
        raise Unsupported(f"the library has no form for the graph ({type(error).__name__})") from None


def source_of(graph: Graph, called: str = "") -> Source:
    """A graph prepared for printing: lowered, with symbolic shapes and named sizes. Its kernels are named after its operators, or
    `called`. Raises Unsupported."""
    straight, orders = straighten_strides(graph)
    with unsupported():
        lowered = Lowered(straight)
        shapes = Shapes(lowered)
        shapes.name_sums()
        name_sizes(shapes, lowered)
    return Source(lowered, shapes, called or label_of(graph), orders)


def straighten_strides(graph: Graph) -> tuple[Graph, dict[str, list[int]]]:
    """The graph with arguments in memory order, and the order of dimensions of each permuted argument (channels last, heads in the
    middle): read this way, they need no copy."""
    orders = {
        one.name: order
        for one in graph.arguments
        if isinstance(one.type, TensorType) and (order := order_of(one.type, graph.symbols)) is not None
    }
    if not orders:
        return graph, orders
    arguments, nodes, names = [], [], {}
    for one in graph.arguments:
        order = orders.get(one.name)
        if order is None:
            arguments.append(one)
            continue
        assert isinstance(one.type, TensorType)
        plain = one.type.model_copy(
            update={"shape": tuple(one.type.shape[dim] for dim in order), "strides": None}
        )
        arguments.append(one.model_copy(update={"type": plain}))
        back = tuple(order.index(dim) for dim in range(len(order)))
        names[one.name] = Ref(ref=f"{one.name}_turned")
        turned = Value(name=f"{one.name}_turned", type=one.type.model_copy(update={"strides": None}))
        nodes.append(Node(op="aten.permute.default", args=(Ref(ref=one.name), back), outputs=(turned,)))
    for node in graph.nodes:
        args, kwargs = (tuple(_rename(part, names) for part in some) for some in (node.args, node.kwargs))
        nodes.append(node.model_copy(update={"args": args, "kwargs": kwargs}))
    results = tuple(names[one].ref if one in names else one for one in graph.results)
    return graph.model_copy(
        update={"arguments": tuple(arguments), "nodes": tuple(nodes), "results": results}
    ), orders


def _rename(one: Any, names: dict[str, Ref]) -> Any:
    if isinstance(one, Ref):
        return names.get(one.ref, one)
    return tuple(_rename(part, names) for part in one) if isinstance(one, tuple) else one


def print_program(program: Program, called: str = "") -> Source:
    """Print a program into a source. Raises Unsupported."""
    source, schedule = source_of(program.graph, called), program.schedule
    with unsupported():
        stages = stages_of(program.graph)
        for number, stage in enumerate(stages):
            part, own = stage.of(source, number + 1), schedule if stage.main else stage.schedule
            if own.nest != stage.nest and (own.nest, stage.nest) not in _BESIDE:
                raise Unsupported(f"a schedule of a {own.nest} for a {stage.nest}")
            PRINTERS[own.nest](part, own)
            source.take(part)
        if not stages:
            PRINTERS[schedule.nest](source, schedule)
    return source


@functools.lru_cache(maxsize=256)
def stages_of(graph: Graph) -> tuple[Stage, ...]:
    """The kernels of a graph that no single nest computes, in order; empty if one does. Raises Unsupported."""
    return cut(source_of(graph))


def scheduled_part(graph: Graph) -> tuple[Source, str]:
    """The part that a program's schedule is for, and its nest: the graph, or the main of several kernels. Raises Unsupported."""
    source = source_of(graph)
    stages = stages_of(graph)
    if not stages:
        return source, nest_of(source)
    main = next(stage for stage in stages if stage.main)
    return main.of(source, 0), main.nest


def print_triton(program: Program, called: str = "") -> str:
    """The candidate's code; `called`: prefix of its kernels' names, by default their operators' names. Raises Unsupported."""
    return print_program(program, called).text()


def label_of(graph: Graph) -> str:
    """The operators' names in order, joined by `+`, without views and casts."""
    names = []
    for node in graph.nodes:
        name = node.op.split(".")[1].strip("_")
        if name not in _QUIET:
            names.append(name)
    return "+".join(names) or "copy"


def name_sizes(shapes: Shapes, lowered: Lowered) -> None:
    """Name sizes: M, N, K for products, P, Q for a window's outputs of H, W, else letters in order of appearance."""
    wanted: dict[str, str] = {}
    taken = {one.name for one in lowered.arguments}

    def name(symbols: frozenset[str], letter: str) -> None:
        for symbol in sorted(symbols):
            if symbol not in wanted and len(symbols) == 1 and letter not in wanted.values():
                wanted[symbol] = letter

    for prim in lowered.prims:
        if prim.op == "matmul":
            a, out = shapes.of[prim.args[0].name], shapes.of[prim.out.name]
            for size, letter in ((out[-2], "M"), (out[-1], "N"), (a[-1], "K")):
                name(size.symbols, letter)
        if prim.op in ("conv", "window"):
            x, out = shapes.of[prim.args[0].name], shapes.of[prim.out.name]
            letters = {3: ("BCW", "BFQ"), 4: ("BCHW", "BFPQ"), 5: ("BCDHW", "BFOPQ")}.get(len(x), ("", ""))
            for shape, row in zip((x, out), letters, strict=True):
                for size, letter in zip(shape, row, strict=False):
                    name(size.symbols, letter)
    rank = max((len(one.shape) for one in lowered.arguments), default=0)
    order = "BCHWSDELPQRTUV" if rank == 4 else "BSCHWDELPQRTUV"
    used = sorted({symbol for shape in shapes.of.values() for size in shape for symbol in size.symbols},
                  key=list(shapes.symbols).index)  # fmt: skip
    free = iter([*(one for one in order if one not in wanted.values()), *(f"N{i}" for i in range(99))])
    for symbol in used:
        if symbol not in wanted:
            wanted[symbol] = next(letter for letter in free if letter not in taken)
    shapes.rename(wanted)
