"""Edits of Python source by its syntax tree that keep the layout: comments out, names and numbers changed.

What they guarantee is that the result parses and that no name collides; whether it still computes the same is the
verifier's to say.
"""

from __future__ import annotations

import ast
import io
import random
import re
import tokenize
from collections.abc import Callable, Iterable, Mapping, Sequence

from kernelwright.parsing import Edit, edited, first_line, spans, text_of


def bare(code: str) -> str:
    """`code` without comments and docstrings, and without the blank lines that they leave. Raises SyntaxError."""
    lines: list[str | None] = list(code.splitlines())
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            kept = (lines[row - 1] or "")[:column].rstrip()
            lines[row - 1] = kept or None
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, False):
            string = node.body[0]
            assert string.end_lineno is not None
            only = len(node.body) == 1 and not isinstance(node, ast.Module)
            indent = " " * string.col_offset
            lines[string.lineno - 1 : string.end_lineno] = [
                f"{indent}pass" if only else None,
                *[None] * (string.end_lineno - string.lineno),
            ]
    kept_lines: list[str] = []
    for line in lines:
        if line is None or (not line.strip() and (not kept_lines or kept_lines[-1].endswith(":"))):
            continue
        kept_lines.append(line)
    return "\n".join(kept_lines).rstrip("\n") + "\n"


def untyped(code: str) -> str:
    """`code` without annotations of parameters and results, other than `tl.constexpr`."""
    at = spans(code)
    text = code.encode()
    edits: list[Edit] = []
    for node in ast.walk(ast.parse(code)):
        if (
            isinstance(node, ast.arg)
            and node.annotation
            and getattr(node.annotation, "attr", "") != "constexpr"
        ):
            edits.append((at(node)[0] + len(node.arg.encode()), at(node.annotation)[1], ""))
        elif isinstance(node, ast.FunctionDef) and node.returns:
            start, end = at(node.returns)
            edits.append((len(text[: text.rindex(b"->", 0, start)].rstrip()), end, ""))
    return edited(code, edits)


def once(code: str) -> str:
    """`code` without functions that are another's text but for their own name: the first is called instead, and so on until
    none is left. Two poolings are then one kernel that is launched twice."""
    while True:
        lines = code.splitlines()
        known: dict[str, str] = {}
        for node in ast.parse(code).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            text = re.sub(rf"\b{node.name}\b", "\0", text_of(node, lines))
            name = known.setdefault(text, node.name)
            if name != node.name:
                left = "\n".join([*lines[: first_line(node)], *lines[node.end_lineno :]])
                code = re.sub(r"\n{4,}", "\n\n\n", rename(left, {node.name: name})).rstrip("\n") + "\n"
                break
        else:
            return code


def rename(code: str, names: Mapping[str, str]) -> str:
    """Rename variables, parameters and functions, and the strings that name them (autotuned tiles).

    Attributes, and keywords of functions that the module does not define, stay.
    """
    tree = ast.parse(code)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    edits: list[Edit] = []
    at = spans(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            edits.append((*at(node), names[node.id]))
        elif isinstance(node, ast.arg) and node.arg in names:
            start, _ = at(node)
            edits.append((start, start + len(node.arg.encode()), names[node.arg]))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names:
            edits.append((*at(node), f'"{names[node.value]}"'))
        elif isinstance(node, ast.Call):
            callee = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            if isinstance(callee, ast.Name) and callee.id in defined:
                for word in node.keywords:
                    if word.arg is not None and word.arg in names:
                        start, _ = at(word)
                        edits.append((start, start + len(word.arg.encode()), names[word.arg]))
    return edited(code, edits)


def with_literals(code: str) -> str:
    """Integers that the module gives a name and nothing but functions uses, where they are used: what stands at the top of a
    file has to be known before anything else."""
    tree = ast.parse(code)
    given: dict[str, list[ast.Assign]] = {}
    outside: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_integer(node.value):
            given.setdefault(node.targets[0].id, []).append(node)
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef):
            outside |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    known = {
        name: nodes[0]
        for name, nodes in given.items()
        if len(nodes) == len(nodes[0].targets) == 1 and name not in outside
    }
    at, edits = spans(code), set[Edit]()
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        own = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
        names = [one for one in ast.walk(function) if isinstance(one, ast.Name)]
        own |= {one.id for one in names if isinstance(one.ctx, ast.Store)}
        for one in names:
            if one.id in known and one.id not in own:
                edits.add((*at(one), ast.unparse(known[one.id].value)))
    lines = edited(code, sorted(edits)).splitlines()
    for node in reversed(known.values()):
        del lines[node.lineno - 1 : node.end_lineno]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines).strip("\n")) + "\n"


def _is_integer(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) is int


def synonyms(code: str, groups: Iterable[Sequence[str]], rng: random.Random) -> dict[str, str]:
    """A renaming that takes one name of each group in place of the only one that occurs, and collides with none."""
    taken = {
        name
        for node in ast.walk(ast.parse(code))
        for field in ("id", "arg", "name", "attr")
        if isinstance(name := getattr(node, field, None), str)
    }
    names: dict[str, str] = {}
    for group in groups:
        present = [name for name in group if name in taken]
        if len(present) == 1:
            new = rng.choice([name for name in group if name not in taken or name == present[0]])
            names[present[0]] = new
            taken.add(new)
    return names


def replace_integers(code: str, chosen: Callable[[ast.AST], bool], old: int, new: int) -> str:
    """Set every literal `old` to `new` in the top-level statements that `chosen` picks."""
    at = spans(code)
    edits = [
        (*at(node), str(new))
        for statement in ast.parse(code).body
        if chosen(statement)
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value == old
    ]
    return edited(code, edits)


def set_launch_keyword(code: str, keyword: str, value: int) -> str:
    """Set a keyword that launches pass as a literal, such as `num_warps`."""
    at = spans(code)
    edits = [
        (*at(word.value), str(value))
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
        for word in node.keywords
        if word.arg == keyword and isinstance(word.value, ast.Constant)
    ]
    return edited(code, edits)
