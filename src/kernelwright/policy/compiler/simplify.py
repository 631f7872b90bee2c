"""Passes over one kernel's syntax tree that shorten it without changing what it computes.

They fold constants, inline copies and single uses, drop casts to the type and broadcasts to the shape that a value already
has, and remove unused names. Only names that are assigned once are changed; loads do not move.
"""

from __future__ import annotations

import ast
import copy
import operator
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kernelwright.parsing import callee, names_within, rename_within, substitute

LINE = 92
"""Most characters to which inlining may grow an expression."""

_FOLDED: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_SAME_TYPE = {
    "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "floor", "ceil", "sigmoid", "sum",
    "max", "min", "maximum", "minimum", "broadcast_to", "cumsum", "cumprod", "tanh", "log1p", "expm1", "power",
    "reshape", "trans",
}  # fmt: skip
"""Functions whose result has the type of their first argument."""
_POINTWISE = {"where", "maximum", "minimum", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf",
    "floor", "ceil", "sigmoid", "tanh", "log1p", "expm1", "power", "fma"}  # fmt: skip
_DTYPES: dict[type, str] = {bool: "int1", int: "int64", float: "float32"}
"""The dtype of a number that is spread over a tile: Triton broadcasts tensors only."""
_TAKE_CONSTANTS = ("where", "maximum", "minimum", "store", "full", "to")


def simplify(function: ast.FunctionDef, types: Mapping[str, str]) -> None:
    """Run all passes until nothing changes. `types`: Triton's names of the pointers' element types."""
    _separate(function)
    for block in _blocks(function):
        _version(function, block)
    while True:
        before = ast.dump(function)
        function.body = _unpack(function.body)
        facts = Facts(function, types)
        Fold(facts).visit(function)
        function.body = _flat(function.body) or [ast.Pass()]
        _share(function)
        Inline(function, copies=True).run()
        _drop_unused(function)
        Inline(function, copies=False).run()
        _drop_unused(function)
        if ast.dump(function) == before:
            return


class Facts:
    """What is known of a kernel's names: which are assigned once, their values, types and shapes."""

    def __init__(self, function: ast.FunctionDef, types: Mapping[str, str]) -> None:
        self.types = types
        self.counts = assignments(function)
        self.values: dict[str, ast.expr] = {}
        self.parameters = {argument.arg for argument in function.args.args}
        self.scalars = set(self.parameters)
        for node in ast.walk(function):
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                self.scalars.add(node.target.id)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if self.counts[name] == 1 and name not in self.parameters:
                    self.values[name] = node.value
        self._types: dict[str, str | None] = {}
        self._axes: dict[str, frozenset[int] | None] = {}

    @property
    def sizes(self) -> set[str]:
        """Parameters that are numbers."""
        return self.parameters - set(self.types)

    def literal(self, name: str) -> ast.Constant | None:
        """The constant assigned to a name, if there is one."""
        return _literal(self.values.get(name))

    def type_of(self, node: ast.AST) -> str | None:
        """Triton's name of an expression's type, such as `float32`; None if unknown."""
        if isinstance(node, ast.Name):
            if node.id not in self._types:
                self._types[node.id] = None
                value = self.values.get(node.id)
                self._types[node.id] = None if value is None else self.type_of(value)
            return self._types[node.id]
        if isinstance(node, ast.Subscript):
            return self.type_of(node.value)
        if isinstance(node, ast.Compare):
            return "int1"
        if isinstance(node, ast.UnaryOp):
            return self.type_of(node.operand)
        if isinstance(node, ast.BinOp):
            left, right = self.type_of(node.left), self.type_of(node.right)
            if left == right or _literal(node.right) is not None:
                return left
            if _literal(node.left) is not None or right == "float32":
                return right if left in ("float32", "int32", "int64", "int1") or left is None else None
            return left if left == "float32" and right in ("int32", "int64", "int1") else None
        if isinstance(node, ast.Call):
            return self._type_of_call(node)
        return None

    def _type_of_call(self, node: ast.Call) -> str | None:
        name = callee(node)
        if name == "to" and node.args:
            return _type_name(node.args[0])
        if name == "load":
            return self.types.get(names_within(node.args[0])[0])
        if name in ("full", "zeros"):
            return _type_name(node.args[-1]) if node.args else None
        if name in ("program_id", "arange"):
            return "int32"
        if name == "where":
            return self.type_of(node.args[1]) or self.type_of(node.args[2])
        if name in _SAME_TYPE and node.args:
            return self.type_of(node.args[0]) or (self.type_of(node.args[1]) if len(node.args) > 1 else None)
        return None

    def axes(self, node: ast.AST) -> frozenset[int] | None:
        """The dimensions in which an expression is wider than 1; None if unknown."""
        if isinstance(node, ast.Constant):
            return frozenset()
        if isinstance(node, ast.Name):
            if node.id in self.scalars:
                return frozenset()
            if node.id not in self._axes:
                self._axes[node.id] = None
                value = self.values.get(node.id)
                self._axes[node.id] = None if value is None else self.axes(value)
            return self._axes[node.id]
        if isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return frozenset(index for index, part in enumerate(parts) if isinstance(part, ast.Slice))
        if isinstance(node, ast.Compare):
            return self._union([node.left, *node.comparators])
        if isinstance(node, ast.BinOp):
            return self._union([node.left, node.right])
        if isinstance(node, ast.UnaryOp):
            return self.axes(node.operand)
        if isinstance(node, ast.Call):
            name = callee(node)
            if name == "load":
                return self.axes(node.args[0])
            if name == "to" and isinstance(node.func, ast.Attribute):
                return self.axes(node.func.value)
            if name in ("full", "zeros", "broadcast_to"):
                shape = node.args[1 if name == "broadcast_to" else 0]
                sides = shape.elts if isinstance(shape, (ast.List, ast.Tuple)) else []
                return frozenset(i for i, side in enumerate(sides) if not _is(side, 1))
            if name == "program_id":
                return frozenset()
            if name == "arange":
                return frozenset([0])
            if name in _POINTWISE:
                return self._union(node.args)
            if name in ("sum", "max", "min") and self.axes(node.args[0]) == frozenset([0]):
                return frozenset()
            if name in ("cumsum", "cumprod"):
                return self.axes(node.args[0])
        return None

    def _union(self, nodes: list[Any]) -> frozenset[int] | None:
        found: frozenset[int] = frozenset()
        for node in nodes:
            axes = self.axes(node)
            if axes is None:
                return None
            found |= axes
        return found


class Fold(ast.NodeTransformer):
    """Folds constants, casts and broadcasts."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        left, right = _literal(node.left), _literal(node.right)
        if left and right and type(node.op) in _FOLDED and not isinstance(left.value, str):
            return ast.Constant(_FOLDED[type(node.op)](left.value, right.value))
        if isinstance(node.op, ast.Mult):
            if _is(node.left, 1):
                return node.right
            if _is(node.right, 1):
                return node.left
            if _is(node.left, 0) and _whole(node.left):
                return node.left
        if isinstance(node.op, ast.Add):
            if _is(node.left, 0) and _whole(node.left):
                return node.right
            if _is(node.right, 0) and _whole(node.right):
                return node.left
        if isinstance(node.op, ast.FloorDiv) and _is(node.right, 1):
            return node.left
        return _wrap_around(node) or node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        value = _literal(node.operand)
        if value is not None and isinstance(node.op, ast.USub) and not isinstance(value.value, bool):
            return ast.Constant(-ast.literal_eval(value))
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        left, right = _literal(node.left), _literal(node.comparators[0])
        if left and right and len(node.ops) == 1 and type(node.ops[0]) in _FOLDED:
            return ast.Constant(_FOLDED[type(node.ops[0])](left.value, right.value))
        if right and right.value is False and isinstance(node.ops[0], ast.NotEq):
            return node.left if isinstance(node.left, ast.Compare) else node
        return node

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        test = _literal(node.test)
        if test is not None:
            return node.body if test.value else (node.orelse or ast.Pass())
        same = [ast.dump(statement) for statement in node.body] == [ast.dump(s) for s in node.orelse]
        return node.body if same else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = callee(node)
        if name == "to" and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            if any(one.arg == "bitcast" for one in node.keywords):
                return _float_of_bits(node, node.func.value)
            return self._cast(node, node.func.value, _type_name(node.args[0]))
        if name == "broadcast_to":
            if isinstance(node.func, ast.Attribute) and not _is_tl(node.func.value):
                return node.func.value  # a broadcast to the shape of an index of the same tile
            shape = node.args[1]
            rank = len(shape.elts) if isinstance(shape, (ast.List, ast.Tuple)) else -1
            if self.facts.axes(node.args[0]) == frozenset(range(rank)):
                return node.args[0]
            if isinstance(node.args[0], ast.Name) and node.args[0].id in self.facts.sizes:
                # A size of 1 is specialised to a plain number.
                return ast.Call(tl("full"), [shape, node.args[0], tl("int64")], [])
            if (number := _literal(node.args[0])) is not None and type(number.value) in _DTYPES:
                return ast.Call(tl("full"), [shape, number, tl(_DTYPES[type(number.value)])], [])
        if name in ("zeros", "full") and node.args and isinstance(node.args[0], ast.Attribute):
            like = _literal(node.args[0].value)  # the shape of a tile that became a number
            if like is not None and node.args[0].attr == "shape":
                zero = 0.0 if isinstance(like.value, float) else 0
                return node.args[1] if name == "full" else ast.Constant(zero)
        if name == "where" and len(node.args) == 3 and isinstance(node.args[0], ast.Constant):
            return node.args[1 if node.args[0].value else 2]
        same = name == "where" and len(node.args) == 3 and ast.dump(node.args[1]) == ast.dump(node.args[2])
        if same and _literal(node.args[1]) is not None:
            return node.args[1]
        if name == "full" and not node.keywords and len(node.args) == 3:
            value = _literal(node.args[1])
            sides = node.args[0].elts if isinstance(node.args[0], (ast.List, ast.Tuple)) else [node]
            if all(_is(side, 1) for side in sides):
                if value is not None:
                    return _type(value.value, _type_name(node.args[2])) or node
                if isinstance(node.args[1], ast.Call) and callee(node.args[1]) == "float":
                    return node.args[1]
            if value is not None and value.value == 0 and not _is(node.args[1], True):
                return ast.Call(tl("zeros"), [node.args[0], node.args[2]], [])
        return node

    def _cast(self, node: ast.Call, value: ast.expr, wanted: str | None) -> ast.AST:
        literal = _literal(value)
        if literal is not None:
            return _type(literal.value, wanted) or node
        if self.facts.type_of(value) == wanted and wanted is not None:
            return value
        names = set(names_within(value))
        if names and wanted is not None and names <= self.facts.sizes:
            # A size of 1 is a plain number in Triton, which has no casts.
            whole = wanted.startswith(("int", "uint"))
            return value if whole else ast.BinOp(value, ast.Mult(), ast.Constant(1.0))
        inner = value
        if isinstance(inner, ast.Call) and callee(inner) == "to" and isinstance(inner.func, ast.Attribute):
            narrow = self.facts.type_of(inner.func.value)
            if narrow == wanted and wanted in ("float16", "bfloat16"):
                return inner.func.value
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.slice, ast.Slice) and node.slice.lower is None and node.slice.upper is None:
            return node.value
        return node


class Inline:
    """Inlines copies, constants and values used once."""

    def __init__(self, function: ast.FunctionDef, copies: bool) -> None:
        self.function, self.copies = function, copies
        self.counts = assignments(function)
        self.uses = Counter(names_within(function, ast.Load))
        self.parameters = {argument.arg for argument in function.args.args}
        self.reads = _reads(function) if copies else {}
        self.methods = {
            id(node.func): node
            for node in ast.walk(function)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        """By identity of `x.f` in it, the call `x.f(...)`."""

    def run(self) -> None:
        self._block(self.function.body)

    def _block(self, block: list[ast.stmt]) -> None:
        for position, statement in enumerate(list(block)):
            for part in ("body", "orelse"):
                self._block(getattr(statement, part, []))
            if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
                continue
            name, value = statement.targets[0].id, statement.value
            steady = all(self.counts[one] <= (one not in self.parameters) for one in names_within(value))
            if self.counts[name] != 1 or name in self.parameters or not steady:
                continue
            if self.copies:
                if isinstance(value, ast.Name) or (_literal(value) is not None and self._may_stand(name)):
                    self._everywhere(name, value)
            elif self.uses[name] == 1 and not _loads(value):
                self._once(name, value, block[position + 1 :])

    def _may_stand(self, name: str) -> bool:
        """Whether every use accepts a bare constant: as an operand, or as a value of `where`."""
        for owner, field, _ in self.reads.get(name, ()):
            call = self.methods.get(id(owner)) if field == "value" else owner if field == "args" else None
            if isinstance(call, ast.Call) and callee(call) not in _TAKE_CONSTANTS:
                return False
            if isinstance(owner, ast.Subscript) and field == "value":
                return False
        return True

    def _everywhere(self, name: str, value: ast.expr) -> None:
        """Replace a name wherever it is read, without walking the whole function."""
        for owner, field, place in self.reads.pop(name, ()):
            new = copy.deepcopy(value)
            if place is None:
                setattr(owner, field, new)
            else:
                getattr(owner, field)[place] = new
            if isinstance(new, ast.Name):
                self.reads.setdefault(new.id, []).append((owner, field, place))

    def _once(self, name: str, value: ast.expr, rest: list[ast.stmt]) -> None:
        for statement in rest:
            if name not in names_within(statement):
                continue
            if isinstance(statement, (ast.For, ast.If, ast.While)):
                return
            grown = copy.deepcopy(statement)
            substitute(grown, {name: value})
            if len(ast.unparse(grown)) <= LINE:
                substitute(statement, {name: value})
                self.uses[name] = 0
            return


def _float_of_bits(node: ast.Call, value: ast.expr) -> ast.expr:
    """The float32 whose bits a literal gives, if that is what `node` asks for; else the node itself."""
    literal = _literal(value)
    if literal is None or type(literal.value) is not int or _type_name(node.args[0]) != "float32":
        return node
    return ast.Constant(*struct.unpack("<f", struct.pack("<I", literal.value & 0xFFFFFFFF)))


def _reads(function: ast.FunctionDef) -> dict[str, list[tuple[ast.AST, str, int | None]]]:
    """By name, where it is read: the node, its field, and the place in it if that is a list."""
    found: dict[str, list[tuple[ast.AST, str, int | None]]] = {}
    for owner in ast.walk(function):
        for field, value in ast.iter_fields(owner):
            parts = enumerate(value) if isinstance(value, list) else ((None, value),)
            for place, one in parts:
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
                    found.setdefault(one.id, []).append((owner, field, place))
    return found


def assignments(function: ast.FunctionDef) -> Counter[str]:
    """How often each name is assigned."""
    return Counter(names_within(function, ast.Store, ast.Del))


def _separate(function: ast.FunctionDef) -> None:
    """Give each loop its own names for what it assigns before use and what is not read outside it."""
    loops = [statement for statement in function.body if isinstance(statement, ast.For)]
    for number, loop in enumerate(loops):
        inside = assignments(ast.FunctionDef(name="f", args=function.args, body=[loop], decorator_list=[]))
        everywhere = assignments(function)
        for name, count in inside.items():
            others = (other for other in function.body if other is not loop)
            own = count == everywhere[name] and not any(name in names_within(other) for other in others)
            after = function.body[function.body.index(loop) + 1 :]
            if (
                own
                or _first_context([loop], name) is not ast.Store
                or _first_context(after, name) is ast.Load
            ):
                continue
            rename_within(loop, {name: f"{name}__{number}"})


def _version(function: ast.FunctionDef, block: list[ast.stmt]) -> None:
    """Rename each new value that a block assigns to a name without reading the old one."""
    plain = [s for s in block if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)]
    counts = Counter(s.targets[0].id for s in plain)  # type: ignore[attr-defined]
    everywhere = assignments(function)
    inside = {id(node) for statement in block for node in ast.walk(statement)}
    for name, count in counts.items():
        if count < 2 or everywhere[name] != count:
            continue
        if any(isinstance(n, ast.Name) and n.id == name and id(n) not in inside for n in ast.walk(function)):
            continue
        if _first_context(block, name) is not ast.Store:
            continue
        current, number = "", 0
        for statement in block:
            if statement in plain and statement.targets[0].id == name:  # type: ignore[attr-defined]
                rename_within(statement.value, {name: current})
                current = f"{name}__v{number}"
                number += 1
                statement.targets[0].id = current  # type: ignore[attr-defined]
            else:
                rename_within(statement, {name: current})


def _share(function: ast.FunctionDef) -> None:
    """Replace a value that an earlier statement of the same block computed by a copy."""
    counts = assignments(function)
    for block in _blocks(function):
        known: dict[str, str] = {}
        for statement in block:
            if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
                continue
            name, value = statement.targets[0].id, statement.value
            if counts[name] != 1 or _loads(value) or any(counts[other] > 1 for other in names_within(value)):
                continue
            if isinstance(value, (ast.Name, ast.Constant)):
                continue
            text = ast.dump(value)
            if text in known:
                statement.value = ast.Name(known[text], ast.Load())
            known.setdefault(text, name)


def _blocks(function: ast.FunctionDef) -> list[list[ast.stmt]]:
    return [
        block
        for node in ast.walk(function)
        for block in (getattr(node, "body", None), getattr(node, "orelse", None))
        if isinstance(block, list) and block
    ]


def _first_context(block: list[ast.stmt], name: str) -> type[ast.expr_context] | None:
    """The context of a name's first use in a block; None if it does not occur."""
    nodes = (node for statement in block for node in _in_order(statement))
    return next((type(node.ctx) for node in nodes if isinstance(node, ast.Name) and node.id == name), None)


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes in the order of evaluation: a value before its target."""
    if isinstance(node, ast.Assign):
        yield from _in_order(node.value)
        for target in node.targets:
            yield from _in_order(target)
    elif isinstance(node, ast.For):
        yield from _in_order(node.iter)
        yield from _in_order(node.target)
        for statement in node.body:
            yield from _in_order(statement)
    else:
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _in_order(child)


def _drop_unused(function: ast.FunctionDef) -> None:
    """Remove assignments to names that are not read."""
    while True:
        read = set(names_within(function, ast.Load))
        before = sum(1 for _ in ast.walk(function))
        function.body = _without(function.body, read)
        if sum(1 for _ in ast.walk(function)) == before:
            return


def _without(block: list[ast.stmt], read: set[str]) -> list[ast.stmt]:
    kept: list[ast.stmt] = []
    for statement in block:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            if statement.targets[0].id not in read:
                continue
        elif isinstance(statement, ast.Pass):
            continue
        elif isinstance(statement, ast.For):
            statement.body = _without(statement.body, read) or [ast.Pass()]
            if isinstance(statement.body[0], ast.Pass):
                continue
        kept.append(statement)
    return kept


def _unpack(block: list[ast.stmt]) -> list[ast.stmt]:
    """Split `a, b = x, y` into two statements if neither reads the other's target."""
    found: list[ast.stmt] = []
    for statement in block:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Tuple):
            target = statement.targets[0]
            if isinstance(target, ast.Tuple) and len(target.elts) == len(statement.value.elts):
                names = {getattr(element, "id", "") for element in target.elts}
                if names.isdisjoint(names_within(statement.value)):
                    for left, right in zip(target.elts, statement.value.elts, strict=True):
                        found.append(ast.Assign([left], right, lineno=0))
                    continue
        found.append(statement)
    return found


def _flat(block: list[Any]) -> list[ast.stmt]:
    """Flatten nested lists of statements, which a folded `if` leaves."""
    found: list[ast.stmt] = []
    for statement in block:
        if isinstance(statement, list):
            found += _flat(statement)
        else:
            found.append(statement)
    return found


def _loads(value: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Call) and callee(node).startswith(("load", "atomic")) for node in ast.walk(value)
    )


def _wrap_around(node: ast.BinOp) -> ast.BinOp | None:
    """Rewrite a roll's `(-3 + n) % n` as `(n - 3 % n) % n`: for n below 3, Triton's remainder would be negative."""
    left = node.left
    if not (isinstance(node.op, ast.Mod) and isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add)):
        return None
    by = left.left.value if isinstance(left.left, ast.Constant) else None
    if type(by) is not int or by >= 0 or ast.dump(left.right) != ast.dump(node.right):
        return None
    rest = ast.BinOp(ast.Constant(-by), ast.Mod(), copy.deepcopy(node.right))
    return ast.BinOp(ast.BinOp(left.right, ast.Sub(), rest), ast.Mod(), node.right)


def _literal(node: ast.AST | None) -> ast.Constant | None:
    """A number as a Constant; None for anything else, including negative numbers and `float('-inf')`."""
    return node if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) else None


def _is(node: ast.AST, value: Any) -> bool:
    return isinstance(node, ast.Constant) and node.value == value and not isinstance(node.value, str)


def _whole(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def tl(name: str) -> ast.Attribute:
    """`tl.NAME`."""
    return ast.Attribute(ast.Name("tl", ast.Load()), name, ast.Load())


def _is_tl(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "tl"


def _type_name(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) and _is_tl(node.value) else None


def _type(value: Any, name: str | None) -> ast.Constant | None:
    """A number as a constant of the given type's kind."""
    if name is None:
        return None
    if name.startswith(("float", "bfloat")):
        return ast.Constant(float(value))
    if name == "int1":
        return ast.Constant(bool(value))
    return ast.Constant(int(value)) if name.startswith(("int", "uint")) else None
