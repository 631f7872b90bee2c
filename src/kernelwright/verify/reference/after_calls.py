"""The state that earlier calls leave behind, for references that update their own: an observer's maximum, a moving mean, a ring
of past rows, a count of steps.

A call on ordinary inputs in the state that a constructor leaves tells little: a maximum over batches is then that of this
batch. So a reference is called on loud inputs first; and where it counts calls, as if it had been called thousands of times,
beyond the numbers that it names and the lengths of its buffers. Quiet inputs follow.

Not guaranteed: that counts other than whole numbers that grow alike at every call are found.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelwright.verify.reference.checkpoint import State, load
from kernelwright.verify.reference.distributions import scale_inputs
from kernelwright.verify.reference.task_module import drawing, finite, outputs_of
from kernelwright.verify.structures import convert

QUIET = 0.1
"""Factor on the inputs of the calls that are judged."""
_LOUD = 10.0
_CALLS, _MOST_CALLS = 3, 128
"""The most loud calls; the most calls by which a count that wraps is told from one that grows."""
_FAR, _FARTHEST = 5000, 1 << 20
"""Least count of calls long gone by, and the greatest number that a reference names beyond which it lies."""


def after_loud(module: torch.nn.Module, draw: Callable[[int], Any], secret: int) -> State | None:
    """What one to three calls on loud inputs change of a module's state; None if that is nothing, or if the reference is not
    finite then. `draw` gives inputs by seed."""
    called = copy.deepcopy(module)
    for number in range(1 + secret % _CALLS):
        _call(called, scale_inputs(draw(secret + number), _LOUD))
    return _accepted(module, called, draw(secret))


def long_after(
    module: torch.nn.Module, draw: Callable[[int], Any], named: Sequence[float], secret: int
) -> State | None:
    """The same with every count as after thousands of calls, more than any of the numbers `named` by the reference; if counts
    wrap, as after more calls than any tensor is long. None if nothing counts."""
    start, called, inputs = _copies(module), copy.deepcopy(module), draw(secret)
    _call(called, inputs)
    once = _copies(called)
    steps = {name: once[name] - one for name, one in start.items() if _counts(one, once[name])}
    if not steps:
        return None
    lengths = (extent for one in start.values() for extent in one.shape)
    calls = min(max(lengths, default=1) + 2 + secret % 5, _MOST_CALLS)
    for _ in range(calls - 1):
        _call(called, inputs)
    reached = _copies(called)
    if all(torch.equal(reached[name], start[name] + calls * step) for name, step in steps.items()):
        beyond = max((int(abs(one)) for one in named if abs(one) <= _FARTHEST), default=0)
        far = random.Random(secret).randrange(_FAR) + max(_FAR, 2 * beyond)
        later = load(copy.deepcopy(called), {name: start[name] + far * step for name, step in steps.items()})
        next_one = copy.deepcopy(later)
        _call(next_one, inputs)
        after = next_one.state_dict()
        if all(torch.equal(after[name], start[name] + (far + 1) * step) for name, step in steps.items()):
            called = later
    return _accepted(module, called, inputs)


def _accepted(module: torch.nn.Module, called: torch.nn.Module, inputs: object) -> State | None:
    before, after = module.state_dict(), _copies(called)
    changed = {name: one for name, one in after.items() if not torch.equal(one, before[name])}
    if not finite(list(changed.values())) or not finite(outputs_of(called, inputs)):
        return None
    return changed or None


def _call(module: torch.nn.Module, inputs: object) -> None:
    with torch.no_grad(), drawing(inputs):
        module(*convert(inputs, torch.clone))


def _copies(module: torch.nn.Module) -> State:
    return {name: one.detach().clone() for name, one in module.state_dict().items()}


def _counts(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Whether a single number is whole and a call changes it by another whole number."""
    if before.numel() != 1 or before.dtype == torch.bool or before.is_complex():
        return False
    first, second = float(before), float(after)
    return first != second and first.is_integer() and second.is_integer()
