"""Recurrent layers as one operator, which they are on a GPU (cuDNN), though torch without data runs them cell by cell."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from kernelwright.graph.operators import RECURRENT
from kernelwright.verify.structures import Args

_OVERLOADS = {
    function: getattr(torch.ops.aten, name).input
    for name in RECURRENT
    for function in (getattr(torch, name), getattr(torch.ops.aten, name).input)
}


def overload(function: object, args: Args, kwargs: Mapping[str, object]) -> torch._ops.OpOverload | None:
    """The operator that a call of torch's function or operator runs, if that is a recurrent layer that drops nothing. Packed
    sequences, whose batch varies from step to step, are none."""
    found = _OVERLOADS.get(function)
    whole = found is not None and len(args) == 9 and not kwargs and isinstance(args[2], list | tuple)
    return found if whole and not (args[5] and args[6]) else None


def steps(args: Args) -> int:
    """Cells of a layer's call that wait for one another; both directions run at once."""
    x, layers, batch_first = args[0], args[4], args[8]
    assert isinstance(x, torch.Tensor)
    assert isinstance(layers, int)
    return int(x.shape[1 if batch_first else 0]) * layers
