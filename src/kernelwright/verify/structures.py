"""Nests of lists, tuples and dicts that hold tensors: arguments and outputs of a module."""

from __future__ import annotations

from typing import Any

import torch


def flatten(tree: Any) -> list[torch.Tensor]:
    """The tensors of a nest of lists, tuples and dicts, in order."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, (list, tuple)):
        return [tensor for item in tree for tensor in flatten(item)]
    if isinstance(tree, dict):
        return [tensor for item in tree.values() for tensor in flatten(item)]
    return []


def convert(tree: Any, function: Any) -> Any:
    """The same nest with every tensor replaced by `function(tensor)`."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, (list, tuple)):
        items = [convert(item, function) for item in tree]
        return items if isinstance(tree, list) else tuple(items)
    if isinstance(tree, dict):
        return {key: convert(value, function) for key, value in tree.items()}
    return tree


def describe(tree: Any) -> Any:
    """A nest as shapes, strides and dtypes: all that a candidate's process learns of its inputs."""
    if isinstance(tree, torch.Tensor):
        dtype = str(tree.dtype).removeprefix("torch.")
        return {"meta": {"shape": list(tree.shape), "stride": list(tree.stride()), "dtype": dtype}}
    if isinstance(tree, (list, tuple)):
        return {"list" if isinstance(tree, list) else "tuple": [describe(item) for item in tree]}
    if isinstance(tree, dict):
        return {"dict": {key: describe(value) for key, value in tree.items()}}
    return {"value": tree}


def skeleton(tree: Any) -> Any:
    """The nest's form: tensors as `*`, scalars as themselves."""
    if isinstance(tree, torch.Tensor):
        return "*"
    if isinstance(tree, (list, tuple)):
        return [type(tree).__name__.replace("Size", "tuple"), *(skeleton(item) for item in tree)]
    if isinstance(tree, dict):
        return {key: skeleton(value) for key, value in tree.items()}
    return tree
