"""A kernel's module in the order in which a policy can write it: the class first, then launches, then kernels; tiles where
they are used, not named at the top; and the class's constructor word for word as the lowered reference has it. A number
that the kernel's class kept for itself and the reference's hands to a module of its own is then that module's:
`self.act.negative_slope`.

A small model that has to write a constructor of eight arguments anew gets one of them wrong; one that has only to
repeat what it reads does not. What the constructor makes is the same: the reference's own statements make the weights.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Iterator, Sequence

from kernelwright.data.edits import with_literals
from kernelwright.parsing import constructor_of, first_line, is_self, parse, text_of

_GIVEN = frozenset({*dir(builtins), "torch", "nn"})
"""What a constructor may name besides its own arguments and what the module has."""
_NUMBERS = frozenset(
    {"min_val", "max_val", "negative_slope", "alpha", "beta", "lambd", "threshold", "value", "eps"}
)
"""Parameters of modules that are numbers and attributes of the same name."""
_Function = ast.FunctionDef


def arranged(code: str, lowered: str) -> str:
    """`code` in that order, with the constructor of `lowered` (as `tasks.lowered` writes it) and after it those statements
    of its own that the rest of the class needs. As it was where it is put together otherwise than of imports,
    constants, functions and one `ModelNew`, or where its constructor takes other arguments."""
    try:
        tree = parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return code
    functions = [node for node in tree.body if isinstance(node, _Function)]
    model = next(
        (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"), None
    )
    if model is None or not functions or not _may_move(tree, functions, model):
        return code
    lines = code.splitlines()
    moved: list[_Function | ast.ClassDef] = [model, *functions]
    defined = min(map(first_line, moved))
    head = "\n".join(lines[:defined]).strip()
    wrappers = [node for node in functions if not node.decorator_list]
    kernels = [node for node in functions if node.decorator_list]
    parts = [_class(model, lowered, tree, lines), *(text_of(node, lines) for node in (*wrappers, *kernels))]
    return with_literals("\n\n\n".join([head, *parts] if head else parts) + "\n")


def _may_move(tree: ast.Module, functions: Sequence[_Function], model: ast.ClassDef) -> bool:
    """Whether nothing but definitions follows the first of them, and none needs another while it is made."""
    places = [place for place, node in enumerate(tree.body) if node is model or node in functions]
    if places != list(range(places[0], len(tree.body))):
        return False
    names = {node.name for node in functions}
    return not names & {
        node.id
        for one in (*functions, model)
        for part in _at_once(one)
        for node in ast.walk(part)
        if isinstance(node, ast.Name)
    }


def _at_once(node: ast.AST) -> Iterator[ast.AST]:
    """What Python evaluates when it meets the definition."""
    if isinstance(node, _Function):
        yield from node.decorator_list
        yield from node.args.defaults
        yield from (one for one in node.args.kw_defaults if one is not None)
    elif isinstance(node, ast.ClassDef):
        yield from (*node.decorator_list, *node.bases)
        for one in node.body:
            if isinstance(one, _Function):
                yield from _at_once(one)
            else:
                yield one


def _class(model: ast.ClassDef, lowered: str, tree: ast.Module, lines: Sequence[str]) -> str:
    """The class's text with the reference's constructor, or as it is where that does not fit."""
    own, asked = constructor_of(model), _asked(lowered)
    methods = [node for node in model.body if isinstance(node, _Function) and node is not own]
    made = _merged(own, asked, model, tree) if asked is not None else None
    if made is None or len(methods) + (own is not None) < len(model.body):
        return text_of(model, lines)
    head, held = made
    texts = "\n\n".join(text_of(node, lines) for node in methods)
    texts = re.sub(r"\bself\.(\w+)\b", lambda at: held.get(at[1], at[0]), texts)
    return "\n".join([lines[first_line(model)], *head, "", texts])


def _asked(lowered: str) -> tuple[_Function, list[str]] | None:
    """The constructor of the lowered reference, and its lines."""
    found = re.search(r"^class Model\(.*\n((?: .*\n|\n)+)", lowered, re.MULTILINE)
    if found is None:
        return None
    function = constructor_of(parse(found[0]).body[0])  # type: ignore[arg-type]
    return (function, found[1].rstrip().split("\n")) if function is not None else None


def _merged(
    own: _Function | None, asked: tuple[_Function, list[str]], model: ast.ClassDef, tree: ast.Module
) -> tuple[list[str], dict[str, str]] | None:
    """The reference's lines, and those of the kernel's statements that they lack and the class uses; and what the attributes
    are called that the reference's modules hold instead. None where the two take other arguments, set an attribute to
    something else, or a name is missing."""
    function, lines = asked
    if own is not None and ast.unparse(own.args) != ast.unparse(function.args):
        return None
    if own is None and len(function.args.args) > 1:
        return None
    there = {ast.unparse(one) for one in function.body}
    kept = {name for one in function.body for name in _stored(one)}
    used = {
        node.attr
        for method in model.body
        if method is not own
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and is_self(node.value)
    }
    missing: list[str] = []
    holders, held = _holders(function), dict[str, str]()
    for one in own.body if own is not None else []:
        if ast.unparse(one) in there or _is_super(one):
            continue
        names = _stored(one)
        given = one.value.id if isinstance(one, ast.Assign) and isinstance(one.value, ast.Name) else ""
        if len(names) == 1 and not names & kept and given in holders:
            held[names.pop()] = holders[given]
            continue
        if not names or names & kept:
            return None
        if names & used:
            missing.append(f"        {ast.unparse(one)}")
    bound = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    bound |= {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    bound |= {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
    wanted = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    return ([*lines, *missing], held) if wanted <= bound | _GIVEN else None


def _holders(function: _Function) -> dict[str, str]:
    """Arguments of a constructor that it hands to a module of torch's, by which attribute of that one holds them."""
    from torch import nn

    found: dict[str, str] = {}
    for one in function.body:
        if not (isinstance(one, ast.Assign) and isinstance(one.value, ast.Call) and len(_stored(one)) == 1):
            continue
        made = getattr(nn, getattr(one.value.func, "attr", ""), None)
        if made is None or ast.unparse(one.value.func) != f"nn.{made.__name__}":
            continue
        names = list(inspect.signature(made).parameters)
        given = [
            *zip(names, one.value.args, strict=False),
            *((word.arg, word.value) for word in one.value.keywords),
        ]
        for name, value in given:
            if isinstance(value, ast.Name) and name in _NUMBERS:
                found[value.id] = f"self.{next(iter(_stored(one)))}.{name}"
    return found


def _stored(statement: ast.stmt) -> set[str]:
    """Attributes of `self` that a statement sets."""
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            first = node.args[0] if node.args else None
            if node.func.attr in ("register_buffer", "register_parameter") and isinstance(
                first, ast.Constant
            ):
                found.add(str(first.value))
    return found


def _is_super(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and "super(" in ast.unparse(statement)
