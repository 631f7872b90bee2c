"""Finds what a module's forwards read besides its own attributes, through the functions and methods they call.

    found, followed = reads(module)
    found[0].name, found[0].get()        a name, and its current value

Found in bytecode: names that a function looks up in its Python module or closure, attributes of the user's modules
(`settings.SCALE`), what the classes of a module and of helper objects define under the names that their methods use
(methods, properties, numbers; also in base classes, for `super()`), and the same for every Python function and method of
the user found this way. Functions of torch and of the standard library are not followed.

Not seen: names looked up by text (`globals()[name]`), and defaults of arguments.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import nn

from kernelwright.drop_in.contents import is_foreign

_MOST = 400
"""Most functions that are followed."""
_GONE = object()


@dataclass(frozen=True)
class Read:
    """One place that a forward reads."""

    name: str
    get: Callable[[], Any]
    home: type | None = None
    """The class that defines it, if any."""


Place = tuple[int, str]
Found = tuple[Place, Read, type | None]
"""A read with its place, and the class whose instances its functions take as `self`."""


def reads(module: nn.Module) -> tuple[list[Read], list[types.FunctionType]]:
    """Everything that the forwards of a module and its submodules read outside these, each place once, and the functions that
    were followed."""
    found: dict[Place, Read] = {}
    waiting: list[tuple[types.FunctionType, type | None]] = []

    def keep(places: Iterator[Found]) -> None:
        for place, read, owner in places:
            value = read.get()
            if place not in found and _matters(value):
                found[place] = read
            waiting.extend((one, owner) for one in _functions(value))
            helpers(value)

    def helpers(value: Any, inner: bool = True) -> None:
        """Follow methods of user-defined objects, which a function may call."""
        if isinstance(value, dict | list | tuple) and inner:
            for one in value.values() if isinstance(value, dict) else value:
                waiting.extend((function, None) for function in _functions(one))
                helpers(one, inner=False)
        elif _is_helper(value) and type(value) not in known:
            known.add(type(value))
            keep(_of_class(type(value)))

    known: set[type] = set()
    for part in module.modules():
        if is_foreign(type(part).__module__):
            continue
        keep(_of_class(type(part), ("forward",)))
        for value in vars(part).values():
            waiting += [(one, None) for one in _functions(value)]
            helpers(value)
    done: dict[tuple[int, type | None], types.FunctionType] = {}
    while waiting and len(done) < _MOST:
        function, owner = waiting.pop()
        if (id(function.__code__), owner) not in done:
            done[id(function.__code__), owner] = function
            keep(_read(function, owner))
    return list(found.values()), list(done.values())


def _read(function: types.FunctionType, owner: type | None) -> Iterator[Found]:
    """Places that one function reads: globals, attributes of user modules and classes, cells, definitions in its owner."""
    space = function.__globals__
    if owner is not None:
        yield from _of_class(owner, set(names_in(function.__code__)))
    for name, attribute in _names(function.__code__):
        if name not in space:
            continue
        yield (id(space), name), Read(name, partial(space.get, name, _GONE)), None
        inner = space[name]
        if isinstance(inner, types.ModuleType) and attribute and not is_foreign(inner.__name__):
            read = Read(f"{name}.{attribute}", partial(getattr, inner, attribute, _GONE))
            yield (id(inner), attribute), read, None
        elif isinstance(inner, type) and not issubclass(inner, nn.Module):
            yield from _of_class(inner)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__":
            yield (id(cell), name), Read(name, partial(_contents_of, cell)), None


def _of_class(owner: type, names: Collection[str] = ()) -> Iterator[Found]:
    """Definitions under these names in a class and its user-defined bases; without names, all but dunder ones."""
    for home in owner.__mro__:
        if is_foreign(home.__module__):
            continue
        for name in names or [one for one in vars(home) if one == "__call__" or not one.startswith("__")]:
            if name in vars(home):
                now = partial(lambda home, name: vars(home).get(name, _GONE), home, name)
                yield (id(home), name), Read(f"{home.__name__}.{name}", now, home), owner


def names_in(code: types.CodeType) -> Iterator[str]:
    """Names that a function, including nested ones, looks up on anything."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from names_in(inner)


def _names(code: types.CodeType) -> Iterator[tuple[str, str]]:
    """(global name, attribute looked up on it directly, or empty) in a function and nested ones."""
    last = ""
    for one in dis.get_instructions(code):
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            last = str(one.argval)
            yield last, ""
        elif one.opname in ("LOAD_ATTR", "LOAD_METHOD") and last:
            yield last, str(one.argval)
            last = ""
        elif not one.opname.startswith(("CACHE", "PRECALL", "PUSH_NULL")):
            last = ""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """The user's Python functions behind a value: itself, and the one it wraps."""
    if isinstance(value, property):
        yield from _functions(value.fget)
        return
    value = value.func if isinstance(value, partial | cached_property) else value
    value = getattr(value, "__func__", value)
    hashable = callable(value) and type(value).__hash__ is not None
    for one in {value, getattr(value, "__wrapped__", value)} if hashable else ():
        if isinstance(one, types.FunctionType) and not is_foreign(one.__globals__.get("__name__") or ""):
            yield one


def _is_helper(value: Any) -> bool:
    """Whether a value is an instance of a user-defined class other than a module."""
    code = type | types.FunctionType | types.ModuleType | nn.Module | torch.Tensor
    return not isinstance(value, code) and not is_foreign(type(value).__module__)


def _matters(value: Any) -> bool:
    """Whether a value may change unnoticed by other checks; modules and classes are assumed not to."""
    return value is _GONE or not isinstance(value, types.ModuleType | type | types.BuiltinFunctionType)


def _contents_of(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _GONE
