"""Operators that torch's CPU kernels lack in a narrow dtype, sum in it, or compute slowly: in float32, rounded once.

GPU kernels compute them likewise. There is no list of the first: we compute in float32 whatever torch reports as not
implemented for a dtype. The others were measured. Errors of the second grow with the number of terms, those of CUDA's kernels
do not. Products in float16 take 3 to 90 times as long as in float32, and are no nearer to fp64. Other operators, and other
devices, are left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _len_torch_dispatch_stack, _pop_mode, _push_mode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

Function = Callable[..., object]
Args = tuple[object, ...]
Kwargs = dict[str, object] | None

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
_PRODUCTS = frozenset(
    f"aten::{name}"
    for name in (
        "mm", "bmm", "addmm", "addmm_", "baddbmm", "baddbmm_", "addbmm", "addbmm_", "_trilinear",
        "convolution", "convolution_backward",
        "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward",
    )
)  # fmt: skip
"""Products that are slow in float16; products of a matrix and a vector are not."""
_FIRST_ALONE = ("aten::native_layer_norm", "aten::_scaled_dot_product_flash_attention_for_cpu")
"""Operators of which only the first result has the inputs' dtype; the others are in float32."""


def compute(function: Function, args: Args, kwargs: dict[str, object]) -> Any:
    """`function(*args, **kwargs)`; in float32, rounded once, if torch's CPU kernel is missing for narrow floats, sums in them or is
    slow. Raises what the function raises."""
    name = function._schema.name if isinstance(function, OpOverload) else ""
    if _wanting(name, args):
        return _in_single(function, args, kwargs, 1 if name in _FIRST_ALONE else None)
    try:
        return function(*args, **kwargs)
    except RuntimeError as error:
        if not any(text in str(error) for text in _MISSING) or not any(
            map(_narrow, tree_leaves((args, kwargs)))
        ):
            raise
    return _in_single(function, args, kwargs)


def _wanting(name: str, args: Sequence[Any]) -> bool:
    """Whether torch's CPU kernel sums in a narrow dtype or is slow in it."""
    if name in _PRODUCTS:
        return args[0].dtype == torch.float16 and _on_cpu(args[0])
    if name in _ADDS:
        return _on_cpu(args[0]) and args[3:4] == (True,)
    place = _SUMMED.get(name)
    return place is not None and _on_cpu(args[place] if args[place] is not None else args[0])


def _in_single(function: Function, args: Args, kwargs: dict[str, object], most: int | None = None) -> Any:
    """`function(*args, **kwargs)` of narrow floats in float32; the first `most` results rounded to their dtype, all by default."""
    given, nest = tree_flatten((args, kwargs))
    dtype = next(one.dtype for one in given if _narrow(one))
    writes = [id(one) for one in tree_leaves(_written(function, args, kwargs))]
    wide = [_widen(one) for one in given]
    args, kwargs = tree_unflatten(wide, nest)
    before = [one._version if isinstance(one, torch.Tensor) else 0 for one in wide]
    out = function(*args, **kwargs)
    written: dict[int, torch.Tensor] = {}
    for old, new, version in zip(given, wide, before, strict=True):
        if _narrow(old) and (id(old) in writes or new._version != version):
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


def _written(function: Function, args: Args, kwargs: dict[str, object]) -> list[object]:
    """Arguments that an operator writes, by its schema: within a dispatch mode tensors do not count what is written to them."""
    if not isinstance(function, OpOverload):
        return []
    schema = function._schema.arguments
    given = {one.name: value for one, value in zip(schema, args, strict=False)} | kwargs
    return [given[one.name] for one in schema if one.is_write and one.name in given]


def _narrow(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in NARROW


def _on_cpu(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in NARROW and value.device.type == "cpu"


def _widen(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float32 if value in NARROW else value
    return value.float() if _narrow(value) else value


class _Computed(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # a tenth less an operator

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Args = (), kwargs: Kwargs = None
    ) -> object:
        return compute(func, args, kwargs or {})


@contextlib.contextmanager
def computed(values: object) -> Iterator[None]:
    """A context in which operators are computed as by `compute` if there are narrow floats on the CPU among the values. Dispatch
    modes that are entered already see the operators as they were called, and nothing of how they are computed."""
    if not any(map(_on_cpu, tree_leaves(values))):
        yield
        return
    above = [_pop_mode() for _ in range(_len_torch_dispatch_stack())]
    try:
        with _Computed(), _entered(above):
            yield
    finally:
        for mode in reversed(above):
            _push_mode(mode)


@contextlib.contextmanager
def _entered(modes: Sequence[TorchDispatchMode]) -> Iterator[None]:
    """Modes as `_pop_mode` gave them, the innermost last."""
    for mode in reversed(modes):
        _push_mode(mode)
    try:
        yield
    finally:
        for _ in modes:
            _pop_mode()


class _Called(TorchFunctionMode):
    """For functions that refuse a dtype before anything is dispatched, such as `isfinite`."""

    def __torch_function__(
        self, func: Function, types: object, args: Args = (), kwargs: Kwargs = None
    ) -> object:
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
        with computed((args, kwargs, list(self.parameters()), list(self.buffers()))):
            return super().__call__(*args, **kwargs)


def complete(module: torch.nn.Module) -> torch.nn.Module:
    """The module itself, which from now on runs on the CPU in any dtype."""
    kind = type(module)
    if not issubclass(kind, _Complete):
        module.__class__ = type(kind.__name__, (_Complete, kind), {"__module__": kind.__module__})
    return module
