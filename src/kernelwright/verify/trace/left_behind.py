"""What a call must leave unchanged: process-wide switches, random seeds, and the module that is called.

If the reference changes none of them, its callers depend on that: they go on with gradient mode, with the next random
numbers, with an optimiser that holds the weights, and with a checkpoint that is saved later.

Not guaranteed: settings that no table here lists (levels of loggers other than the root, numpy's print options).
"""

from __future__ import annotations

import contextlib
import logging
import random
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from kernelwright.outcomes import Outcome
from kernelwright.verify.held import INPUTS, Held
from kernelwright.verify.sandbox.service import Failure
from kernelwright.verify.trace.streams import STREAMS

_TORCH: dict[str, Callable[[], object]] = {
    "gradient mode": torch.is_grad_enabled,
    "inference mode": torch.is_inference_mode_enabled,
    "automatic casts": lambda: [
        (torch.is_autocast_enabled(one), torch.get_autocast_dtype(one)) for one in ("cuda", "cpu")
    ],
    "the cache of automatic casts": torch.is_autocast_cache_enabled,
    "torch's modes (a default device, say)": lambda: (
        torch.overrides._len_torch_function_stack(),
        torch._C._len_torch_dispatch_stack(),
    ),
    "the precision of products": lambda: (
        torch._C._get_float32_matmul_precision(),
        torch._C._get_cublas_allow_tf32(),
        torch._C._get_cudnn_allow_tf32(),
    ),
    "cuDNN's switches": lambda: (
        torch._C._get_cudnn_enabled(),
        torch._C._get_cudnn_benchmark(),
        torch._C._get_cudnn_deterministic(),
    ),
    "the kinds of attention that torch may take": lambda: (
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cuda.cudnn_sdp_enabled(),
    ),
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "the search for anomalies": torch.is_anomaly_enabled,
}
_LOGGERS = [
    logging.root,
    *(one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)),
]
"""Loggers that exist before any candidate's file is loaded."""
_OTHERS: dict[str, Callable[[], object]] = {
    "how tensors are printed": lambda: repr(torch._tensor_str.PRINT_OPTS),
    "the filters of warnings": lambda: tuple(map(tuple, warnings.filters)),
    "what numpy makes of floating-point errors": np.geterr,
    "the level of the root logger": lambda: (logging.root.level, logging.root.manager.disable),
    "the handlers of loggers": lambda: [(one.handlers[:], one.propagate, one.disabled) for one in _LOGGERS],
    "the current stream": lambda: [one for one in STREAMS.entered if one is not None],
}
"""Settings that a file may change when it is loaded, but no call."""


class LeftBehind(Failure):
    """A call changed state of its caller."""

    def __init__(
        self,
        what: str,
        why: str = "whatever the caller does next goes on with that",
        outcome: Outcome = Outcome.STATEFUL,
    ) -> None:
        super().__init__(outcome, f"{what}: {why}")


@contextlib.contextmanager
def callers_same(module: torch.nn.Module, inputs: object, but: Collection[str]) -> Iterator[None]:
    """Raises LeftBehind if the block changes what the caller holds (`held.py`), except for the kinds in `but`."""
    held = Held(module, inputs)
    yield
    for kind, what in held.changed().items():
        if kind not in but:
            outcome = Outcome.INPUT_MUTATED if kind == INPUTS else Outcome.STATEFUL
            raise LeftBehind(f"a call changes {what}", outcome=outcome)


_TAGS = ("lr_scale", "main_grad", "is_expert", "sharded_over", "no_decay")
"""Attributes that people set on tensors."""


@contextlib.contextmanager
def tensors_same(
    named: Iterable[tuple[str, torch.Tensor]],
    gradient: Callable[[torch.Tensor], torch.Tensor],
    touched: Callable[[torch.Tensor], bool],
    dice: random.Random,
) -> Iterator[None]:
    """Gives each leaf a `gradient`, as after a training step, and an attribute. Raises LeftBehind if a call removes or replaces
    either, or if the gradient was `touched`."""
    tag, mark = dice.choice(_TAGS), object()
    given: list[tuple[str, torch.Tensor, torch.Tensor | None]] = []
    with torch._C.DisableTorchFunction():
        for name, one in named:
            if not one.is_leaf:
                continue
            if one.is_floating_point() and one.grad is None:
                one.grad = gradient(one)
            given.append((name, one, one.grad))
            vars(one)[tag] = mark
    try:
        yield
        with torch._C.DisableTorchFunction():
            for name, one, held in given:
                if one.grad is not held:
                    raise LeftBehind(f"a call takes away the gradient of {name}", "it is the caller's")
                if held is not None and touched(held):
                    raise LeftBehind(f"a call uses the gradient of {name}", "it is the caller's")
                if vars(one).get(tag) is not mark:
                    raise LeftBehind(f"a call removes hooks that its caller put on {name}")
    finally:
        with torch._C.DisableTorchFunction():
            for _, one, _ in given:
                one.grad = None
                vars(one).pop(tag, None)


@contextlib.contextmanager
def switches_same(loading: bool = False) -> Iterator[None]:
    """Raises LeftBehind if the block leaves a process-wide switch changed. When `loading` a file, the settings of `_OTHERS`
    (warnings, printing, loggers) may change."""
    questions = _TORCH if loading else _TORCH | _OTHERS
    before = {name: ask() for name, ask in questions.items()}
    yield
    for name, ask in questions.items():
        if ask() != before[name]:
            raise LeftBehind(f"{'loading the file' if loading else 'a call'} leaves {name} changed")


def notice_seeds(report: Callable[[str], None]) -> None:
    """For the life of this process, call `report` with the name of any function that seeds a shared generator."""

    def noticed(owner: object, name: str, called: str) -> None:
        original = getattr(owner, name)

        def seed(*args: object, **kwargs: object) -> object:
            report(called)
            return original(*args, **kwargs)

        setattr(owner, name, seed)

    noticed(random, "seed", "random.seed")
    for name in ("seed", "set_state"):
        noticed(np.random, name, f"numpy.random.{name}")


Written = list[Any]
"""A `tape.View`, serialised."""
Step = Mapping[str, Any]
"""A tape or one of its operations, serialised."""
Kept = Iterator[tuple[str, torch.Tensor, bool, bool]]


def tensors_held(module: torch.nn.Module, prefix: str = "") -> Kept:
    """(name, tensor, whether it is a parameter, whether a checkpoint has it) of all registered tensors, read without the
    module's own methods, which may be overridden."""
    own = vars(module)
    for name, one in own["_parameters"].items():
        if one is not None:
            yield prefix + name, one, True, True
    for name, one in own["_buffers"].items():
        if one is not None:
            yield prefix + name, one, False, name not in own["_non_persistent_buffers_set"]
    for name, part in own["_modules"].items():
        if part is not None:
            yield from tensors_held(part, f"{prefix}{name}.")


class Weights:
    """A module's parameters, and the buffers that the reference has too, as they were before its first call."""

    def __init__(
        self, module: torch.nn.Module, buffers: Iterable[str], view: Callable[[torch.Tensor], Written]
    ) -> None:
        """`view` serialises a tensor as a `tape.View`."""
        self._module, self._buffers, self._view = module, set(buffers), view
        self._before = self._now()

    def _now(self) -> dict[str, tuple[bool, int, Written, bool]]:
        return {
            name: (learns, id(one) if learns else 0, self._view(one), bool(one.requires_grad))
            for name, one, learns, _ in tensors_held(self._module)
            if learns or name in self._buffers
        }

    def check(self, tapes: Iterable[Step]) -> None:
        """Raises LeftBehind if a weight has other memory or another form, or is gone. Allowed: a weight that torch copied on a
        tape to memory with other strides, and a buffer of the same shape, strides and dtype."""
        now = self._now()
        for name, before in self._before.items():
            if name not in now:
                raise LeftBehind(f"a call takes {name} away from the module")
            learns, own, view, asked = before
            if now[name] == before or (not learns and now[name][2][2:] == view[2:]):
                continue
            copies = [step for tape in tapes for step in tape["operations"] if step["kind"] == "copy"]
            there = now[name][2]
            same = (learns, own, asked) == (now[name][0], now[name][1], now[name][3])
            if not (same and any(_moves(step, view, there) for step in copies)):
                raise LeftBehind(f"a call puts something else in the place of {name}")


def _moves(step: Step, view: Written, there: Written) -> bool:
    """Whether a copy step moves each element of tensor `view` to its place in tensor `there`, of the same shape."""
    target, source = step["target"], step["source"]
    if (target[:2], source[:2]) != (there[:2], view[:2]) or there[2] != view[2] or there[4] != view[4]:
        return False

    def axes(shape: list[int], strides: list[int], others: list[int]) -> list[tuple[int, int, int]]:
        return sorted(one for one in zip(shape, strides, others, strict=True) if one[0] > 1)

    return axes(target[2], target[3], source[3]) == axes(there[2], there[3], view[3])
