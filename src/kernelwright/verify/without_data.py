"""Operators on tensors without data. The form of a result is worked out once for equal forms of arguments: torch does that in Python,
in up to milliseconds, and the layers of a network repeat.

    out = without_data.call(func, args, kwargs)      inside of a dispatch mode, in place of func(*args, **kwargs)
    with without_data.Remembered(): ...
"""

from __future__ import annotations

import functools

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.verify.structures import Args, Kwargs, Op

Form = tuple[torch.dtype, torch.Size, tuple[int, ...]]
_MOST = 4096
_forms: dict[object, tuple[bool, list[Form]]] = {}
"""(operator, forms of its arguments) -> whether its result is one tensor; dtype, shape and strides of each."""


class Remembered(TorchDispatchMode):
    """A block whose operators are called in this way."""

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        return call(func, args, kwargs or {})


def call(func: Op, args: Args, kwargs: dict[str, object]) -> object:
    """The operator's result."""
    if not _makes_new_tensors(func):
        return func(*args, **kwargs)
    try:
        key = func, _form(args), tuple((name, _form(value)) for name, value in kwargs.items())
        known = _forms.get(key)
    except TypeError:  # data, or a number that a compiler traces, which has no hash
        return func(*args, **kwargs)
    if known is None:
        out = func(*args, **kwargs)
        if (made := _described(out, [args, kwargs])) is not None:
            if len(_forms) >= _MOST:
                _forms.clear()
            _forms[key] = made
        return out
    alone, forms = known
    with torch._C.DisableTorchFunction():
        tensors = [
            torch.empty_strided(shape, strides, dtype=dtype, device="meta") for dtype, shape, strides in forms
        ]
    return tensors[0] if alone else tuple(tensors)


def _form(value: object) -> object:
    """A hashable value, equal for arguments for which an operator's result has the same form. Raises TypeError for what is more
    than a form."""
    if isinstance(value, torch.Tensor):
        if not _is_form(value):
            raise TypeError
        return value.dtype, value.shape, value.stride()
    return tuple(map(_form, value)) if isinstance(value, list | tuple) else (type(value), value)


def _is_form(tensor: torch.Tensor) -> bool:
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return plain and tensor.is_meta and tensor.layout is torch.strided and not tensor.is_complex()


def _described(out: object, given: object) -> tuple[bool, list[Form]] | None:
    """The form of a result; None unless it is one tensor or a plain tuple of tensors, each with memory of its own."""
    alone = isinstance(out, torch.Tensor)
    items = [out] if alone else out
    if type(items) not in (list, tuple):
        return None
    assert isinstance(items, list | tuple)
    made = [one for one in items if isinstance(one, torch.Tensor) and _is_form(one)]
    if len(made) < len(items) or any(one.storage_offset() for one in made):
        return None
    memory = [one.untyped_storage()._cdata for one in made]
    others = {one.untyped_storage()._cdata for one in tree_leaves(given) if isinstance(one, torch.Tensor)}
    if len(set(memory)) < len(memory) or others & set(memory):
        return None
    return alone, [(one.dtype, one.shape, one.stride()) for one in made]


@functools.cache
def _makes_new_tensors(func: Op) -> bool:
    """Whether an operator neither changes its arguments nor returns a part of one, and returns tensors."""
    schema = func._schema
    tensors = all(str(one.type) in ("Tensor", "List[Tensor]") for one in schema.returns)
    parts = any(one.alias_info is not None for one in (*schema.arguments, *schema.returns))
    return bool(schema.returns) and tensors and not parts
