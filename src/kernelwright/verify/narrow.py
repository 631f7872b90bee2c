"""Operators for which torch has no CPU kernel in a narrow dtype: computed in float32 and rounded once.

GPU kernels compute them likewise. There is no list of them: we compute in float32 whatever torch reports as not
implemented for a dtype. Operators that torch does support, and other devices, are left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from kernelwright.verify.structures import Args, Kwargs, Op, flatten

NARROW = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)
_MISSING = ("not implemented for", "Promotion for Float8")


def compute(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """`function(*args, **kwargs)`; in float32, rounded once, if torch lacks a kernel for narrow floats. Raises what the
    function raises."""
    try:
        return function(*args, **kwargs)
    except RuntimeError as error:
        if not any(text in str(error) for text in _MISSING):
            raise
        given, nest = tree_flatten((args, kwargs))
        dtype = next((one.dtype for one in given if _narrow(one)), None)
        if dtype is None:
            raise
    wide = [_widen(one) for one in given]
    args, kwargs = tree_unflatten(wide, nest)
    before = [one._version if isinstance(one, torch.Tensor) else 0 for one in wide]
    out = function(*args, **kwargs)
    written: dict[int, torch.Tensor] = {}
    for old, new, version in zip(given, wide, before, strict=True):
        if _narrow(old) and new._version != version:
            written[id(new)] = old.copy_(new)

    def rounded(value: Any) -> Any:
        if id(value) in written:
            return written[id(value)]
        single = isinstance(value, torch.Tensor) and value.dtype == torch.float32
        return value.to(dtype) if single else value

    return tree_map(rounded, out)


def _narrow(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in NARROW


def _widen(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float32 if value in NARROW else value
    return value.float() if _narrow(value) else value


class _Computed(TorchDispatchMode):
    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        return compute(func, args, kwargs or {})


class _Called(TorchFunctionMode):
    """For functions that refuse a dtype before anything is dispatched, such as `isfinite`."""

    def __torch_function__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        return compute(func, args, kwargs or {})


@contextlib.contextmanager
def of_bytes(source: str) -> Iterator[None]:
    """A context for computing with inputs of a task of that source: torch computes almost nothing in 8-bit floats."""
    if "float8" in source:
        with _Computed(), _Called():
            yield
    else:
        yield


class _Complete(torch.nn.Module):
    """Mixed into a reference's class."""

    def forward(self, *args: object, **kwargs: object) -> object:
        held = (*flatten((args, kwargs)), *self.parameters(), *self.buffers())
        if not any(_narrow(one) and one.device.type == "cpu" for one in held):
            return super().forward(*args, **kwargs)
        with _Computed():
            return super().forward(*args, **kwargs)


def complete(module: torch.nn.Module) -> torch.nn.Module:
    """The module itself, which from now on runs on the CPU in any dtype."""
    kind = type(module)
    if not issubclass(kind, _Complete):
        module.__class__ = type(kind.__name__, (_Complete, kind), {"__module__": kind.__module__})
    return module
