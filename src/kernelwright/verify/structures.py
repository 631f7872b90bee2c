"""Nested lists, tuples and dicts of tensors: arguments and outputs of a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

Op = torch._ops.OpOverload
"""The operator that a dispatch mode intercepts."""
Function = Callable[..., object]
"""The function that a function mode intercepts."""
Args = tuple[object, ...]
Kwargs = dict[str, object] | None


class DispatchMode(TorchDispatchMode):
    """A dispatch mode whose operators cost a tenth less: torch does not switch Dynamo off, and on again, around each of them."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def flatten(tree: Any) -> list[torch.Tensor]:
    """The tensors of nested lists, tuples and dicts, in order."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, (list, tuple)):
        return [tensor for item in tree for tensor in flatten(item)]
    if isinstance(tree, dict):
        return [tensor for item in tree.values() for tensor in flatten(item)]
    return []


def containers(tree: object) -> list[object]:
    """The lists and dicts of a nest, that is its mutable containers."""
    if not isinstance(tree, (list, tuple, dict)):
        return []
    parts = tree.values() if isinstance(tree, dict) else tree
    return [
        *([] if isinstance(tree, tuple) else [tree]),
        *(one for part in parts for one in containers(part)),
    ]


def convert(tree: Any, function: Any) -> Any:
    """The same nest with every tensor replaced by `function(tensor)`."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, (list, tuple)):
        items = [convert(item, function) for item in tree]
        return items if isinstance(tree, list) else like(tree, items)
    if isinstance(tree, dict):
        return {key: convert(value, function) for key, value in tree.items()}
    return tree


def like(tree: tuple[Any, ...], items: list[Any]) -> object:
    """A tuple of those items, of the same type as `tree`: a named tuple keeps its names."""
    if hasattr(tree, "_fields"):
        return type(tree)(*items)
    if hasattr(tree, "n_fields"):  # what torch.max and the like return
        return type(tree)(items)
    return tuple(items)


def with_changed(tree: object, place: int, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The nest with its `place`-th tensor replaced by `change(tensor)`, in the same dtype."""
    number = iter(range(len(flatten(tree))))
    return convert(tree, lambda tensor: change(tensor).to(tensor.dtype) if next(number) == place else tensor)


def with_numbers_of(first: object, tree: object) -> Any:
    """`tree` with its own tensors, but with the numbers and other leaves of `first`."""
    if isinstance(first, torch.Tensor):
        return tree
    if isinstance(first, (list, tuple)) and isinstance(tree, (list, tuple)) and len(first) == len(tree):
        items = [with_numbers_of(one, other) for one, other in zip(first, tree, strict=True)]
        return items if isinstance(tree, list) else like(tree, items)
    if isinstance(first, dict) and isinstance(tree, dict) and first.keys() == tree.keys():
        return {key: with_numbers_of(value, tree[key]) for key, value in first.items()}
    return first


def describe(tree: object) -> Any:
    """A nest as shapes, strides and dtypes, which is all that a candidate's process learns of its inputs."""
    if isinstance(tree, torch.Tensor):
        dtype = str(tree.dtype).removeprefix("torch.")
        return {"meta": {"shape": list(tree.shape), "stride": list(tree.stride()), "dtype": dtype}}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return {
            "named": {
                "name": type(tree).__name__,
                "fields": list(tree._fields),
                "items": [describe(item) for item in tree],
            }
        }
    if isinstance(tree, (list, tuple)):
        return {"list" if isinstance(tree, list) else "tuple": [describe(item) for item in tree]}
    if isinstance(tree, dict):
        return {"dict": {key: describe(value) for key, value in tree.items()}}
    return {"value": tree}


class Named(tuple[object, ...]):
    """A named tuple received from a process."""

    names: tuple[str, ...] = ()
    """What `names_of` returns for it."""


def names_of(tree: tuple[object, ...]) -> list[str]:
    """`name=place` for each name of a named tuple, in order, where `place` is that of the item that the name really returns."""
    if isinstance(tree, Named):
        return list(tree.names)
    items, found = list(tuple.__iter__(tree)), []
    for place, name in enumerate(getattr(type(tree), "_fields", ())):
        got = getattr(tree, name, None)
        own = place < len(items) and items[place] is got
        where = place if own else next((n for n, item in enumerate(items) if item is got), -1)
        found.append(f"{name}={where}")
    return found


def skeleton(tree: object) -> object:
    """The nest's structure: tensors as `*`, scalars as themselves, a named tuple's names after its kind."""
    if isinstance(tree, torch.Tensor):
        return "*"
    if isinstance(tree, (list, tuple)):
        kind = "list" if isinstance(tree, list) else " ".join(["tuple", *names_of(tree)])
        return [kind, *(skeleton(item) for item in tree)]
    if isinstance(tree, dict):
        return {key: skeleton(value) for key, value in tree.items()}
    return tree


def fits(one: object, wanted: object) -> bool:
    """Whether two skeletons are equal, with dicts in the same order. A named tuple may replace a plain one if each name returns
    the item at its own place."""
    one = _without_names(one, wanted)
    return one == wanted and list(_keys(one)) == list(_keys(wanted))


def _without_names(form: object, wanted: object) -> object:
    """The skeleton with plain tuples where `wanted` has them."""
    if isinstance(form, list) and isinstance(wanted, list) and form and len(form) == len(wanted):
        kind, *names = str(form[0]).split(" ")
        own = [name.rpartition("=")[2] for name in names] == [str(place) for place in range(len(form) - 1)]
        head = kind if wanted[0] == "tuple" and own else form[0]
        return [head, *map(_without_names, form[1:], wanted[1:])]
    if isinstance(form, dict) and isinstance(wanted, dict):
        return {key: _without_names(value, wanted.get(key)) for key, value in form.items()}
    return form


def _keys(form: object) -> Iterator[object]:
    if isinstance(form, dict):
        yield from form
    parts = form.values() if isinstance(form, dict) else form if isinstance(form, list) else ()
    for part in parts:
        yield from _keys(part)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same numbers to the last bit; all NaNs are equal."""
    if torch.equal(one, other):
        return True
    if not one.is_floating_point() or one.shape != other.shape:
        return False
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def equal_plain(one: object, other: object) -> bool:
    """Whether arguments of a constructor are equal, and of plain types, so that we can tell."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        pairs = zip(one, other, strict=False)
        return (
            type(one) is type(other) and len(one) == len(other) and all(equal_plain(*pair) for pair in pairs)
        )
    return isinstance(one, (bool, int, float, str, type(None))) and type(one) is type(other) and one == other
