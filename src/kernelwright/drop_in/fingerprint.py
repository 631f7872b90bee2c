"""The state of a module when its kernel was verified, compared before every call.

    fingerprint = Fingerprint(module)
    fingerprint.changed()          empty while nothing has changed, else the change in one line

Watched in every submodule: its class and that class's forward, its submodules, hooks, attributes (containers and
configuration objects by contents, tensors by version), its parameters' and buffers' names, dtypes, shapes and ties; and the
globals and closures read by its forward and by the functions and methods it calls (`reads.py`). Values of weights may
change. On the module itself, hooks and wrappers around its forward may come and go, since its caller runs them.

Not seen: what an attribute hides in C (`contents.py`).
"""

from __future__ import annotations

import dataclasses
import operator
import types
from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import nn

from kernelwright.drop_in.contents import contents, plain
from kernelwright.drop_in.reads import Read, names_in, reads

_TABLES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_FREE = frozenset([
    *_TABLES, "training", "_non_persistent_buffers_set", "_is_full_backward_hook", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", *_HOOKS, "_compiled_call_impl", "_is_torch_compile",
])  # fmt: skip
"""Entries of a module's dictionary that are compared separately, or do not affect forward."""
_FREE_OF_ITSELF = _FREE | {"forward"}
"""On the module itself, a wrapper around its forward is its caller's, as hooks are."""


@dataclasses.dataclass
class _Seen:
    """A submodule's state at verification."""

    path: str
    module: nn.Module
    cls: type
    forward: Any
    attributes: dict[str, Any]
    held: list[tuple[str, Any, Any]]
    """Attributes that may change in place: name, value, contents."""
    tables: tuple[dict[str, Any], ...]
    tensors: dict[str, Any]
    modules: dict[str, Any]
    ids: tuple[int, ...] = ()

    def quick(self) -> tuple[int, ...]:
        """Identities: equal while nothing was assigned, added or removed. Takes a few microseconds."""
        d = self.module.__dict__
        parameters, buffers, modules = self.tables
        return (
            *map(id, d.values()),
            *map(id, parameters.values()),
            *map(id, buffers.values()),
            *map(id, modules.values()),
        )


class Fingerprint:
    """The state of a module and all its submodules, except values of weights."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.training = [part.training for part in module.modules()]
        self.tied = _tied(module)
        """Where each tensor with several names is found: the kernels read it under one of them."""
        self.watched = frozenset(map(id, module.modules()))
        self.seen = [_look_at(path, part, self.watched) for path, part in module.named_modules()]
        self.shared: list[tuple[str, Any, Any]] = []
        known: set[int] = set()
        for one in self.seen:
            one.ids = one.quick()
            for name, value, held in one.held:
                if id(value) not in known:
                    known.add(id(value))
                    self.shared.append((f"{one.path}.{name}".lstrip("."), value, held))
        self.read: list[_Known] = []
        """Globals, and values that may change in place."""
        self.classes: list[_Class] = []
        found, followed = reads(module)
        self.by_mode = depends_on_mode(module, followed)
        for read in found:
            self._note(read)

    def _note(self, read: Read) -> None:
        """Record a read. Values in a class that cannot change in place are compared only if the class was assigned to."""
        known = read, contents(read.get(), self.watched)
        if read.home is None or not _is_fixed(read.get()):
            self.read.append(known)
        if read.home is not None:
            of = next((one for one in self.classes if one.home is read.home), None)
            if of is None:
                self.classes.append(of := _Class(read.home, list(vars(read.home).values()), []))
            of.known.append(known)

    def changed(self) -> str:
        """The change since verification, in one line; empty if there is none."""
        for one in self.seen:
            module = one.module
            if type(module) is not one.cls or one.cls.forward is not one.forward:
                return f"the class or forward of {_place(one.path)} was changed"
            if one.path:
                d = module.__dict__
                if any(d[name] for name in _HOOKS):
                    return f"{one.path} has hooks now, which a kernel for the whole would not call"
            if one.quick() != one.ids:
                why = _difference(one)
                if why:
                    return why
                for (table, name), *others in self.tied:
                    if any(other.get(also) is not table.get(name) for other, also in others):
                        return f"{_place(one.path)} or another part has a weight of its own where they shared one"
                one.ids = one.quick()
        if self.by_mode and self.module.training != self.training[0]:
            return f"the module is in {'training' if self.module.training else 'evaluation'} mode, which was not verified"
        if self.by_mode:
            for one, training in zip(self.seen, self.training, strict=True):
                if one.module.training != training:
                    return f"{_place(one.path)} is in another mode than it was verified in"
        for name, value, held in self.shared:
            if contents(value, self.watched) != held:
                return f"attribute {name} was changed"
        assigned = [one for of in self.classes if of.changed() for one in of.known]
        for read, was in (*self.read, *assigned):
            if contents(read.get(), self.watched) != was:
                return f"{read.name}, which a forward reads, was changed"
        return ""


_Known = tuple[Read, Any]
"""A read, and its contents at verification."""


@dataclasses.dataclass
class _Class:
    """A user-defined class at verification."""

    home: type
    values: list[Any]
    """Values of its attributes, kept alive so that no other object can reuse their identities."""
    known: list[_Known]

    def changed(self) -> bool:
        values = vars(self.home).values()
        return len(values) != len(self.values) or any(map(operator.is_not, values, self.values))


def _is_fixed(value: Any) -> bool:
    """Whether a value in a class can only change by assignment."""
    return plain(value) or isinstance(value, staticmethod | classmethod | property)


def find_hooked(module: nn.Module) -> str:
    """Path of the first submodule with hooks, or empty; the module's own hooks are ignored."""
    for path, part in module.named_modules():
        if path and any(part.__dict__[name] for name in _HOOKS):
            return path
    return ""


def depends_on_mode(module: nn.Module, followed: Iterable[types.FunctionType]) -> bool:
    """Whether `train()` and `eval()` may make a difference: a method of a part's class or base classes, or one of the
    functions that forwards call, names `training`."""
    classes = {cls for part in module.modules() for cls in type(part).__mro__} - {*nn.Module.__mro__}
    own = (one for cls in classes for one in vars(cls).values() if isinstance(one, types.FunctionType))
    return any("training" in names_in(one.__code__) for one in (*own, *followed))


def _look_at(path: str, module: nn.Module, watched: Collection[int]) -> _Seen:
    d = module.__dict__
    attributes = {
        name: value for name, value in d.items() if name not in (_FREE if path else _FREE_OF_ITSELF)
    }
    held = [(name, value, contents(value, watched)) for name, value in attributes.items() if not plain(value)]
    tables = tuple(d[name] for name in _TABLES)
    tensors = {name: _spec(one) for table in tables[:2] for name, one in table.items()}
    return _Seen(
        path, module, type(module), type(module).forward, attributes, held, tables, tensors, dict(tables[2])
    )


def _difference(one: _Seen) -> str:
    """What was assigned, added or removed, in one line; empty if values are equal."""
    d = one.module.__dict__
    where = f"{one.path}." if one.path else ""
    free = _FREE if one.path else _FREE_OF_ITSELF
    if one.path and "forward" in d and "forward" not in one.attributes:
        return f"the forward of {_place(one.path)} was replaced"
    if tuple(map(id, (d[name] for name in _TABLES))) != tuple(map(id, one.tables)):
        return f"the parameters or submodules of {_place(one.path)} were replaced as a whole"
    now = {name: value for name, value in d.items() if name not in free}
    for name in {**one.attributes, **now}:
        if (name in now) != (name in one.attributes):
            return f"attribute {where}{name} was {'added' if name in now else 'removed'}"
        if now[name] is not one.attributes[name] and not _equal(now[name], one.attributes[name]):
            return f"attribute {where}{name} was changed"
    modules = one.tables[2]
    for name in {**one.modules, **modules}:
        if modules.get(name) is not one.modules.get(name):
            return f"submodule {where}{name} was replaced, added or removed"
    tensors = {name: _spec(value) for table in one.tables[:2] for name, value in table.items()}
    for name in {**one.tensors, **tensors}:
        if tensors.get(name) != one.tensors.get(name):
            return f"{where}{name} has another type, dtype or shape, or is new or gone"
    return ""


def _tied(module: nn.Module) -> list[list[tuple[dict[str, Any], str]]]:
    """For each weight or buffer with several names, the tables and keys."""
    places: dict[int, list[tuple[dict[str, Any], str]]] = {}
    for part in module.modules():
        for table in (part._parameters, part._buffers):
            for name, value in table.items():
                if value is not None:
                    places.setdefault(id(value), []).append((table, name))
    return [found for found in places.values() if len(found) > 1]


def _spec(value: torch.Tensor | None) -> Any:
    """The properties of a weight that must not change."""
    return None if value is None else (type(value), value.dtype, tuple(value.shape))


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and plain(one) and not callable(one) and bool(one == other)


def _place(path: str) -> str:
    return path or "the module"
