"""Which aten operators a reference runs, told by running it: what its special values and its policy hang on."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.verify.structures import convert


class _Names(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func._schema.name.removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


def operators(module: torch.nn.Module, inputs: Any) -> tuple[str, ...]:
    """Names of the aten operators of one call, without overloads, in order. Raises what the reference raises."""
    names = _Names()
    given = convert(inputs, torch.clone)
    with torch.no_grad(), names:
        copy.deepcopy(module)(*given)
    return tuple(names.seen)
