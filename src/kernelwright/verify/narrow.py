"""Operators that torch's CPU kernels lack in a narrow dtype, or sum in it: computed in float32 and rounded once.

GPU kernels compute them likewise. There is no list of the first: we compute in float32 whatever torch reports as not
implemented for a dtype. The second were measured: their errors grow with the number of terms, those of CUDA's kernels do
not. Other operators, and other devices, are left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from kernelwright.verify.structures import Args, Function, Kwargs, Op, flatten

NARROW = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)
_MISSING = ("not implemented for", "Promotion for Float8")
_SUMMED = {
    "aten::native_layer_norm": 2,
    "aten::native_layer_norm_backward": 5,
    "aten::embedding_dense_backward": 0,
    "aten::_embedding_bag_backward": 0,
    "aten::avg_pool2d_backward": 0,
}
"""Operators that the CPU sums in the dtype of this argument, if there is one; a layer norm keeps its mean in it, too."""
_ADDS = ("aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index_put")
"""Operators that add, where they are told to, in the dtype of their first argument."""


def compute(function: Function, args: Args, kwargs: dict[str, object]) -> Any:
    """`function(*args, **kwargs)`; in float32, rounded once, if torch lacks a kernel for narrow floats or sums in them. Raises
    what the function raises."""
    name = function._schema.name if isinstance(function, OpOverload) else ""
    if _sums(name, args):
        return _in_single(function, args, kwargs, 1 if name == "aten::native_layer_norm" else None)
    try:
        return function(*args, **kwargs)
    except RuntimeError as error:
        if not any(text in str(error) for text in _MISSING) or not any(
            map(_narrow, tree_leaves((args, kwargs)))
        ):
            raise
    return _in_single(function, args, kwargs)


def _sums(name: str, args: Sequence[object]) -> bool:
    """Whether torch's CPU kernel sums in a narrow dtype."""
    if name in _ADDS:
        return _narrow(args[0]) and args[3:4] == (True,)
    place = _SUMMED.get(name)
    return place is not None and _narrow(args[place] if args[place] is not None else args[0])


def _in_single(function: Function, args: Args, kwargs: dict[str, object], most: int | None = None) -> Any:
    """`function(*args, **kwargs)` of narrow floats in float32; the first `most` results rounded to their dtype, all by default."""
    given, nest = tree_flatten((args, kwargs))
    dtype = next(one.dtype for one in given if _narrow(one))
    wide = [_widen(one) for one in given]
    args, kwargs = tree_unflatten(wide, nest)
    before = [one._version if isinstance(one, torch.Tensor) else 0 for one in wide]
    out = function(*args, **kwargs)
    written: dict[int, torch.Tensor] = {}
    for old, new, version in zip(given, wide, before, strict=True):
        if _narrow(old) and new._version != version:
            written[id(new)] = old.copy_(new)

    def rounded(value: object) -> object:
        if id(value) in written:
            return written[id(value)]
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            return value.to(dtype)
        return value

    if most is None or not isinstance(out, tuple):
        return tree_map(rounded, out)
    return *map(rounded, out[:most]), *out[most:]


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

    def __call__(self, *args: object, **kwargs: object) -> object:
        held = (*flatten((args, kwargs)), *self.parameters(), *self.buffers())
        if not any(_narrow(one) and one.device.type == "cpu" for one in held):
            return super().__call__(*args, **kwargs)
        with _Computed():
            return super().__call__(*args, **kwargs)


def complete(module: torch.nn.Module) -> torch.nn.Module:
    """The module itself, which from now on runs on the CPU in any dtype."""
    kind = type(module)
    if not issubclass(kind, _Complete):
        module.__class__ = type(kind.__name__, (_Complete, kind), {"__module__": kind.__module__})
    return module
