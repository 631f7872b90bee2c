"""Changes a task's sizes: rewrites module-level integer constants of a reference's source.

Text in, text out: nothing is executed, and comments and layout are preserved. A constant is a name assigned at the top level
of the module (`N = 4`, `N: int = 4`, `M, N = 4, 8`); an element of a tuple constant is named `NAME[index]`
(`shape = (32, 64)` has `shape[0]` and `shape[1]`).

Does not guarantee that the rewritten source still runs: sizes may contradict each other.
"""

import ast
import functools
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping

from kernelwright.errors import UserError, did_you_mean
from kernelwright.parsing import Edit, apply_edits, names_within, parse, spans

_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: lambda left, right: left << right if 0 <= right < 64 else 0,
    ast.Pow: lambda left, right: left**right if 0 <= right < 64 else 0,
}
_LARGEST = 2**62
_DRAWING = ("get_inputs", "get_init_inputs")
_ELEMENT = re.compile(r"^(\w+)\[(\d+)\]$")


def constants(source: str) -> dict[str, int]:
    """Module-level integer constants (no bools), including tuple elements, in order of appearance."""
    found: dict[str, int] = {}
    tree = _parse(source)
    for name, value in bindings(tree):
        number = _integer(value)
        if number is not None:
            found[name] = number
    for name, statement in _chained_assignments(tree):
        number = _integer(statement.value)
        if number is not None:
            found[name] = number
    return found


def apply_shape(source: str, overrides: Mapping[str, int]) -> str:
    """`source` with each named module-level constant set to its new value; derived constants follow by themselves.

    >>> apply_shape("N = 4\\nM = 2 * N", {"N": 8})
    'N = 8\\nM = 2 * N'

    Raises UserError for a name that `source` does not assign at its top level, and for unparsable source.
    """
    if not overrides:
        return source
    edits: list[Edit] = []
    pending = dict(overrides)
    span = spans(source)
    tree = _parse(source)
    for name, value in bindings(tree):
        if name in overrides:
            pending.pop(name, None)
            edits.append((*span(value), str(int(overrides[name]))))
    for name, statement in _chained_assignments(tree):
        # `A = B = 4` shares one literal, so the override is appended on the same line instead.
        if name in overrides:
            pending.pop(name, None)
            _, end = span(statement)
            edits.append((end, end, f"; {name} = {int(overrides[name])}"))
    if pending:
        raise UserError(_unknown(min(pending), source))
    edits.sort()
    for (_, end, _), (start, _, _) in itertools.pairwise(edits):
        if start < end:
            raise UserError("shape set: a tuple constant and one of its elements are both set; set only one")
    return apply_edits(source, edits)


def with_named_sizes(source: str, least: int) -> str:
    """`source` with each integer from `least` that its drawing functions write out as a constant at its end; equal ones are one.

    >>> with_named_sizes("def get_inputs(): return [torch.rand(64, 2)]", 5)
    'def get_inputs(): return [torch.rand(SIZE_64, 2)]\\nSIZE_64 = 64\\n'
    """
    span, edits, values = spans(source), [], set()
    tree = _parse(source)
    stack: list[ast.AST] = [
        statement
        for function in tree.body
        if isinstance(function, ast.FunctionDef) and function.name in _DRAWING
        for statement in function.body
    ]
    while stack:
        node = stack.pop()
        number = _integer(node) if isinstance(node, ast.expr) else None
        if number is None:
            stack.extend(ast.iter_child_nodes(node))
        elif number >= least:
            values.add(number)
            edits.append((*span(node), f"SIZE_{number}"))
    known = {name for name, _ in bindings(tree)}
    made = [f"SIZE_{value} = {value}\n" for value in sorted(values) if f"SIZE_{value}" not in known]
    return "\n".join([apply_edits(source, sorted(edits)).rstrip("\n"), "".join(made)]) if made else source


@functools.lru_cache(maxsize=64)
def _parse(source: str) -> ast.Module:
    """The tree, which nobody changes."""
    try:
        return parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        what = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise UserError(f"task source: {where}{what}; fix the Python syntax") from None


def bindings(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """(name, value expression) of every plain top-level binding, including elements of tuple values."""
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            yield from _target(statement.target, statement.value)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            yield from _target(statement.targets[0], statement.value)


def _target(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    sequence = isinstance(value, ast.Tuple | ast.List) and not any(
        isinstance(e, ast.Starred) for e in value.elts
    )
    if isinstance(target, ast.Name):
        yield target.id, value
        if sequence:
            assert isinstance(value, ast.Tuple | ast.List)
            for index, element in enumerate(value.elts):
                yield f"{target.id}[{index}]", element
    elif isinstance(target, ast.Tuple | ast.List) and sequence:
        assert isinstance(value, ast.Tuple | ast.List)
        if len(target.elts) == len(value.elts):
            for part, element in zip(target.elts, value.elts, strict=True):
                yield from _target(part, element)


def _chained_assignments(tree: ast.Module) -> Iterator[tuple[str, ast.Assign]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) > 1:
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement


def _integer(value: ast.expr) -> int | None:
    """The value of an integer literal or of plain arithmetic on such (`2048 * 2`); None for anything else."""
    if isinstance(value, ast.Constant):
        return value.value if type(value.value) is int else None
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        inner = _integer(value.operand)
        return None if inner is None else -inner
    if isinstance(value, ast.BinOp) and type(value.op) in _ARITHMETIC:
        left, right = _integer(value.left), _integer(value.right)
        if left is None or right is None or max(abs(left), abs(right)) > _LARGEST:
            return None
        try:
            result = _ARITHMETIC[type(value.op)](left, right)
        except ZeroDivisionError:
            return None
        return result if abs(result) <= _LARGEST else None
    return None


def _unknown(name: str, source: str) -> str:
    known = list(constants(source))
    match = _ELEMENT.match(name)
    hint = did_you_mean(match[1] if match else name, known)
    listed = ", ".join(known) if known else "none"
    return f"shape set: the task has no module-level constant {name!r}{hint}; its constants are: {listed}"


def read_by_the_model(source: str) -> set[str]:
    """Names that the code of a task's module reads, and those that they are made of; not what its inputs are drawn from."""
    tree = parse(source)
    found = {"Model"}
    for node in tree.body:
        bound = isinstance(node, ast.AnnAssign) or (isinstance(node, ast.Assign) and len(node.targets) == 1)
        if not bound and not (isinstance(node, ast.FunctionDef) and node.name in _DRAWING):
            found |= {*names_within(node)}
    for name, value in reversed(list(bindings(tree))):
        if name.partition("[")[0] in found:
            found |= {*names_within(value)}
    return found
