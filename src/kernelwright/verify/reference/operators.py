"""Which aten operators a reference runs, told by running it: what its special values and its policy hang on."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.verify.structures import convert


class _Names(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.numbers: list[float] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func._schema.name.removeprefix("aten::"))
        self.numbers += [float(one) for one in (*args, *(kwargs or {}).values()) if _is_number(one)]
        return func(*args, **(kwargs or {}))


class Operators(tuple[str, ...]):
    """Names of the aten operators of one call, without overloads, in order; and the numbers that they are given."""

    landmarks: tuple[float, ...] = ()
    """Thresholds, bounds and constants, each once."""


def operators(module: torch.nn.Module, inputs: Any) -> Operators:
    """Those of one call. Raises what the reference raises."""
    names = _Names()
    given = convert(inputs, torch.clone)
    with torch.no_grad(), names:
        copy.deepcopy(module)(*given)
    found = Operators(names.seen)
    found.landmarks = tuple(dict.fromkeys(names.numbers))
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
