"""What a candidate's Python may ask of tensors and of the software it runs on, answered otherwise.

The table `[tensors]` in `static_rules.toml` classifies every public attribute of `torch.Tensor` that is no operator. Questions that no
case of a task answers in another way (whether a tensor is sparse, pinned, negated lazily), and versions, are answered otherwise
here: a module that is built and called under other answers launches the same, or is right there, too.

Not guaranteed: what a file learns of versions by trying (`hasattr`), and versions that no row of `_INSTALLED` has.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import random
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import torch
import triton

from kernelwright.verify.static_rules import TENSORS

_INSTALLED = (
    "torch 1.13.1 triton 2.0.0 python 3.8.18 cuda 11.7",
    "torch 2.0.1 triton 2.0.0 python 3.9.18 cuda 11.8",
    "torch 2.2.2 triton 2.2.0 python 3.10.14 cuda 12.1",
    "torch 2.3.1 triton 2.3.1 python 3.10.14 cuda 12.1",
    "torch 2.4.1 triton 3.0.0 python 3.11.9 cuda 12.4",
    "torch 2.6.0 triton 3.2.0 python 3.12.9 cuda 12.6",
    "torch 2.7.1 triton 3.3.1 python 3.12.11 cuda 12.8",
    "torch 2.9.1 triton 3.5.1 python 3.13.9 cuda 12.8",
    "torch 2.11.0 triton 3.7.0 python 3.14.2 cuda 13.0",
    "torch 3.1.0 triton 4.1.0 python 3.16.1 cuda 14.1",
)
"""Installations as users have them, older and newer."""
_VERSIONS = frozenset(["__version__", "version", "version_info", "torch_version"])
_MOST_AT_ONCE = 3
"""All combinations of so many questions are answered otherwise; of more, some."""
_FLIPPED = frozenset(TENSORS["otherwise"])


def asked(code: str, dice: random.Random) -> list[tuple[str, ...]]:
    """For a file, the sets of questions that are to be answered otherwise at once, some drawn; empty if it asks none."""
    tree = ast.parse(code)
    names = {one for node in ast.walk(tree) for one in _names(node)}
    flipped = sorted(names & _FLIPPED)
    sets = [
        one
        for count in range(1, _MOST_AT_ONCE + 1)
        for one in itertools.combinations(flipped, count)
        if len(flipped) <= _MOST_AT_ONCE or count == 1
    ]
    if len(flipped) > _MOST_AT_ONCE:
        sets += [tuple(flipped), *(tuple(one for one in flipped if dice.random() < 0.5) for _ in range(8))]
    return sets + [(row,) for row in (_INSTALLED if names & _VERSIONS else ())]


def _names(node: ast.AST) -> list[str]:
    """The names of attributes and imports in a node, texts included (`getattr`)."""
    if isinstance(node, ast.ImportFrom):
        return [*str(node.module).split("."), *(one.name for one in node.names)]
    if isinstance(node, ast.MatchClass):
        return node.kwd_attrs
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    return [node.attr] if isinstance(node, ast.Attribute) else []


def _flip(name: str) -> Callable[[object], object]:
    """The other answer to a question, from the usual one."""
    if name == "layout":
        return lambda usual: torch.sparse_coo if usual == torch.strided else torch.strided
    if name == "name":
        return lambda usual: None if usual else "x"
    if name == "grad_dtype":
        return lambda usual: torch.float64 if usual != torch.float64 else torch.float32
    return lambda usual: not usual if isinstance(usual, bool | None) else int(usual == 0)


def _functions(name: str) -> list[Any]:
    """What a mode for torch functions is told when a question is asked: of a tensor, or of torch about a tensor."""
    own = getattr(torch.Tensor, name, None)
    known = [own if callable(own) else getattr(own, "__get__", None), getattr(torch, name, None)]
    return [one for one in known if callable(one)]


FLIPS = {function: (name, _flip(name)) for name in sorted(_FLIPPED) for function in _functions(name)}
"""By what a mode is told: the question's name, and its other answer from the usual one."""


class _PythonVersion(NamedTuple):
    major: int
    minor: int
    micro: int
    releaselevel: str = "final"
    serial: int = 0


_PythonVersion.__name__ = _PythonVersion.__qualname__ = "version_info"


@contextlib.contextmanager
def versions_of(otherwise: Collection[str]) -> Iterator[None]:
    """Let torch, Triton and Python report the versions of an installation that is among the questions answered `otherwise`."""
    row = next((one for one in otherwise if one in _INSTALLED), None)
    if row is None:
        yield
        return
    words = row.split()
    told = dict(zip(words[::2], words[1::2], strict=True))
    build = str(torch.__version__).partition("+")[2]
    major, minor, micro = map(int, told["python"].split("."))
    changes: list[tuple[Any, str, object]] = [
        (torch, "__version__", torch.torch_version.TorchVersion(f"{told['torch']}+{build}")),
        (torch.version, "__version__", f"{told['torch']}+{build}"),
        (torch.version, "cuda", torch.version.cuda and told["cuda"]),
        (triton, "__version__", told["triton"]),
        (sys, "version_info", _PythonVersion(major, minor, micro)),
        (sys, "version", told["python"] + sys.version[sys.version.index(" ") :]),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    try:
        for owner, name, value in changes:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
