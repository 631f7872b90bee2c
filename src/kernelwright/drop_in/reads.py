"""Globals and closures that the forwards of a module read, through the functions and methods that they call.

    for read in reads(module):
        read.name, read.get()        what it is called, and what it is at this moment

By their bytecode: names that a function looks up in its module or its closure, attributes of modules of the user's own
(`settings.SCALE`), and the same of every Python function and method of the user's own that is found so. Functions of
torch and of the standard library are taken as they are.

Not seen: names that are looked up by text (`globals()[name]`), and what a called object keeps for itself.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

_MOST = 400
"""Functions that are followed."""
_GONE = object()


@dataclass(frozen=True)
class Read:
    """One place that a forward reads."""

    name: str
    get: Callable[[], Any]


def reads(module: nn.Module) -> list[Read]:
    """What forwards of a module and all in it read besides the modules, each place once."""
    found: dict[tuple[int, str], Read] = {}
    waiting: list[tuple[types.FunctionType, type | None]] = []
    for part in module.modules():
        if _is_foreign(type(part).__module__):
            continue
        waiting += [(one, type(part)) for one in _functions(type(part).forward)]
        waiting += [(one, None) for value in vars(part).values() for one in _functions(value)]
    done: set[tuple[int, type | None]] = set()
    while waiting and len(done) < _MOST:
        function, owner = waiting.pop()
        if (id(function.__code__), owner) in done:
            continue
        done.add((id(function.__code__), owner))
        for place, read in _read(function, owner):
            value = read.get()
            waiting += [(one, owner if read.name.startswith("self.") else None) for one in _functions(value)]
            if _matters(value):
                found.setdefault(place, read)
    return list(found.values())


def _read(function: types.FunctionType, owner: type | None) -> Iterator[tuple[tuple[int, str], Read]]:
    """Places that one function reads: globals, attributes of user modules, cells, methods of its owner."""
    space = function.__globals__
    for name, attribute in _names(function.__code__):
        if name == "self" and owner is not None:
            if isinstance(getattr(owner, attribute, None), types.FunctionType):
                yield (id(owner), attribute), Read(f"self.{attribute}", partial(getattr, owner, attribute))
        elif name in space:
            yield (id(space), name), Read(name, partial(space.get, name, _GONE))
            inner = space[name]
            if attribute and isinstance(inner, types.ModuleType) and not _is_foreign(inner.__name__):
                yield (
                    (id(inner), attribute),
                    Read(f"{name}.{attribute}", partial(getattr, inner, attribute, _GONE)),
                )
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__":
            yield (id(cell), name), Read(name, partial(_held, cell))


def _names(code: types.CodeType) -> Iterator[tuple[str, str]]:
    """(global name or `self`, attribute that is looked up on it at once or "") in a function and those within it."""
    last = ""
    for one in dis.get_instructions(code):
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            last = str(one.argval)
            yield last, ""
        elif one.opname.startswith("LOAD_FAST") and one.argval == "self":
            last = "self"
        elif one.opname in ("LOAD_ATTR", "LOAD_METHOD") and last:
            yield last, str(one.argval)
            last = ""
        elif not one.opname.startswith(("CACHE", "PRECALL", "PUSH_NULL")):
            last = ""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """The Python functions of the user's own behind a value."""
    value = getattr(value, "__func__", value)
    if isinstance(value, partial):
        value = value.func
    value = getattr(value, "__wrapped__", value)
    if isinstance(value, types.FunctionType) and not _is_foreign(value.__module__ or ""):
        yield value


def _matters(value: Any) -> bool:
    """Whether a value could be another one day without the module's class noticing; modules and classes are taken as given."""
    return value is _GONE or not isinstance(value, types.ModuleType | type | types.BuiltinFunctionType)


def _held(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _GONE


def _is_foreign(name: str) -> bool:
    """Whether a module is torch's or the standard library's."""
    root = name.partition(".")[0]
    return root in ("torch", "triton", "builtins") or (root in sys.stdlib_module_names and root != "__main__")
