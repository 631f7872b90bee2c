"""What a task's sizes depend on: its module-level constants, found by building it at several shape sets.

A task is built without data (fake tensors) at its full sizes, at each of its shape sets and with single constants
changed. Every size that differs between these builds is then written as a formula over the constants that vary, so
that Inductor can be asked once, with symbols. A formula that fits all builds is taken for true; the judge decides.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelwright.data.inductor.reasons import Fallback
from kernelwright.records import Task
from kernelwright.shapes import apply_shape, constants
from kernelwright.tasks.reference import Reference

_MORE = (5, 12, 29)
"""Added to one constant at a time for further builds."""
_ENOUGH = 7
"""Builds beyond which no more are made."""


@dataclass
class Build:
    """A task's module and inputs at one shape set, on fake tensors."""

    sizes: dict[str, int]
    """Every module-level constant."""
    space: dict[str, Any]
    model: Any
    inputs: list[Any]
    variation: bool = False
    """No shape set of the task's: only there to tell formulas apart."""
    table: dict[str, Any] = field(default_factory=dict)
    """Path -> size or scalar: of inputs, state, attributes and globals."""


def builds(task: Task, mode: Any) -> list[Build]:
    """The full build first, then one per shape set, then variations. Raises Fallback when the full one fails."""
    full = dict(task.shapes.get("full", {}))
    first = _build(task, full, mode)
    found = [first]
    sets = [dict(over) for name, over in task.shapes.items() if name != "full"]
    for over in sets:
        try:
            found.append(_build(task, over, mode))
        except Fallback:
            continue
    names = varying(found)
    for name, step in itertools.product(names, _MORE):
        if len(found) >= _ENOUGH + len(sets):
            break
        try:
            other = _build(task, {**full, name: first.sizes[name] + step}, mode)
            if _same_form(first, other):
                other.variation = True
                found.append(other)
        except Fallback:
            continue
    for other in found[1:]:
        if not _same_form(first, other):
            raise Fallback("size", "the number of tensors or dimensions depends on a size")
    return found


def varying(found: Sequence[Build]) -> list[str]:
    """The constants that are not the same in all builds."""
    first = found[0].sizes
    return [name for name in first if any(build.sizes[name] != first[name] for build in found[1:])]


def formula(values: Sequence[int], names: Sequence[str], found: Sequence[Build]) -> str | None:
    """An expression over constants that gives these sizes in all builds (as text), or None."""
    if len(set(values)) == 1:
        return str(values[0])
    rows = {name: [build.sizes[name] for build in found] for name in names}
    return next(
        (text for text, guess in _guesses(rows, values) if guess is not None and list(guess) == list(values)),
        None,
    )


def _guesses(rows: Mapping[str, list[int]], values: Sequence[int]) -> Iterator[tuple[str, list[int] | None]]:
    for name, row in rows.items():
        yield name, row
    for name, row in rows.items():
        factor, rest = divmod(values[0], row[0])
        if not rest and factor > 1:
            yield f"{factor} * {name}", [factor * size for size in row]
        offset = values[0] - row[0]
        sign = "+" if offset > 0 else "-"
        yield f"{name} {sign} {abs(offset)}", [size + offset for size in row]
        if values[0]:
            divisor = round(row[0] / values[0])
            if divisor > 1:
                yield f"{name} // {divisor}", [size // divisor for size in row]
    for (left, a), (right, b) in itertools.combinations(rows.items(), 2):
        yield f"{left} * {right}", [x * y for x, y in zip(a, b, strict=True)]
        yield f"{left} + {right}", [x + y for x, y in zip(a, b, strict=True)]
        for (top, c), (low, d) in (((left, a), (right, b)), ((right, b), (left, a))):
            if all(d):
                yield f"{top} // {low}", [x // y for x, y in zip(c, d, strict=True)]


def _build(task: Task, overrides: Mapping[str, int], mode: Any) -> Build:
    import torch

    source = apply_shape(task.source, overrides)
    try:
        with mode, torch.no_grad():
            reference = Reference(source)
            model, inputs = reference.module(), reference.inputs()
    except Exception as error:
        raise Fallback("broken task", f"{type(error).__name__}: {error}"[:160]) from None
    for value in inputs:
        if not isinstance(value, torch.Tensor):
            raise Fallback("non-tensor input", type(value).__name__)
    build = Build({**constants(source)}, reference.namespace, model, inputs)
    build.table = dict(_table(build))
    return build


def _table(build: Build) -> Iterator[tuple[str, Any]]:
    """Paths and sizes in a fixed order."""
    import torch

    for number, tensor in enumerate(build.inputs):
        yield f"input.{number}", tuple(tensor.shape)
    for name, tensor in state(build.model).items():
        yield f"state.{name}", tuple(tensor.shape)
    for path, module in build.model.named_modules():
        for name, value in vars(module).items():
            if _is_size(value) or (isinstance(value, float) and not name.startswith("_")):
                yield f"attribute.{path}.{name}", value
    for name, value in build.space.items():
        if _is_size(value) and not isinstance(value, torch.Size):
            yield f"global.{name}", value


def state(model: Any) -> dict[str, Any]:
    """Parameters, buffers and tensors kept as plain attributes, by dotted name, each tensor once."""
    import torch

    found = dict(model.named_parameters()) | dict(model.named_buffers())
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                found[f"{path}.{name}".lstrip(".")] = value
    return found


def _is_size(value: Any) -> bool:
    if type(value) is int:
        return True
    return isinstance(value, (tuple, list)) and bool(value) and all(type(item) is int for item in value)


def _same_form(one: Build, other: Build) -> bool:
    """Whether both have the same tensors with as many dimensions."""
    if one.table.keys() != other.table.keys():
        return False
    return all(
        (len(value) == len(other.table[path]) if isinstance(value, (tuple, list)) else True)
        for path, value in one.table.items()
    )
