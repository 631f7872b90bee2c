"""Finds, in a kernel's text, loops whose variable `rounds.py` can track through everything that Python does with it.

While a kernel is interpreted, the variable is a Python number, and its uses are seen only where its own methods are called. A
Python float on its left hides a use: `2.5 * i` is computed by the float. So loops are skipped if a float may stand there, or
if the variable is passed to a function that is not Triton's.
"""

from __future__ import annotations

import ast

from kernelwright.parsing import names_within


def linear_loops(tree: ast.FunctionDef) -> frozenset[int]:
    """Lines of a kernel's loops in which every use of the variable calls its own methods."""
    names = _Names(tree)
    loops = [
        node for node in ast.walk(tree) if isinstance(node, ast.For) and isinstance(node.target, ast.Name)
    ]
    return frozenset(loop.lineno for loop in loops if _asked_itself(loop, names))


class _Names:
    """Names of a kernel that cannot be Python floats: tensors and loop variables."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
        given = {one.arg for one in arguments if one.annotation is None}
        made: dict[str, bool] = {}
        for node in ast.walk(tree):
            targets, sure = _names_stored(node)
            for name in targets:
                made[name] = made.get(name, True) and sure
        self.sure = {name for name, sure in made.items() if sure} | {
            one for one in given if made.get(one, True)
        }

    def may_be_float(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return isinstance(node.value, float | complex)
        if isinstance(node, ast.Name):
            return node.id not in self.sure
        if isinstance(node, ast.BinOp):
            return self.may_be_float(node.left) or self.may_be_float(node.right)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):  # a tensor is indexed
            return not all(isinstance(one, ast.Slice) or _is_none(one) for one in node.slice.elts)
        return not isinstance(node, ast.UnaryOp) or self.may_be_float(node.operand)


def _names_stored(node: ast.AST) -> tuple[list[str], bool]:
    """Names that a statement or expression stores to, and whether they then surely hold a tensor or a loop variable."""
    if isinstance(node, ast.Assign):
        plain = (
            len(node.targets) == 1
            and isinstance(node.targets[0], ast.Name)
            and not isinstance(node.value, ast.Tuple)
        )
        return [name for target in node.targets for name in names_within(target)], plain
    if isinstance(node, ast.AnnAssign | ast.NamedExpr):
        return names_within(node.target), False
    if isinstance(node, ast.For):
        return names_within(node.target), isinstance(node.target, ast.Name)
    return [], True


def _asked_itself(loop: ast.For, names: _Names) -> bool:
    assert isinstance(loop.target, ast.Name)
    name = loop.target.id
    for node in (inner for statement in loop.body for inner in ast.walk(statement)):
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
            return False
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.BinOp):
            pairs = [(node.left, node.right)]
        elif isinstance(node, ast.AugAssign):
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = [(left, right) for place, left in enumerate(sides) for right in sides[place + 1 :]]
        if any(names.may_be_float(left) and name in names_within(right) for left, right in pairs):
            return False
        if isinstance(node, ast.Call) and not _tritons(node.func):
            handed = [*node.args, *(keyword.value for keyword in node.keywords)]
            if any(name in names_within(one) for one in handed):
                return False
    return True


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _tritons(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "tl"
    )
