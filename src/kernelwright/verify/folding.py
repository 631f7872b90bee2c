"""Detects constants that a constructor computed from weights: right for the drawn weights, stale for a checkpoint's.

A launch's memory or number that changes with the weights was made from them. A constructor may rearrange weights
(transpose, pack, cast, pad), since a user can do that again; then every value is one of the reference's weights. Values
that are not, and that change with the weights, were computed.

Not detected: computed results that all happen to be values of the reference's weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch

from kernelwright.verify.sandbox import channel
from kernelwright.verify.trace.tape import Operation, View

if TYPE_CHECKING:
    from kernelwright.verify.traced import Trace

FLOATS = ("float32", "float16", "bfloat16", "float64")


def suspects(trace: Trace, state: Mapping[str, torch.Tensor]) -> list[int]:
    """Indices of the trace's constants that kernels use and whose values are not all among the reference's weights; also -1,
    for the numbers passed to kernels, if there are floating-point weights."""
    touched = used_storages(trace)
    members: dict[str, torch.Tensor] = {}
    found = []
    for number, (storage, _, blob) in enumerate(trace.traced.constants):
        if blob < 0 or storage not in touched:
            continue
        held = trace.blobs[blob].view(torch.uint8).reshape(-1)
        named = touched[storage]
        kinds = (named,) if named in FLOATS else FLOATS  # integers may be weights under another name
        if not any(_among(held, dtype, state, members) for dtype in kinds):
            found.append(number)
    learnt = any(value.is_floating_point() for value in state.values())
    return [*found, -1] if learnt else found


def _among(
    held: torch.Tensor, dtype: str, state: Mapping[str, torch.Tensor], members: dict[str, torch.Tensor]
) -> bool:
    """Whether all values of these bytes, read as that dtype, occur in the weights."""
    kind = channel.DTYPES[dtype]
    if held.numel() % kind.itemsize:
        return False
    if dtype not in members:
        members[dtype] = _values(state, kind)
    return bool(torch.isin(held.clone().view(kind).double(), members[dtype]).all())


def find_folded(trace: Trace, other: Trace, numbers: list[int], state: Mapping[str, torch.Tensor]) -> str:
    """Which of the `suspects` differs in a trace under other weights (tiny weights unchanged), in words; or ""."""
    first, second = trace.traced.constants, other.traced.constants
    for number in numbers:
        if number < 0 or number >= len(second) or first[number][1:] != second[number][1:]:
            continue
        blob = first[number][2]
        if channel.tensor_bytes(trace.blobs[blob]) != channel.tensor_bytes(other.blobs[blob]):
            return "memory that kernels read"
    if -1 in numbers:
        known = _values(state, torch.float32)
        for one, two in zip(numbers_given(trace), numbers_given(other), strict=False):
            value = torch.tensor(one).float().double()
            if one != two and not bool(torch.isin(value, known)):
                return f"the number {one:.6g} that a kernel is given"
    return ""


def used_storages(trace: Trace) -> dict[int, str]:
    """Storage -> dtype, for storages that the steady call uses and those that the first call computed them from."""
    found: dict[int, str] = {}
    for tape in (trace.tape, trace.traced.tapes[0]):
        for step in reversed(tape.operations):
            views = list(_views(step))
            if tape is trace.tape or not {view.storage for view in views}.isdisjoint(found):
                found.update({view.storage: view.dtype for view in views})
    return found


def _views(step: Operation) -> Iterator[View]:
    """The tensors that a step of a tape touches."""
    if step.kind == "launch":
        for _, view in step.fields["launches"][0].views:
            yield view
    elif step.kind == "copy":
        yield from (step.fields["target"], step.fields["source"])


def _values(state: Mapping[str, torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """Every value of the weights, rounded to that dtype, and 0 and 1."""
    held = [
        value.detach().reshape(-1).to(dtype).double() for value in state.values() if value.is_floating_point()
    ]
    return torch.cat([*held, torch.tensor([0.0, 1.0], dtype=torch.float64)]).unique()


def numbers_given(trace: Trace) -> Iterator[float]:
    """Numbers among the arguments of the steady call's launches, in order."""
    for launch in trace.tape.launches():
        for value in launch.arguments.values():
            inner = value.get("constexpr", value)
            if isinstance(inner, dict) and "float" in inner:
                yield _number(str(inner["float"]))
            elif isinstance(inner, dict) and type(inner.get("value")) is int:
                yield _number(str(inner["value"]))


def _number(text: str) -> float:
    """Parse a number that a process wrote; infinity if it is too large."""
    try:
        return float.fromhex(text) if "0x" in text else float(text)
    except OverflowError:
        return math.inf
