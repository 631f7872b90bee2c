"""Whether a task's source is exactly what `task.py` prints for its graph, so that strangers' tasks can be judged.

Calls, constants and names must equal the printed text. Only the lines that draw arguments may differ, since they depend on
the captured values: each must be one expression of a few torch functions over numbers and sizes.

Does not guarantee small sizes: the caller that runs the source must bound its memory and time.
"""

from __future__ import annotations

import ast

from pydantic import ValidationError

from kernelwright.graph import draws, task
from kernelwright.graph.execute import DTYPES
from kernelwright.graph.types import Graph
from kernelwright.records import Task

_FUNCTIONS = frozenset(["rand", "randn", "randint", "tensor", "full", "ones", "where"])
_METHODS = frozenset(["tril", "triu", "softmax", "log_softmax", "permute", "to"])
_KEYWORDS = frozenset(["dtype"])
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)


def is_printed(one: Task) -> bool:
    """Whether `one.graph` is a graph, and `one.source` its printed text up to the lines that draw arguments."""
    try:
        graph = Graph.model_validate_json(one.graph)
        printed = task.source(graph, draws.describe(graph)).splitlines()
    except (ValidationError, ValueError, KeyError, SyntaxError):
        return False
    given = one.source.splitlines()
    start = next(at for at, line in enumerate(printed) if line == "def get_inputs():") + 2
    drawn = range(start, start + len(graph.arguments))
    symbols = {symbol.name.upper() for symbol in graph.symbols}
    return len(given) == len(printed) and all(
        line == theirs or (at in drawn and _draws(theirs, symbols))
        for at, (line, theirs) in enumerate(zip(printed, given, strict=True))
    )


def _draws(line: str, symbols: set[str]) -> bool:
    """Whether a line is one expression that draws a value, followed by a comma."""
    text = line.strip()
    if not text.endswith(",") or line[:8].strip():
        return False
    try:
        return _is_draw(ast.parse(text[:-1], mode="eval").body, symbols)
    except SyntaxError:
        return False


def _is_draw(node: ast.expr, symbols: set[str]) -> bool:
    def all_are(*nodes: ast.expr) -> bool:
        return all(_is_draw(one, symbols) for one in nodes)

    match node:
        case ast.Constant(value=bool() | int() | float() | None):
            return True
        case ast.Name(id=name):
            return name in symbols
        case ast.Attribute(value=ast.Name(id="torch"), attr=name):
            return name in DTYPES
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return all_are(*elts)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return all_are(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return isinstance(op, _OPERATORS) and all_are(left, right)
        case ast.Compare(left=left, ops=[ast.Lt()], comparators=[right]):
            return all_are(left, right)
        case ast.Call(
            func=ast.Name(id="float"), args=[ast.Constant(value="inf" | "-inf" | "nan")], keywords=[]
        ):
            return True
        case ast.Call(func=ast.Name(id="min" | "max"), args=args, keywords=[]):
            return all_are(*args)
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=keywords):
            of_torch = isinstance(owner, ast.Name) and owner.id == "torch"
            known = name in _FUNCTIONS if of_torch else name in _METHODS and all_are(owner)
            named = all(one.arg in _KEYWORDS and all_are(one.value) for one in keywords)
            return known and named and all_are(*args)
    return False
