"""Race conditions: programs of one launch that write the same place without synchronisation.

If programs run one after another, most of these still give correct results: a judge must track who accessed what.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from kernelwright.faults.source import Fault, Kernel, Source, callee

_GRID = '''

def _doubled(grid, axis):
    """The grid with twice as many programs along one axis."""

    def of(meta):
        sizes = list(grid(meta) if callable(grid) else grid)
        sizes += [1] * (axis + 1 - len(sizes))
        sizes[axis] *= 2
        return tuple(sizes)

    return of
'''


def race(source: Source) -> Iterator[Fault]:
    """Split an atomic update; or let two programs share a loop and add to one result without atomics."""
    yield from _atomics_apart(source)
    for kernel, launch in source.launches():
        yield from _shared_loop(source, kernel, launch)


def _atomics_apart(source: Source) -> Iterator[Fault]:
    for kernel in source.kernels:
        for call in kernel.calls("atomic_add"):
            if len(call.args) > 1:
                yield source.fault(call, _plain_update(source, call))


def _plain_update(source: Source, call: ast.Call) -> str:
    """Reads a place, adds and writes, where `call` stores or adds there."""
    place, value = (source.text(argument) for argument in call.args[:2])
    mask = next((f", {source.text(word)}" for word in call.keywords if word.arg == "mask"), "")
    return f"tl.store({place}, tl.load({place}{mask}) + {value}{mask})"


def _shared_loop(source: Source, kernel: Kernel, launch: ast.Call) -> Iterator[Fault]:
    used = {source.text(call.args[0]) for call in kernel.calls("program_id") if call.args}
    used |= {source.text(word.value) for call in kernel.calls("program_id") for word in call.keywords}
    axis = next((axis for axis in (1, 2) if str(axis) not in used), None)
    loops = [loop for loop in kernel.node.body if isinstance(loop, ast.For)]
    stores = [call for call in kernel.calls("store") if len(call.args) > 1]
    if axis is None or len(loops) != 1 or not stores or not isinstance(launch.func, ast.Subscript):
        return
    (loop,) = loops
    call = loop.iter
    inside = set(ast.walk(loop))
    moves = [n for n in inside if isinstance(n, ast.AugAssign) and kernel.role(n.value) == "address"]
    if not isinstance(call, ast.Call) or callee(call) != "range" or len(call.args) != 3 or moves:
        return
    if inside.intersection(stores):
        return
    first, last, step = (f"({source.text(argument)})" for argument in call.args)
    shared = f"range({first} + {step} * tl.program_id({axis}), {last}, 2 * {step})"
    edits: list[tuple[ast.AST, str]] = [(store, _plain_update(source, store)) for store in stores]
    grid = launch.func.slice
    edits.append((grid, f"_doubled({source.text(grid)}, {axis})"))
    for node in source.host_nodes(ast.Attribute):
        if node.attr in ("empty", "empty_like", "new_empty"):
            edits.append((node, source.text(node).replace("empty", "zeros")))
    fault = source.fault(call, shared, *edits)
    yield dataclasses.replace(fault, code=fault.code + _GRID)
