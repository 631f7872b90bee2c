"""Short plans, read off the kernel itself, and a checker that holds any plan against its code.

A plan says how many kernels there are and how many warps each uses, what a program holds, and how many loads and
stores the kernels contain. All of it comes from the syntax tree of the code, so a plan cannot promise what the
code does not do. The checker reads the same claims out of any plan, also one that a model wrote; what it does not
recognise as a claim it lets pass.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """What the syntax tree of a candidate says about its kernels."""

    kernels: int
    """Launches in the code (a launch in a loop counts once)."""
    warps: frozenset[int] | None
    """Every number of warps that a launch may use; None where it is computed."""
    tiles: tuple[tuple[str, int], ...]
    """Constexpr arguments that are integers, by parameter name, in order of appearance."""
    whole_rows: bool
    """Some launch takes its tile from `triton.next_power_of_2`."""
    by_row: bool
    """Some kernel multiplies a program id by a row length rather than by its own tile."""
    loads: int
    stores: int

    @property
    def sizes(self) -> frozenset[int]:
        return frozenset(value for _, value in self.tiles)


def plan(code: str) -> str:
    """The plan of `code`: a few short lines. Raises SyntaxError for code that does not parse."""
    facts = read(code)
    lines = [_count(facts.kernels, "kernel")]
    if facts.warps:
        warps = "/".join(str(count) for count in sorted(facts.warps))
        lines[0] += f", {warps} warp{'s' * (warps != '1')}"
    names = {name for name, _ in facts.tiles}
    if facts.whole_rows:
        lines.append("whole rows")
    if len(facts.sizes) == 1 and len(names) == 1 and not facts.whole_rows:
        of = "rows in tiles" if facts.by_row else "tiles"
        lines.append(f"{of} of {next(iter(facts.sizes))}")
    elif facts.tiles:
        lines.append(", ".join(f"{name}={value}" for name, value in dict.fromkeys(facts.tiles)))
    lines.append(f"{_count(facts.loads, 'load')}, {_count(facts.stores, 'store')}")
    return "\n".join(lines)


def plan_problems(text: str, code: str) -> list[str]:
    """The claims of a plan that its code does not bear out, one line each; empty when it is true."""
    facts = read(code)
    problems = []
    for match in re.finditer(r"(\d+) (kernel|load|store)s?\b", text):
        actual = {"kernel": facts.kernels, "load": facts.loads, "store": facts.stores}[match[2]]
        if int(match[1]) != actual:
            problems.append(f"says {match[0]}, the code has {actual}")
    for match in re.finditer(r"(\d+(?:/\d+)*) warps?\b", text):
        claimed = {int(part) for part in match[1].split("/")}
        if facts.warps is not None and not claimed <= facts.warps:
            problems.append(f"says {match[0]}, the code uses {'/'.join(map(str, sorted(facts.warps)))}")
    for match in re.finditer(r"(?:tiles?|blocks?) of (\d+)\b", text, re.IGNORECASE):
        if int(match[1]) not in facts.sizes:
            problems.append(f"says {match[0]}, the code's tiles are {sorted(facts.sizes)}")
    for match in re.finditer(r"\b([A-Z][A-Z0-9_]*) ?= ?(\d+)\b", text):
        if (match[1], int(match[2])) not in facts.tiles:
            problems.append(f"says {match[0]}, which the code does not use")
    if re.search(r"\bwhole rows?\b", text) and not facts.whole_rows:
        problems.append("says whole rows, no launch takes a whole row")
    if re.search(r"\brows in tiles\b", text) and not facts.by_row:
        problems.append("says rows in tiles, no kernel works by rows")
    return problems


def plan_is_true(text: str, code: str) -> bool:
    """Whether every claim that can be recognised in the plan holds of the code (and the code parses)."""
    try:
        return not plan_problems(text, code)
    except SyntaxError:
        return False


@functools.lru_cache(maxsize=4096)
def read(code: str) -> Facts:
    """Facts of a module's kernels, from its syntax tree alone. Raises SyntaxError."""
    nodes = list(ast.walk(ast.parse(code)))
    kernels = {f.name: f for f in nodes if isinstance(f, ast.FunctionDef) and is_kernel(f)}
    within = {name: list(ast.walk(function)) for name, function in kernels.items()}
    values = _assigned(nodes)
    count, loads, stores = 0, 0, 0
    whole = by_row = False
    warps: set[int] | None = set()
    tiles: list[tuple[str, int]] = []
    for name, call in _launches(nodes, kernels):
        function = kernels[name]
        count += 1
        loads += _calls(within[name], "load")
        stores += _calls(within[name], "store")
        by_row = by_row or _by_row(function, within[name])
        for parameter, value in _constexprs(function, call):
            found = values.get(value.id, value) if isinstance(value, ast.Name) else value
            if isinstance(found, ast.Call) and _attribute(found.func) == "next_power_of_2":
                whole = True
            tiles += [(parameter, number) for number in _integers(found, values) or ()]
        given = _warps(function, call, values)
        warps = None if warps is None or given is None else warps | given
    return Facts(
        count, None if warps is None else frozenset(warps), tuple(tiles), whole, by_row, loads, stores
    )


def _warps(function: ast.FunctionDef, call: ast.Call, values: Mapping[str, ast.expr]) -> set[int] | None:
    """The numbers of warps that a launch may use: Triton's 4 where none is given, None where it cannot be read."""
    words = [word for word in call.keywords if word.arg == "num_warps"]
    for node in (node for decorator in function.decorator_list for node in ast.walk(decorator)):
        if isinstance(node, ast.Call) and _attribute(node.func) == "Config":
            words += [word for word in node.keywords if word.arg == "num_warps"]
    found: set[int] = set() if words else {4}
    for word in words:
        numbers = _integers(word.value, values)
        if numbers is None:
            return None
        found |= numbers
    return found


def _assigned(nodes: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """Names that are assigned once in the module, constants and locals, with what they are assigned."""
    seen: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        seen.setdefault(name.id, []).append(node.value)
    return {name: values[0] for name, values in seen.items() if len(values) == 1}


def _integers(value: ast.expr, values: Mapping[str, ast.expr]) -> set[int] | None:
    """The integers an expression may stand for, through one name and one condition; None for anything else."""
    if isinstance(value, ast.Name) and value.id in values:
        value = values[value.id]
    if isinstance(value, ast.IfExp):
        parts = [_integers(part, {}) for part in (value.body, value.orelse)]
        return None if None in parts else {number for part in parts for number in part or ()}
    number = getattr(value, "value", None)
    return {number} if isinstance(value, ast.Constant) and type(number) is int else None


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether a function carries `@triton.jit` (or `@jit`), with or without a call."""
    decorators = (d.func if isinstance(d, ast.Call) else d for d in function.decorator_list)
    return any(_attribute(d) == "jit" for d in decorators)


def constexprs(function: ast.FunctionDef) -> list[str]:
    """Parameters annotated `tl.constexpr`."""
    return [
        a.arg
        for a in function.args.args
        if a.annotation is not None and _attribute(a.annotation) == "constexpr"
    ]


def _launches(
    nodes: Sequence[ast.AST], kernels: Mapping[str, ast.FunctionDef]
) -> Iterator[tuple[str, ast.Call]]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            name = getattr(node.func.value, "id", "")
            if name in kernels:
                yield name, node


def _constexprs(function: ast.FunctionDef, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """(parameter, expression passed) for the constexpr parameters of a launch."""
    names = [argument.arg for argument in function.args.args]
    passed = dict(zip(names, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    for name in constexprs(function):
        if name in passed:
            yield name, passed[name]


def _by_row(function: ast.FunctionDef, nodes: Sequence[ast.AST]) -> bool:
    """Whether a program id, or a name bound to one, is multiplied by something that is not a constexpr."""
    ids = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if _attribute(node.value.func) == "program_id"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    tiles = set(constexprs(function))
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            left, right = node.left, node.right
            held = (isinstance(left, ast.Name) and left.id in ids) or (
                isinstance(left, ast.Call) and _attribute(left.func) == "program_id"
            )
            if held and getattr(right, "id", "") not in tiles:
                return True
    return False


def _calls(nodes: Sequence[ast.AST], name: str) -> int:
    return sum(isinstance(n, ast.Call) and _attribute(n.func) == name for n in nodes)


def _attribute(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
