"""What a call to a module must leave unchanged: training modes of its parts, `requires_grad`, and the form of its inputs.

Not checked: values, hooks, and tensors' attributes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from kernelwright.verify.structures import containers, flatten

MODES, LEARNS, INPUTS = "modes", "learns", "inputs"
"""Kinds of changes that a call may make."""


class Held:
    """A snapshot of a module and of the inputs it is about to get."""

    def __init__(self, module: torch.nn.Module, inputs: object) -> None:
        parts = list(torch.nn.Module.named_modules(module))
        with torch._C.DisableTorchFunction():
            tensors = flatten(inputs)
            self._modes = [(name, part, vars(part).get("training")) for name, part in parts]
            learning = {f"input {number}": one for number, one in enumerate(tensors)}
            for name, part in parts:
                for own, one in vars(part)["_parameters"].items():
                    if one is not None:
                        learning[f"{name}.{own}".lstrip(".")] = one
            self._learning = [(name, one, one.requires_grad) for name, one in learning.items()]
            self._forms = [(number, one, _form(one)) for number, one in enumerate(tensors)]
            self._nests = [(nest, list(_items(nest))) for nest in containers(inputs)]

    def changed(self) -> dict[str, str]:
        """What differs from the snapshot now: kind -> description."""
        found = {}
        with torch._C.DisableTorchFunction():
            for name, part, before in self._modes:
                if vars(part).get("training") != before:
                    found[MODES] = f"`training` of {name or 'the module'}"
            for name, one, required in self._learning:
                if one.requires_grad != required:
                    found[LEARNS] = f"`requires_grad` of {name}"
            for number, one, form in self._forms:
                if _form(one) != form:
                    found[INPUTS] = f"the shape, strides or memory of input {number}"
            for nest, items in self._nests:
                now = list(_items(nest))
                if len(now) != len(items) or any(
                    one is not other for one, other in zip(now, items, strict=True)
                ):
                    found[INPUTS] = f"a {type(nest).__name__} among the inputs"
        return found


@contextlib.contextmanager
def note_changes(found: set[str], module: torch.nn.Module, inputs: object) -> Iterator[None]:
    """Add to `found` the kinds of changes made in this block."""
    held = Held(module, inputs)
    yield
    found.update(held.changed())


def _form(tensor: torch.Tensor) -> tuple[object, ...]:
    memory = tensor.untyped_storage()._cdata
    return tensor.shape, tensor.stride(), int(tensor.storage_offset()), tensor.dtype, memory


def _items(nest: object) -> Iterator[object]:
    """Elements of a list, or keys and values of a dict, in order."""
    if isinstance(nest, dict):
        for key, value in dict.items(nest):
            yield key
            yield value
    elif isinstance(nest, list):
        yield from list.__iter__(nest)
