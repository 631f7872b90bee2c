"""What a module's launches and kernels do, read off the syntax tree: grids, tiles, warps, memory, arithmetic in order.

A value is what comes from a load or starts a sum, and whatever is made of one. Arithmetic on values is what a kernel computes; the rest is
addresses and masks. What makes a step of the reference carries its name: `h2: exp, + 1.0, h3: * scale`. Nothing is executed.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.parsing import name_of

_SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_SECOND = ("maximum", "minimum", "fdiv", "div_rn", "pow", "fmod", "atan2")
"""Functions whose second argument is worth naming."""
_SILENT = ("to", "reshape", "view", "trans", "permute", "broadcast_to", "expand_dims", "ravel", "cast")
"""Functions that hand on what they are given."""
_BLANK = ("zeros", "full", "zeros_like", "full_like")
"""What sums and maxima start from."""
_STEP = re.compile(r"h\d+")
"""What `numbering` calls a step of the reference."""
_EITHER_WAY = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)


@dataclass(frozen=True)
class Launch:
    """One `kernel[grid](...)`, and the kernel that it launches."""

    kernel: str
    grid: str
    """Its axes as they stand in the code, joined by ` x `."""
    warps: frozenset[int] | None
    """Every number of warps that it may use, Triton's 4 where none is given; None where it is computed."""
    tiles: tuple[tuple[str, int], ...]
    """Constexpr arguments that are integers, by parameter, in order."""
    whole: tuple[str, ...]
    """Constexpr arguments that are `triton.next_power_of_2(...)`."""
    reads: tuple[str, ...]
    """Pointers that the kernel loads from, without `_ptr`, in order."""
    writes: tuple[str, ...]
    work: tuple[tuple[bool, tuple[str, ...]], ...]
    """What it does with values, in order: (whether in a loop, operations)."""
    loads: int
    stores: int
    wide: bool
    """Offsets of 64 bits."""

    @property
    def operations(self) -> tuple[str, ...]:
        return tuple(operation for _, operations in self.work for operation in operations)


@functools.lru_cache(maxsize=4096)
def launches(code: str) -> tuple[Launch, ...]:
    """The launches of a module in the order in which they stand. Raises SyntaxError."""
    nodes = list(ast.walk(ast.parse(code)))
    kernels = {f.name: f for f in nodes if isinstance(f, ast.FunctionDef) and is_kernel(f)}
    values = _assigned(nodes)
    calls = [
        (node.func.value.id, node.func.slice, node)
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
        if isinstance(node.func.value, ast.Name) and node.func.value.id in kernels
    ]
    calls.sort(key=lambda call: (call[2].lineno, call[2].col_offset))
    return tuple(_launch(kernels[name], grid, call, values) for name, grid, call in calls)


def _launch(
    function: ast.FunctionDef, grid: ast.expr, call: ast.Call, values: Mapping[str, ast.expr]
) -> Launch:
    tiles: list[tuple[str, int]] = []
    whole: list[str] = []
    for parameter, value in _passed(function, call):
        found = values.get(value.id, value) if isinstance(value, ast.Name) else value
        if isinstance(found, ast.Call) and name_of(found.func) == "next_power_of_2":
            whole.append(parameter)
        tiles += [(parameter, number) for number in sorted(_integers(found, values) or ())]
    inside = list(ast.walk(function))
    axes = grid.elts if isinstance(grid, ast.Tuple) else [grid]
    body = _Body([argument.arg for argument in function.args.args])
    body.read(function.body)
    return Launch(
        kernel=function.name,
        grid=" x ".join(ast.unparse(axis).replace("triton.cdiv", "cdiv") for axis in axes),
        warps=_warps(function, call, values),
        tiles=tuple(dict.fromkeys(tiles)),
        whole=tuple(whole),
        reads=tuple(dict.fromkeys(body.reads)),
        writes=tuple(dict.fromkeys(body.writes)),
        work=tuple((looped, tuple(operations)) for looped, operations in body.work),
        loads=sum(isinstance(n, ast.Call) and name_of(n.func) == "load" for n in inside),
        stores=sum(isinstance(n, ast.Call) and name_of(n.func) == "store" for n in inside),
        wide=any(isinstance(n, ast.Attribute) and n.attr == "int64" for n in inside),
    )


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether a function carries `@triton.jit` (or `@jit`), with or without a call."""
    decorators = (d.func if isinstance(d, ast.Call) else d for d in function.decorator_list)
    return any(name_of(d) == "jit" for d in decorators)


def constexprs(function: ast.FunctionDef) -> list[str]:
    """Parameters annotated `tl.constexpr`."""
    return [
        a.arg for a in function.args.args if a.annotation is not None and name_of(a.annotation) == "constexpr"
    ]


# -- launches ---------------------------------------------------------------------------------------------------


def _warps(
    function: ast.FunctionDef, call: ast.Call, values: Mapping[str, ast.expr]
) -> frozenset[int] | None:
    words = [word for word in call.keywords if word.arg == "num_warps"]
    for node in (node for decorator in function.decorator_list for node in ast.walk(decorator)):
        if isinstance(node, ast.Call) and name_of(node.func) == "Config":
            words += [word for word in node.keywords if word.arg == "num_warps"]
    found: set[int] = set() if words else {4}
    for word in words:
        numbers = _integers(word.value, values)
        if numbers is None:
            return None
        found |= numbers
    return frozenset(found)


def _passed(function: ast.FunctionDef, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """(parameter, expression) for the constexpr parameters of a launch."""
    names = [argument.arg for argument in function.args.args]
    passed = dict(zip(names, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    for name in constexprs(function):
        if name in passed:
            yield name, passed[name]


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


# -- kernels ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Term:
    """What is known of an expression: whether it holds values, and what to call it as an operand."""

    value: bool = False
    label: str = ""


@dataclass
class _Body:
    """A kernel's body, walked in the order in which it runs."""

    parameters: list[str]
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    work: list[tuple[bool, list[str]]] = field(default_factory=list)
    _names: dict[str, _Term] = field(default_factory=dict)
    _roots: dict[str, str] = field(default_factory=dict)
    """Pointers that other names hold."""
    _looped: bool = False
    _step: str = ""
    """The reference's step that the next operation begins."""

    def read(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, node.value)
        elif isinstance(node, ast.AugAssign):
            term = self._both(type(node.op), self._term(node.target), self._term(node.value))
            if isinstance(node.target, ast.Name):
                self._names[node.target.id] = _Term(term.value, node.target.id)
        elif isinstance(node, ast.For | ast.While):
            outside, self._looped = self._looped, True
            self.read(node.body)
            self._looped = outside
        elif isinstance(node, ast.If):
            self.read(node.body)
            self.read(node.orelse)
        elif isinstance(node, ast.Expr):
            self._term(node.value)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        parts = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(names) else None
        self._step = target.id if isinstance(target, ast.Name) and _STEP.fullmatch(target.id) else ""
        whole = None if parts else self._term(value)
        self._step = ""
        for place, name in enumerate(names):
            if not isinstance(name, ast.Name):
                continue
            given = parts[place] if parts else value
            term = whole or self._term(given)
            self._names[name.id] = _Term(term.value, term.label if term.value and term.label else name.id)
            root = "" if term.value else self._root(given)
            if root:
                self._roots[name.id] = root

    def _term(self, node: ast.expr) -> _Term:
        if isinstance(node, ast.Name):
            return self._names.get(node.id, _Term(False, node.id))
        if isinstance(node, ast.Constant):
            return _Term(False, repr(node.value))
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.BinOp):
            return self._both(type(node.op), self._term(node.left), self._term(node.right))
        if isinstance(node, ast.UnaryOp):
            term = self._term(node.operand)
            if not term.value:
                return _Term(False, ast.unparse(node) if term.label else "")
            if isinstance(node.op, ast.USub):
                self._did("neg")
            return _Term(True)
        if isinstance(node, ast.Subscript):
            return self._term(node.value)
        terms = [self._term(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return _Term(any(term.value for term in terms))

    def _call(self, node: ast.Call) -> _Term:
        name = name_of(node.func)
        if name == "load" and node.args:
            root = self._root(node.args[0])
            self.reads.append(root)
            return _Term(True, root)
        if name == "store" or name.startswith("atomic"):
            self.writes += [self._root(node.args[0])] if node.args else []
            terms = [self._term(argument) for argument in node.args[1:2]]
            if name != "store":
                self._did(name)
            return _Term(name != "store" and any(term.value for term in terms))
        method = isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name)
        holder = isinstance(node.func, ast.Attribute) and self._term(node.func.value).value
        given = [node.func.value] if (method or holder) and isinstance(node.func, ast.Attribute) else []
        terms = [self._term(argument) for argument in (*given, *node.args)]
        if not any(term.value for term in terms):
            return _Term(name in _BLANK)
        if name in _SILENT:
            return next(term for term in terms if term.value)
        if name == "where" and not terms[0].value:
            # A mask: what it lets through is what counts.
            return next(term for term in terms if term.value)
        if name == "dot":
            asked = [k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)]
            name = " ".join(["dot", *(str(word) for word in asked if isinstance(word, str))])
        elif name in _SECOND and len(terms) > 1:
            name = f"{name} {next((t.label for t in terms if not t.value), terms[1].label)}".rstrip()
        self._did(name)
        return _Term(True)

    def _both(self, sign: type[ast.operator], left: _Term, right: _Term) -> _Term:
        if not (left.value or right.value):
            return _Term()
        mark = _SIGNS.get(sign, "@")
        if not left.value and issubclass(sign, _EITHER_WAY):
            left, right = right, left
        self._did(f"{mark} {right.label}".rstrip() if left.value else f"{left.label} {mark}".lstrip())
        return _Term(True)

    def _did(self, operation: str) -> None:
        if not self.work or self.work[-1][0] is not self._looped:
            self.work.append((self._looped, []))
        self.work[-1][1].append(f"{self._step}: {operation}" if self._step else operation)
        self._step = ""

    def _root(self, address: ast.expr) -> str:
        """The parameter that an address starts from, without `_ptr`; empty where that is not seen."""
        node = address
        while not isinstance(node, ast.Name):
            inner = getattr(node, "left", None) or getattr(node, "value", None) or getattr(node, "func", None)
            if isinstance(node, ast.Call) and node.args and not isinstance(node.func, ast.Subscript):
                inner = node.args[0]
            if not isinstance(inner, ast.expr):
                return ""
            node = inner
        found = self._roots.get(node.id) or (node.id if node.id in self.parameters else "")
        return found.removesuffix("_ptr")
