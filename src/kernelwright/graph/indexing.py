"""Indexing by integer tensors without dimensions, as in `table[step]`. torch.export makes a number of such a tensor, on which no graph
can depend; a list with it as its one index takes the same element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch

_KINDS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_INDEXINGS = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)


@contextmanager
def tensors_index() -> Iterator[None]:
    """While torch.export runs within, `x[i]` and `x[i] = y` keep an integer tensor `i` without dimensions a tensor."""
    from torch._export.non_strict_utils import _NonStrictTorchFunctionHandler as Handler

    torchs = Handler._override

    def override(handler: Any, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if func in _INDEXINGS and isinstance(args[0], torch.Tensor):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(map(_is_scalar, index)):
                return lambda: _indexed(args[0], index, *args[2:]), (), {}
        return torchs(handler, func, args, kwargs)

    with mock.patch.object(Handler, "_override", override):
        yield


def _indexed(x: torch.Tensor, index: tuple[Any, ...], *new: Any) -> torch.Tensor | None:
    """`x[index]`, or with `new` the assignment to it."""
    at = next((at for at, one in enumerate(index) if _is_scalar(one)), None)
    if at is None:
        if not new:
            return x[index]
        x[index] = new[0]
        return None
    before = index[:at]
    is_last = any(one is Ellipsis for one in before)
    place = x.dim() - sum(map(_taken, index[at:])) if is_last else sum(map(_taken, before))
    picked = (*(slice(None),) * place, index[at].reshape(1))
    found = x[picked]
    made = _indexed(found, (*before, 0, *index[at + 1 :]), *new)
    if new:
        x[picked] = found
    return made


def _is_scalar(one: Any) -> bool:
    return isinstance(one, torch.Tensor) and one.dim() == 0 and one.dtype in _KINDS


def _taken(one: Any) -> int:
    """The number of dimensions of the indexed tensor that a part of an index stands for."""
    if one is None or isinstance(one, bool):
        return 0
    return one.dim() if isinstance(one, torch.Tensor) and one.dtype is torch.bool else 1
