"""Copies of a reference for one run each. Weights are shared with the original until somebody writes to them, and what a run makes
of weights alone, such as their values in double precision or rounded to TF32, is kept for the next run.

A network has tens of millions of weights and the judge runs it some hundred times at small sizes, where copying and rounding
them would cost ten times what its layers cost.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import torch

_MANY = 1 << 12
"""Least elements of a tensor that is worth sharing."""
_MOST = 1 << 30
"""Bytes of results that are kept."""

_C: Any = torch._C  # stubs do not know all of it
M = TypeVar("M", bound=torch.nn.Module)
_LOCK = threading.Lock()
_Made = tuple[torch.Tensor, torch.Tensor]
_KEPT: OrderedDict[tuple[object, ...], _Made] = OrderedDict()
"""By what was made of which memory: a share in that memory, and the result. While it is held nobody else can write to that memory: a
writer gets its own. So equal addresses mean equal values."""


def copied(module: M) -> M:
    """A deep copy of a module; its parameters share their memory with the original's until either is written to."""
    memo: dict[int, object] = {}
    for one in module.parameters():
        if type(one) is torch.nn.Parameter and one.numel() >= _MANY and _plain(one):
            memo[id(one)] = torch.nn.Parameter(_shared(one.detach()), one.requires_grad)
    return copy.deepcopy(module, memo)


def doubled(module: M) -> M:
    """A deep copy of a module in double precision."""
    made = copied(module)
    for one in made.parameters():
        if one.is_floating_point() and _is_shared(one):
            one.data = _shared(once(one.detach(), "double", torch.Tensor.double))
    return made.double()


def once(tensor: torch.Tensor, what: str, make: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """`make(tensor)`, made once for weights that copies share. Nobody may write to the result."""
    if not _is_shared(tensor):
        return make(tensor)
    key = (what, _C._data_address(tensor), tensor.dtype, tensor.shape, tensor.stride())
    with _LOCK:
        if (found := _KEPT.get(key)) is not None:
            _KEPT.move_to_end(key)
            return found[1]
    held = _shared(tensor)
    made = make(held)
    with _LOCK:
        _KEPT[key] = held, made
        while sum(one.nbytes for _, one in _KEPT.values()) > _MOST:
            _KEPT.popitem(last=False)
    return made


def _plain(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.device.type == "cpu" and tensor.is_contiguous()


def _is_shared(tensor: torch.Tensor) -> bool:
    return tensor.numel() >= _MANY and tensor.layout is torch.strided and _C._is_cow_tensor(tensor)


def _shared(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with the same memory, of which whoever writes first gets a copy."""
    with _LOCK:
        return torch._lazy_clone(tensor)
