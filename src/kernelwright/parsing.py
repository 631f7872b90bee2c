"""Source as a tree, in several threads, and edits of it by its tree that keep the layout.

Python 3.11 counts the depth of a tree in one place for all threads, and where a collection of garbage lets another one
in, both fail with "recursion depth mismatch" (python/cpython#106905).
"""

import ast
import re
import threading
from collections.abc import Callable, Iterable, Mapping

_ONE_AT_A_TIME = threading.Lock()

Span = tuple[int, int]
"""First byte, and the byte after the last."""
Edit = tuple[int, int, str]
"""First byte, the byte after the last, and the new text."""


def parse(source: str) -> ast.Module:
    """The tree of a module. Raises what `ast.parse` raises."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)


def callee(node: ast.Call) -> str:
    """The last part of what is called: `relu` for `torch.nn.functional.relu(x)`."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def names_within(node: ast.AST, *contexts: type[ast.expr_context]) -> list[str]:
    """Names in a tree, one for each time that it stands there: all, or those in a context, such as `ast.Store`."""
    found = (one for one in ast.walk(node) if isinstance(one, ast.Name))
    return [one.id for one in found if isinstance(one.ctx, contexts or ast.expr_context)]


def rename_within(node: ast.AST, new: Mapping[str, str]) -> None:
    """Give names in a tree others, in place."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            one.id = new.get(one.id, one.id)


def is_kernel(node: ast.AST) -> bool:
    """Whether a function is decorated as one of Triton's."""
    return isinstance(node, ast.FunctionDef) and any(
        getattr(part, "attr", getattr(part, "id", "")) == "jit"
        for one in node.decorator_list
        for part in ast.walk(one)
    )


def method_of(node: ast.ClassDef, name: str = "__init__") -> ast.FunctionDef | None:
    """The class's own method of that name, where it has one."""
    functions = (one for one in node.body if isinstance(one, ast.FunctionDef))
    return next((one for one in functions if one.name == name), None)


def spans(code: str) -> Callable[[ast.AST], Span]:
    """A function from a node of `code`'s tree to where it stands."""
    # Python's own line ends: form feeds end none.
    starts = [0, *(found.end() for found in re.finditer(rb"\r\n|\r|\n", code.encode()))]

    def span(node: ast.AST) -> Span:
        first, last = starts[node.lineno - 1], starts[node.end_lineno - 1]  # type: ignore[attr-defined]
        return first + node.col_offset, last + node.end_col_offset  # type: ignore[attr-defined]

    return span


def apply_edits(code: str, edits: Iterable[Edit]) -> str:
    """`code` with edits made that do not overlap."""
    text = code.encode()
    for start, end, new in sorted(set(edits), reverse=True):
        text = text[:start] + new.encode() + text[end:]
    return text.decode()
