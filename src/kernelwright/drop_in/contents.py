"""Comparable contents of values that may change in place: `contents(value)` stays equal until something in the value changes.

Numbers and strings by value; functions, classes and watched modules by identity; tensors by memory and version; small arrays
by their bytes; containers and user-defined objects, with or without a dictionary, by their contents, `_DEPTH` levels deep.

Not seen: internal state of objects of torch, the standard library or C, and arrays of more than `_ARRAY` bytes.
"""

from __future__ import annotations

import argparse
import functools
import sys
import types
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

_DEPTH = 8
_ARRAY = 1 << 16
_FROZEN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, np.ufunc)
_HOLDERS = (types.SimpleNamespace, argparse.Namespace)
"""Classes of the standard library that only hold other values."""


def plain(value: Any) -> bool:
    """Whether a value can only change by assignment."""
    if isinstance(value, tuple | frozenset):
        return all(map(plain, value))
    return isinstance(value, (*_FROZEN, *_CODE))


def is_foreign(name: str) -> bool:
    """Whether a module belongs to torch, Triton, numpy or the standard library."""
    root = name.partition(".")[0]
    return root in ("torch", "triton", "builtins", "numpy") or (
        root in sys.stdlib_module_names and root != "__main__"
    )


def contents(value: Any, watched: Collection[int] = ()) -> Any:
    """The contents of a value. Modules with ids in `watched` are compared elsewhere."""
    return _hold(value, _DEPTH, watched, set())


def _hold(value: Any, depth: int, watched: Collection[int], seen: set[int]) -> Any:
    if isinstance(value, _FROZEN):
        return type(value), value
    if isinstance(value, torch.Tensor):
        return (
            id(value),
            0 if value.is_inference() else value._version,
            value.dtype,
            value.device,
            _place(value),
        )
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, value.tobytes() if value.nbytes <= _ARRAY else id(value)
    if isinstance(value, types.MethodType):
        return id(value.__func__), id(value.__self__)
    if isinstance(value, _CODE) or depth == 0 or id(value) in watched or id(value) in seen:
        return id(value)
    seen.add(id(value))

    def within(one: Any) -> Any:
        return _hold(one, depth - 1, watched, seen)

    if isinstance(value, list | tuple | deque):
        return type(value), *map(within, value)
    if isinstance(value, dict):
        return type(value), *((key if plain(key) else id(key), within(one)) for key, one in value.items())
    if isinstance(value, set | frozenset):
        return type(value), *sorted(map(repr, value))
    if isinstance(value, functools.partial):
        return id(value), *map(within, (value.func, value.args, value.keywords))
    if is_foreign(type(value).__module__) and not isinstance(value, (nn.Module, *_HOLDERS)):
        return id(value)
    return id(value), id(type(value)), *((name, within(one)) for name, one in attributes(value))


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Attributes of an object, from its dictionary and its slots."""
    yield from getattr(value, "__dict__", {}).items()
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)


def _place(tensor: torch.Tensor) -> int:
    """Address of a tensor's values, which `.data = ` changes; 0 if unknown."""
    try:
        return tensor.data_ptr()
    except RuntimeError:
        return 0
