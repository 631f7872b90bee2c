"""Loads a user's function named in a recipe as `my_file.py:function`: a reward, an advantage, a source of data.

The file is executed on first use, with the rights of this process: it is the user's own code, not a candidate's. A path is
relative to the working directory. Errors are one line that names the key and the fix.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import sys
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelwright.errors import UserError, one_line

FORM = "my_file.py:function"


def names_function(spec: str) -> bool:
    """Whether `spec` names a function in a file, rather than a built-in."""
    return ".py:" in spec or spec.endswith(".py")


def load(spec: str, key: str) -> Callable[..., Any]:
    """The function named by the recipe's `key`. Raises UserError if there is none."""
    place, colon, name = spec.rpartition(":")
    if not colon or not place.endswith(".py") or not name.isidentifier():
        raise UserError(f"{key} = {spec!r} names no function in a file; write {FORM}")
    path = Path(place).expanduser()
    if not path.is_file():
        raise UserError(f"{key} = {spec!r}: there is no file {path} in {Path.cwd()}; write its path")
    module = _run(path.resolve(), path.stat().st_mtime_ns, key)
    function = getattr(module, name, None)
    if not callable(function):
        there = sorted(n for n, value in vars(module).items() if inspect.isfunction(value) and n[0] != "_")
        raise UserError(f"{key}: {path} has no function {name}; it has {', '.join(there) or 'none'}")
    return function


def call(function: Callable[..., Any], spec: str, key: str, *given: Any, **context: Any) -> Any:
    """Call a user's function. Of `context`, passes what its parameters name. Raises UserError if it raises."""
    wanted = {name: value for name, value in context.items() if name in _parameters(function)}
    try:
        return function(*given, **wanted)
    except Exception as error:  # a user's code may raise anything, and the user must fix it
        raise UserError(
            f"{key} = {spec!r} raised {_where(error)}; fix it, then go on with --resume"
        ) from None


def module_of(code: str, name: str) -> types.ModuleType:
    """Execute text in this process as a module of that name; Triton can read its source. Raises what the text raises."""
    module, path = types.ModuleType(name), f"<{name}>.py"
    linecache.cache[path] = (len(code), None, code.splitlines(keepends=True), path)
    module.__file__, sys.modules[name] = path, module
    exec(compile(code, path, "exec"), module.__dict__)
    return module


@functools.lru_cache(maxsize=64)
def _run(path: Path, changed: int, key: str) -> types.ModuleType:
    module = types.ModuleType(f"kernelwright_user_{path.stem}")
    module.__file__ = str(path)
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    except Exception as error:  # a user's code may raise anything, and the user must fix it
        raise UserError(f"{key}: {path.name} raised {_where(error)} when it was loaded; fix it") from None
    return module


@functools.lru_cache(maxsize=64)
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def _where(error: Exception) -> str:
    """`TypeError: ... (line 3)`."""
    frames = traceback.extract_tb(error.__traceback__)
    line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
    text = one_line(error.msg if isinstance(error, SyntaxError) else error)
    return f"{type(error).__name__}: {text} (line {line})"
