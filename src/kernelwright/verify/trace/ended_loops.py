"""A loop's variable after its loop: Triton leaves it undefined, Python's interpreter gives the last value.

`tl.static_range` is unrolled, so its variable keeps its value. Statements are followed in order; after a branch a variable is
undefined if it is on either side.

Does not see what an earlier round of an outer loop left undefined.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from kernelwright.parsing import names_within

_Names = frozenset[str]


def use_after_loop(function: ast.FunctionDef) -> ast.Name | None:
    """The first use of a variable whose loop has ended; None if there is none."""
    return _Followed().block(function.body, frozenset())[1]


class _Followed:
    """Follows statements. Each method returns what is undefined after them, given what is before, and the first use of it."""

    def block(self, statements: Iterable[ast.stmt], ended: _Names) -> tuple[_Names, ast.Name | None]:
        for statement in statements:
            ended, found = self._statement(statement, ended)
            if found is not None:
                return ended, found
        return ended, None

    def _statement(self, statement: ast.stmt, ended: _Names) -> tuple[_Names, ast.Name | None]:
        if isinstance(statement, ast.For):
            own = {*names_within(statement.target)}
            after, found = self.block(statement.body, ended - own)
            left = (ended | after) - own
            return left if _unrolled(statement.iter) else left | own, _use(statement.iter, ended) or found
        if isinstance(statement, ast.While | ast.If):
            first, found = self.block(statement.body, ended)
            second, other = self.block(statement.orelse, ended)
            whole = first | second | (ended if isinstance(statement, ast.While) else frozenset())
            return whole, _use(statement.test, ended) or found or other
        found = _use(statement, ended)
        return ended - {*names_within(statement, ast.Store)}, found


def _unrolled(iterated: ast.expr) -> bool:
    """Whether a loop over this is unrolled."""
    function = iterated.func if isinstance(iterated, ast.Call) else iterated
    return getattr(function, "attr", getattr(function, "id", "")) not in ("range",)


def _use(node: ast.AST, ended: _Names) -> ast.Name | None:
    """The first name of those that a statement or an expression reads."""
    if not ended:
        return None
    updated = node.target if isinstance(node, ast.AugAssign) else None
    own = {
        name
        for part in ast.walk(node)
        if isinstance(part, ast.comprehension)
        for name in names_within(part.target, ast.Store)
    }
    for part in ast.walk(node):
        if not isinstance(part, ast.Name) or part.id not in ended - own:
            continue
        if part is updated or isinstance(part.ctx, ast.Load):
            return part
    return None
