"""Thread-safe parsing of source, and edits by syntax tree that preserve the layout.

Python 3.11 tracks a tree's depth in one counter for all threads; if garbage collection switches threads meanwhile, both
fail with "recursion depth mismatch" (python/cpython#106905).
"""

import ast
import copy
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

_ONE_AT_A_TIME = threading.Lock()

Tree = TypeVar("Tree", bound=ast.AST)
Span = tuple[int, int]
"""First byte, and one past the last."""
Edit = tuple[int, int, str]
"""First byte, one past the last, and the new text."""


def parse(source: str) -> ast.Module:
    """The syntax tree of a module. Raises what `ast.parse` raises."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)


def callee(node: ast.Call) -> str:
    """The last part of a call's function: `relu` for `torch.nn.functional.relu(x)`."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def is_name(node: ast.AST, name: str) -> bool:
    """Whether a node is that name."""
    return isinstance(node, ast.Name) and node.id == name


def names_within(node: ast.AST, *contexts: type[ast.expr_context]) -> list[str]:
    """Names in a tree, one per occurrence: all, or only those in the given contexts, such as `ast.Store`."""
    found = (one for one in ast.walk(node) if isinstance(one, ast.Name))
    return [one.id for one in found if isinstance(one.ctx, contexts or ast.expr_context)]


def rename_within(node: ast.AST, new: Mapping[str, str]) -> None:
    """Rename names in a tree, in place."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            one.id = new.get(one.id, one.id)


def substitute(tree: Tree, values: Mapping[str, ast.expr]) -> Tree:
    """Replace names that a tree reads by copies of expressions, in place. Returns the tree, or what replaces it."""

    class Put(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            put = node.id in values and isinstance(node.ctx, ast.Load)
            return copy.deepcopy(values[node.id]) if put else node

    made: Tree = Put().visit(tree)
    return made


def is_kernel(node: ast.AST) -> bool:
    """Whether a function is decorated as a Triton kernel."""
    return isinstance(node, ast.FunctionDef) and any(
        getattr(part, "attr", getattr(part, "id", "")) == "jit"
        for one in node.decorator_list
        for part in ast.walk(one)
    )


def method_of(node: ast.ClassDef, name: str = "__init__") -> ast.FunctionDef | None:
    """The class's own method of that name, if it has one."""
    functions = (one for one in node.body if isinstance(one, ast.FunctionDef))
    return next((one for one in functions if one.name == name), None)


def spans(code: str) -> Callable[[ast.AST], Span]:
    """A function that maps a node of `code`'s tree to its byte span."""
    # Python's own line ends, which exclude form feeds.
    starts = [0, *(found.end() for found in re.finditer(rb"\r\n|\r|\n", code.encode()))]

    def span(node: ast.AST) -> Span:
        first, last = starts[node.lineno - 1], starts[node.end_lineno - 1]  # type: ignore[attr-defined]
        return first + node.col_offset, last + node.end_col_offset  # type: ignore[attr-defined]

    return span


def apply_edits(code: str, edits: Iterable[Edit]) -> str:
    """`code` after non-overlapping edits."""
    text = code.encode()
    for start, end, new in sorted(set(edits), reverse=True):
        text = text[:start] + new.encode() + text[end:]
    return text.decode()
