"""Checks the form of a reference: readable text, the three names of KernelBench, shape sets that name existing constants.

By syntax tree; nothing is executed, and the reference is not guaranteed to run.
"""

import ast
from collections.abc import Iterable
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.shapes import apply_shape

FORM = "a task defines class Model(nn.Module), get_inputs() and get_init_inputs()"
_FIX = {
    "Model": "add `class Model(nn.Module)` with a forward; `optimize` and `verify` take FILE.py:CLASS as well",
    "get_inputs": "add `def get_inputs(): return [tensors for forward]`",
    "get_init_inputs": "add `def get_init_inputs(): return [constructor arguments]`",
}


class NoForm(UserError):
    """A name that a task defines is missing."""


def read_text(path: Path) -> str:
    """The file as text with `\\n` line ends and no byte-order mark. Raises UserError if missing or not UTF-8."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the path and its rights") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_reference(source: str, where: str) -> str:
    """`source` itself, if its syntax tree has the KernelBench form; else raises UserError with `where`, what and the fix;
    NoForm for a missing name."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise UserError(f"{where}:{error.lineno}: not Python ({error.msg}); fix the syntax") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UserError(
            f"{where}: not Python ({type(error).__name__}); a task is a Python source file"
        ) from None
    defined = {
        node.name: node for node in _top_level(tree.body) if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    for name, fix in _FIX.items():
        kind = ast.ClassDef if name == "Model" else ast.FunctionDef
        if not isinstance(defined.get(name), kind):
            shown = "class Model" if name == "Model" else f"{name}()"
            raise NoForm(f"{where}: no {shown}; {FORM}: {fix}")
    return source


def check_shapes(task: Task, where: str) -> Task:
    """`task` itself, if every shape set names constants of its source; else raises UserError."""
    for name, overrides in task.shapes.items():
        try:
            apply_shape(task.source, overrides)
        except UserError as error:
            raise UserError(f"{where}: [shapes.{name}]: {error}") from None
    return task


def _top_level(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """Statements at module level, including those under a top-level `if` or `try`."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from _top_level([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            handlers = [statement for handler in node.handlers for statement in handler.body]
            yield from _top_level([*node.body, *handlers, *node.orelse, *node.finalbody])
