"""Normal forms of Python source, so that two texts of one program count once.

Names that the module itself binds are numbered in order of appearance, docstrings go, and so do the values of
module-level integer constants (sizes). What a module takes from elsewhere (`torch.relu`, `tl.load`) stays.
Does not see through algebra or statement order.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Sequence


@functools.lru_cache(maxsize=16384)
def normal_form(code: str) -> str:
    """A canonical dump of `code`'s syntax tree. Raises SyntaxError."""
    tree = ast.parse(code)
    _strip(tree)
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


def _strip(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:] or [ast.Pass()]
    for statement in tree.body:
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.Assign) and isinstance(value, ast.Constant):
            value.value = 0 if type(value.value) is int else value.value
