"""Normal forms of Python source, so that two texts of one program count once.

Names that the module itself binds are numbered in order of appearance, docstrings go, and so do the values of
module-level integer constants (sizes). What a module takes from elsewhere (`torch.relu`, `tl.load`) stays.
Does not see through algebra or statement order.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections.abc import Sequence


@functools.lru_cache(maxsize=16384)
def normal_form(code: str, keep_sizes: bool = False, keep_warps: bool = True) -> str:
    """A canonical dump of `code`'s syntax tree. Raises SyntaxError.

    `keep_sizes` keeps module-level integers, for kernels, whose tile sizes make them different programs;
    `keep_warps` keeps the number of warps and stages of a launch.
    """
    tree = ast.parse(code)
    _strip(tree, keep_sizes, keep_warps)
    nodes = list(ast.walk(tree))
    bound = _bound(nodes)
    numbers: dict[str, str] = {}
    for node in nodes:
        for field in ("id", "arg", "name"):
            name = getattr(node, field, None)
            if isinstance(name, str) and name in bound:
                setattr(node, field, numbers.setdefault(name, f"v{len(numbers)}"))
        if isinstance(node, ast.Attribute) and node.attr in bound:
            node.attr = numbers.setdefault(node.attr, f"v{len(numbers)}")
    return ast.dump(tree)


_NUMBER = re.compile(r"Constant\(value=-?[\d.]+(e[-+]?\d+)?\)")


@functools.lru_cache(maxsize=64)
def numberless(form: str) -> str:
    """A normal form with every number left out."""
    return _NUMBER.sub("#", form)


@functools.lru_cache(maxsize=64)
def kernel_forms(code: str) -> frozenset[str]:
    """Digests of the normal forms of the functions under `@triton.jit` in `code`. Raises SyntaxError."""
    return frozenset(
        digest(normal_form(ast.unparse(node), keep_sizes=True))
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(mark).startswith("triton.jit") for mark in node.decorator_list)
    )


def digest(*parts: str) -> str:
    """16 hex digits over several texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


KEPT = frozenset({"Model", "ModelNew", "forward", "get_inputs", "get_init_inputs", "__init__", "self"})


def _bound(nodes: Sequence[ast.AST]) -> set[str]:
    """Names assigned, defined or taken as parameters anywhere in the module, attributes of `self` among them."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names - KEPT


def _strip(tree: ast.Module, keep_sizes: bool, keep_warps: bool) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.Call) and not keep_warps:
            node.keywords = [word for word in node.keywords if word.arg not in ("num_warps", "num_stages")]
    for statement in tree.body:
        value = getattr(statement, "value", None)
        if not keep_sizes and isinstance(statement, ast.Assign) and isinstance(value, ast.Constant):
            value.value = 0 if type(value.value) is int else value.value
