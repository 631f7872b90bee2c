"""Drop-ins under `torch.compile`: one custom operator that Dynamo keeps in its graph, and that calls the drop-in at run time.

`kernelwright::drop_in(tensors, handle)` runs what that drop-in would run outside: its kernel if everything verified still
holds, else the module itself. Nothing of the module is traced, so nothing can go stale.

Calls that need gradients are traced through the module itself instead.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from kernelwright.graph import TensorType
from kernelwright.graph.execute import DTYPES


class Held(Protocol):
    """A drop-in, as the operator uses it."""

    outputs: tuple[TensorType, ...]

    def flat(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]: ...


_NUMBERS = itertools.count()
_HELD: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def register(held: Held) -> int:
    """A handle for a drop-in, valid while it lives in this process."""
    number = next(_NUMBERS)
    _HELD[number] = held
    return number


@torch.library.custom_op("kernelwright::drop_in", mutates_args=())
def call(tensors: list[torch.Tensor], handle: int) -> list[torch.Tensor]:
    """The drop-in's outputs in one list."""
    return _HELD[handle].flat(tensors)


@call.register_fake
def _(tensors: list[torch.Tensor], handle: int) -> list[torch.Tensor]:
    return [
        tensors[0].new_empty([int(size) for size in one.shape], dtype=DTYPES[one.dtype])
        for one in _HELD[handle].outputs
    ]
