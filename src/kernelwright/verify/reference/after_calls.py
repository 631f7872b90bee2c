"""The state that earlier calls leave behind, for references that update their own: an observer's maximum, a moving mean, a ring
of past rows, a count of steps.

A call on ordinary inputs in the state that a constructor leaves tells little: a maximum over batches is then that of this
batch. So a reference is called on loud inputs first; and where it counts calls, as if it had been called thousands of times,
beyond the numbers that it names and the lengths of its buffers. Quiet inputs follow. Counts also stand where the next call goes
beyond a buffer's end, and at multiples of numbers that the reference names (`phases`). A count that the reference only adds to, as
every batch norm's, can do nothing else: neither is asked of it.

Not guaranteed: that counts other than whole numbers that grow alike at every call are found.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.verify.reference.checkpoint import State, load
from kernelwright.verify.reference.copies import copied
from kernelwright.verify.reference.distributions import scale_inputs
from kernelwright.verify.reference.task_module import drawing, finite, outputs_of
from kernelwright.verify.structures import convert

QUIET = 0.1
"""Factor on the inputs of the calls that are judged."""
_LOUD = 10.0
_CALLS, _MOST_CALLS = 3, 128
"""The most loud calls; the most calls by which a count that wraps is told from one that grows."""
_NUMBERS, _LARGEST = 2, 4096
"""How many whole numbers that a reference names counts are held against, the least first, and the largest."""
_FAR, _FARTHEST = 5000, 1 << 20
"""Least count of calls long gone by, and the greatest number that a reference names beyond which it lies."""


def after_loud(module: torch.nn.Module, draw: Callable[[int], Any], secret: int) -> State | None:
    """What one to three calls on loud inputs change of a module's state; None if that is nothing, or if the reference is not
    finite then. `draw` gives inputs by seed."""
    called = copied(module)
    for number in range(1 + secret % _CALLS):
        _call(called, scale_inputs(draw(secret + number), _LOUD))
    return _accepted(module, called, draw(secret))


def long_after(
    module: torch.nn.Module, draw: Callable[[int], Any], named: Sequence[float], secret: int
) -> State | None:
    """The same with every count as after thousands of calls, more than any of the numbers `named` by the reference; if counts
    wrap, as after more calls than any tensor is long. None if nothing counts."""
    start, called, inputs = _copies(module), copied(module), draw(secret)
    steps, read = _steps(start, called, inputs)
    if not steps:
        return None
    lengths = (extent for one in start.values() for extent in one.shape)
    calls = min(max(lengths, default=1) + 2 + secret % 5, _MOST_CALLS) if read else 1
    for _ in range(calls - 1):
        _call(called, inputs)
    reached = _copies(called)
    if all(torch.equal(reached[name], start[name] + calls * step) for name, step in steps.items()):
        beyond = max((int(abs(one)) for one in named if abs(one) <= _FARTHEST), default=0)
        far = random.Random(secret).randrange(_FAR) + max(_FAR, 2 * beyond)
        if (later := _called(module, called, steps, far, inputs)) is not None:
            called = later
    return _accepted(module, called, inputs)


def phases(
    module: torch.nn.Module, draw: Callable[[int], Any], named: Sequence[float], secret: int
) -> Iterator[State]:
    """The states in which counts stand where a call may do something else: where the next call goes beyond the end of a buffer,
    and at odd and even multiples of a whole number `named` by the reference, and at numbers that share a divisor with it."""
    start, called, inputs = _copies(module), copied(module), draw(secret)
    steps, read = _steps(start, called, inputs)
    far, dice = random.Random(secret).randrange(_FAR) + 1, random.Random(secret)
    lengths = sorted({extent for one in start.values() for extent in one.shape if extent > 1})
    whole = sorted({int(one) for one in named if one > 1.0 and float(one).is_integer() and one <= _LARGEST})
    calls: list[int] = []
    for first, step in ((int(start[name]), int(one)) for name, one in steps.items() if name in read):
        if step > 0:
            calls += [(length - 1 - first) // step for length in lengths]
        for number in whole[:_NUMBERS]:
            primes = [p for p in range(2, number) if number % p == 0 and all(p % q for q in range(2, p))]
            for most, wanted in (
                (2 * number, number),
                (2 * number, 0),
                *((number, number // p * dice.randrange(1, p)) for p in primes),
            ):
                calls += next(
                    ([far + n] for n in range(most) if (first + (far + n) * step) % most == wanted), []
                )
    for number in dict.fromkeys(one for one in calls if one >= 1):
        later = _called(module, called, steps, number, inputs)
        if later is not None and (state := _accepted(module, later, inputs)) is not None:
            yield state


class _Reads(TorchDispatchMode):
    """Notes the memory of each tensor with which an operator does anything but add numbers to it in place."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        if func is not torch.ops.aten.add_.Tensor or len(given) > 1:
            self.memory.update(one.untyped_storage()._cdata for one in given)
        return func(*args, **(kwargs or {}))


def _steps(start: State, called: torch.nn.Module, inputs: object) -> tuple[State, set[str]]:
    """What the first call, which is made, adds to each count; and which counts it does something else with."""
    with _Reads() as reads:
        _call(called, inputs)
    state = called.state_dict()
    steps = {name: state[name] - one for name, one in start.items() if _counts(one, state[name])}
    return steps, {name for name in steps if state[name].untyped_storage()._cdata in reads.memory}


def _called(
    module: torch.nn.Module, called: torch.nn.Module, steps: State, number: int, inputs: object
) -> torch.nn.Module | None:
    """The module with its counts as after so many calls, the last of which is made; None if they do not grow alike until then."""
    start = _copies(module)
    counts = {name: start[name] + (number - 1) * step for name, step in steps.items()}
    later = load(copied(called), counts)
    _call(later, inputs)
    after = later.state_dict()
    alike = all(torch.equal(after[name], counts[name] + step) for name, step in steps.items())
    return later if alike else None


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
