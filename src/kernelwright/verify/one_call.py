"""Functions that are one operator on a GPU, though torch without data runs them part by part: recurrent layers (cuDNN), attention,
RMS norms."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import functional

from kernelwright.graph.operators import RECURRENT
from kernelwright.verify.structures import Args

_LAYERS = {
    function: getattr(torch.ops.aten, name).input
    for name in RECURRENT
    for function in (getattr(torch, name), getattr(torch.ops.aten, name).input)
}
_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default
_NORM = torch.ops.aten.rms_norm.default
_OTHERS = {
    **dict.fromkeys((functional.scaled_dot_product_attention, _ATTENTION), _ATTENTION),
    **dict.fromkeys((functional.rms_norm, torch.rms_norm, _NORM), _NORM),
}


def overload(function: object, args: Args, kwargs: Mapping[str, object]) -> torch._ops.OpOverload | None:
    """The operator that a call of torch's function or operator runs, if that is one on a GPU and drops nothing. Packed sequences,
    whose batch varies from step to step, are none."""
    layer = _LAYERS.get(function)
    if layer is not None:
        whole = len(args) == 9 and not kwargs and isinstance(args[2], list | tuple)
        return layer if whole and not (args[5] and args[6]) else None
    other = _OTHERS.get(function)
    drops = other is _ATTENTION and (kwargs.get("dropout_p") or args[4:5] not in ((), (0,), [], [0]))
    return None if drops or not (args and isinstance(args[0], torch.Tensor)) else other


def steps(args: Args) -> int:
    """Cells of a recurrent layer's call that wait for one another; both directions run at once."""
    x, layers, batch_first = args[0], args[4], args[8]
    assert isinstance(x, torch.Tensor)
    assert isinstance(layers, int)
    return int(x.shape[1 if batch_first else 0]) * layers
