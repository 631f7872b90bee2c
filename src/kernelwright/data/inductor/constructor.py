"""The reference's constructor as that of `ModelNew`: same signature, same state, and nothing that computes.

Keeps what `Model.__init__` needs from the module: imports, constants, helper functions, submodule classes without
their `forward`. Pure text in, text out. Raises Fallback where the class does not stand by itself.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from kernelwright.data.inductor.reasons import Fallback

_DROPPED = {"get_inputs", "get_init_inputs", "Model"}


def constructor(source: str) -> tuple[list[str], str]:
    """(statements that must stand before it, one text each; `class ModelNew` with its constructor)."""
    tree = ast.parse(source)
    model = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"), None)
    if model is None:
        raise Fallback("broken task", "no class Model at the top level")
    built = _bare(model)
    built.name = "ModelNew"
    for node in ast.walk(built):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            node.args = []
        elif isinstance(node, ast.Name) and node.id == "Model":
            node.id = "ModelNew"
    needed = _names(built)
    kept: list[ast.stmt] = []
    for statement in reversed(tree.body):
        defined = set(_defined(statement))
        if defined & _DROPPED or not defined & needed:
            continue
        if isinstance(statement, ast.ClassDef):
            statement = _bare(statement)
        needed |= _names(statement)
        kept.insert(0, _only(statement, needed))
    return [ast.unparse(statement) for statement in kept], ast.unparse(built)


def _bare(node: ast.ClassDef) -> ast.ClassDef:
    """The class with its constructor and what that calls, without docstrings."""
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    wanted = ["__init__"] if "__init__" in methods else []
    for name in wanted:
        called = {n.attr for n in ast.walk(methods[name]) if isinstance(n, ast.Attribute)}
        wanted += [
            other for other in methods if other in called and other not in wanted and other != "forward"
        ]
    body: list[ast.stmt] = []
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            if item.name in wanted:
                body.append(_without_docstring(item))
        elif not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)):
            body.append(item)
    bare = copy.copy(node)
    bare.body, bare.decorator_list = body or [ast.Pass()], []
    return bare


def _without_docstring(node: ast.FunctionDef) -> ast.FunctionDef:
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(node.body) > 1:
        node.body = node.body[1:]
    return node


def _only(statement: ast.stmt, needed: set[str]) -> ast.stmt:
    """An import with the names that are needed, and no other."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        statement.names = [n for n in statement.names if (n.asname or n.name.split(".")[0]) in needed]
    return statement


def _defined(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        for item in statement.names:
            yield item.asname or item.name.split(".")[0]
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
