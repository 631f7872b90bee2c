"""The rules of `static_rules.toml`: what a kernel file may import, and which members no honest kernel needs.

A path is a dotted name that starts at an imported module, such as `torch.cuda.graph`. Nothing is imported here.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import tomllib
from pathlib import Path

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
PACKAGES = frozenset(["torch", "triton", "numpy", "einops"])
STANDARD, _HIDDEN = (
    {name: frozenset(words.split()) for name, words in _TABLES[table].items()}
    for table in ("standard", "hidden")
)
TENSORS = {name: frozenset(words.split()) for name, words in _TABLES["tensors"].items()}
"""Public attributes of `torch.Tensor` that are no operators, by kind."""
NAMED = {name: frozenset(words.split()) for name, words in _TABLES.items() if isinstance(words, str)}
"""The tables that are plain lists of words."""
SUPER_DUNDERS = NAMED["dunders"] | {"__getattr__", "__setattr__", "__delattr__", "__init_subclass__"}
"""Dunders allowed on `super()`."""
_ASKING = frozenset(["get", "is", "are", "has", "can", "current"])
_ASKED = frozenset(["enabled", "disabled", "available", "allowed", "supported", "threads", "count", "info"])
"""First and last words in the names of functions that ask."""
_OF_STREAMS = (["isatty"], ["write"], ["flush"])
_MODULES = sys.stdlib_module_names | {"bltns", "torch", "triton", "numpy", "np", "sympy"}


def forbidden(path: str) -> str:
    """Why kernel files may not use a path, or an empty string."""
    root, _, rest = path.partition(".")
    if root not in STANDARD and root not in PACKAGES:
        return f"`{root}`: only torch, triton, numpy, einops and pure helpers of the standard library"
    if not rest:
        return ""
    if path in NAMED["known"]:
        return ""
    parts = rest.split(".")
    if any(part.startswith("_") and not part.endswith("__") for part in parts):
        return f"`{path}` is private"
    # `copy.copy` and its kind are functions, not modules.
    first = 2 if parts[0] in STANDARD.get(root, ()) else 1
    for count in range(first, len(parts) + 1):
        below = ".".join([root, *parts[:count]])
        if parts[count - 1] in _MODULES and below not in NAMED["namesakes"]:
            return f"`{below}` leads to another module"
    if root in STANDARD and not ({"*", parts[0]} & STANDARD[root]):
        return f"`{root}.{parts[0]}` is not needed by a kernel"
    if parts[:1] == ["path"] and root == "os" and len(parts) > 1 and parts[1] not in NAMED["paths"]:
        return f"`{path}` looks at the files of this machine"
    hidden = _HIDDEN.get(root, frozenset())
    shown = any(f"{known}.".startswith(f"{path}.") for known in NAMED["shown"])
    if not shown and any(".".join(parts[:count]) in hidden for count in range(1, len(parts) + 1)):
        return f"`{path}` is not allowed in a kernel file"
    if root == "numpy" and parts[-1].startswith("get"):
        return f"`{path}` asks about numpy's state: what a kernel computes does not depend on it"
    if root == "sys" and parts[0] in ("stdout", "stderr") and parts[1:2] not in (*_OF_STREAMS, []):
        return f"`{path}` tells who runs the process"
    if root == "torch" and _global_switch(parts):
        return f"`{path}` changes torch for everyone"
    if root == "torch" and question(path) and not _among(path, NAMED["questions"]):
        return f"`{path}` asks about torch's state: what a kernel computes does not depend on it"
    if root == "torch" and parts[0] == "utils" and len(parts) > 1 and parts[1] not in NAMED["utils"]:
        return f"`{path}` is not allowed in a kernel file"
    return ""


def question(path: str) -> bool:
    """Whether a member of torch tells something of its state or build, by its name; not of a tensor or module that is given."""
    parts = path.split(".")
    if "Tensor" in parts or "Module" in parts:
        return False
    name = parts[-1]
    first, _, rest = name.partition("_")
    asks = bool(rest) and first != "set" and (first in _ASKING or rest.rpartition("_")[2] in _ASKED)
    return asks or (parts[1:2] == ["backends"] and len(parts) > 3)


def _among(path: str, known: frozenset[str]) -> bool:
    """Whether a path or what it is a member of is among those known."""
    parts = path.split(".")
    return any(".".join(parts[:count]) in known for count in range(2, len(parts) + 1))


def _global_switch(parts: list[str]) -> bool:
    if parts[0] == "backends":
        return parts[-1].startswith(("enable_", "set_", "preferred_"))
    hooks = any(part.startswith("register_module_") for part in parts)
    return hooks or any(part.startswith("set_") and part not in NAMED["setters"] for part in parts)


@functools.cache
def private_names(of_self: bool) -> frozenset[str]:
    """Private names that every module of torch has, or every tensor unless asked `of_self`, less those that kernel files may read."""
    import torch

    names = {*vars(torch.nn.Module()), *dir(torch.nn.Module)} | (set() if of_self else {*dir(torch.Tensor)})
    return frozenset(name for name in names if name[:1] == "_" and name[:2] != "__") - NAMED["private"]


@functools.cache
def is_module(path: str) -> bool:
    """Whether a path names a module (judged by the installed files) or the like, such as `os.environ`."""
    if path in STANDARD or path in PACKAGES or path in ("os.environ", "os.path", "collections.abc"):
        return True
    root, *parts = path.split(".")
    if root not in PACKAGES:
        return False
    spec = importlib.util.find_spec(root)
    if spec is None or spec.origin is None:
        return False
    place = os.path.join(os.path.dirname(spec.origin), *parts)
    return os.path.isdir(place) or os.path.isfile(f"{place}.py")
