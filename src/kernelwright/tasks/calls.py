"""Turns the calls of a function in a test into references in the KernelBench form. Text in, text out: by syntax tree.

    def test_scale():                                class Model(torch.nn.Module):
        x = torch.tensor([1.0, 4.0], device="cuda")      def forward(self, input):
        factor = 2.0                           ->            return scale(input, 2.0)
        results["a"] = scale(x, factor)              def get_inputs():
                                                         x = torch.rand(2) * 3.0 + 1.0
                                                         return [x]

Literal arguments stay in the call. Tensors become inputs, made by the statements of the test that they depend on, without
their device; tensors written out in the test are replaced by random ones (`redraw.py` says how, and why), and random tensors
of the test stay as they are. An argument that the function writes to is cloned first: the result is judged, not what is left
in an argument.

A reference is not guaranteed to run: nothing is executed. Calls known not to make an oracle raise `NotATask`.
"""

from __future__ import annotations

import ast
import builtins
import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from kernelwright.parsing import is_name, names_within, substitute
from kernelwright.tasks import effects
from kernelwright.tasks.redraw import parse_literal_tensor, redrawn

_LITERAL = (
    *(ast.Constant, ast.Tuple, ast.List, ast.UnaryOp, ast.BinOp),
    *(ast.operator, ast.unaryop, ast.expr_context),
)


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of the function."""

    node: ast.Call
    before: tuple[ast.stmt, ...]
    """The statements of the test before it."""
    sure: bool = True
    """False if the test catches what it raises."""
    unconditional: bool = True
    """False inside a loop or a branch."""


def calls_of(name: str, test: ast.FunctionDef) -> list[Call]:
    """Every call of `name` in the test, in order."""
    return list(_calls(name, test.body, [], True, True))


def _calls(
    name: str, body: Sequence[ast.stmt], before: list[ast.stmt], sure: bool, unconditional: bool
) -> Iterator[Call]:
    for statement in body:
        heads: list[ast.AST] = []
        parts: list[tuple[Sequence[ast.stmt], bool, bool]] = []
        match statement:
            case ast.Try():
                parts = [(statement.body, False, unconditional), (statement.finalbody, sure, unconditional)]
            case ast.With():
                heads = [item.context_expr for item in statement.items]
                parts = [(statement.body, sure, unconditional)]
            case ast.If() | ast.For() | ast.While():
                parts = [(statement.body, sure, False), (statement.orelse, sure, False)]
            case ast.FunctionDef() | ast.ClassDef():
                pass
            case _:
                heads = [statement]
        for node in (node for head in heads for node in ast.walk(head)):
            if isinstance(node, ast.Call) and is_name(node.func, name):
                yield Call(node, tuple(before), sure, unconditional)
        for inner, safe, plain in parts:
            yield from _calls(name, inner, before, safe, plain)
        before.append(statement)


def reference(text: str, function: ast.FunctionDef, call: Call, modules: frozenset[str]) -> str:
    """The call as a reference: `text`, which defines the function, followed by a model and its inputs.

    `modules`: names that the test may use for modules. Raises NotATask.
    """
    if not call.unconditional:
        raise effects.NotATask("unread")
    if not call.sure:
        raise effects.NotATask("may raise")
    effects.check_function(function)
    given = _bind(function, call.node)
    kept, foreign = _slice(list(given.values()), call.before)
    if foreign - modules - set(dir(builtins)):
        raise effects.NotATask("argument")
    literals, made = _settle(kept)
    arguments = {name: _substitute(value, literals) for name, value in given.items()}
    values = effects.defaults(function) | {
        name: value for name, value in arguments.items() if _is_literal(value)
    }
    passed = {name: _as_passed(name, value) for name, value in arguments.items()}
    tensors = {name: value for _, parts in passed.values() for name, value in parts.items()}
    if not tensors:
        raise effects.NotATask("no tensor")
    effects.check_call(function, values, set(tensors))
    inputs = _Inputs(function)
    inputs.make(made, tensors)
    effects.check_domain(function, inputs.ranges)
    cloned = effects.written_to(function, values) & set(tensors)
    texts = {name: text + ".clone()" * (name in cloned) for name, (text, _) in passed.items()}
    first = list(texts)[: len(call.node.args)]
    shown = [text if name in first else f"{name}={text}" for name, text in texts.items()]
    lines = "".join(f"    {line}\n" for line in inputs.lines)
    return (
        f"{text.strip()}\n\n\n"
        "class Model(torch.nn.Module):\n"
        f"    def forward(self, {', '.join(tensors)}):\n"
        f"        return {function.name}({', '.join(shown)})\n\n\n"
        f"def get_inputs():\n{lines}    return [{', '.join(inputs.returned)}]\n\n\n"
        "def get_init_inputs():\n    return []\n"
    )


# -- what a call needs ----------------------------------------------------------------------------------------


def _bind(function: ast.FunctionDef, node: ast.Call) -> dict[str, ast.expr]:
    """The call's arguments by parameter name, in the order of the call, without `device`."""
    own = function.args
    names = [one.arg for one in (*own.posonlyargs, *own.args)]
    if len(node.args) > len(names) or any(isinstance(one, ast.Starred) for one in node.args):
        raise effects.NotATask("unread")
    found = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg is None:
            raise effects.NotATask("unread")
        found[keyword.arg] = keyword.value
    return {name: value for name, value in found.items() if name != "device"}


def _as_passed(name: str, value: ast.expr) -> tuple[str, dict[str, ast.expr]]:
    """(the argument as the model passes it, its tensors by input name); each tensor in a list is its own input."""
    if _is_literal(value):
        return ast.unparse(value), {}
    if not isinstance(value, ast.List | ast.Tuple):
        return name, {name: value}
    parts = [_as_passed(f"{name}_{number}", one) for number, one in enumerate(value.elts)]
    return f"[{', '.join(text for text, _ in parts)}]", {
        key: one for _, found in parts for key, one in found.items()
    }


def _slice(wanted: Sequence[ast.expr], before: Sequence[ast.stmt]) -> tuple[list[ast.stmt], set[str]]:
    """The statements that the expressions depend on, in order, and the names that none of them defines."""
    needed = {name for one in wanted for name in _loads(one)}
    kept: list[ast.stmt] = []
    for statement in reversed(before):
        stored = {*names_within(statement, ast.Store)}
        if not stored & needed:
            continue
        if not isinstance(statement, ast.Assign):
            raise effects.NotATask("unread")
        kept.append(statement)
        needed = (needed - stored) | _loads(statement.value)
    return kept[::-1], needed


def _loads(tree: ast.AST) -> set[str]:
    return {*names_within(tree)} - {*names_within(tree, ast.Store)}


def _settle(kept: Sequence[ast.stmt]) -> tuple[dict[str, ast.expr], list[ast.Assign]]:
    """(literals and lists by name at the call, statements that make tensors, with those literals substituted)."""
    literals: dict[str, ast.expr] = {}
    made: list[ast.Assign] = []
    for statement in kept:
        assert isinstance(statement, ast.Assign)
        for target, value in _pairs(statement):
            value = _substitute(value, literals)
            names = names_within(target)
            if isinstance(target, ast.Name) and (_is_literal(value) or isinstance(value, ast.List)):
                literals[target.id] = value
                continue
            literals = {name: one for name, one in literals.items() if name not in names}
            made.append(ast.Assign([target], value, lineno=0))
    return literals, made


def _pairs(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(target, value) pairs of `a = b = 1` and of `a, b = 1, 2`."""
    for target in statement.targets:
        value = statement.value
        sides = [one.elts for one in (target, value) if isinstance(one, ast.Tuple)]
        if len(sides) == 2 and len(sides[0]) == len(sides[1]):
            yield from zip(*sides, strict=True)
        else:
            yield target, value


def _substitute(value: ast.expr, literals: Mapping[str, ast.expr]) -> ast.expr:
    """Replace names by their literals, and drop devices and gradients."""

    class Plain(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            node.keywords = [one for one in node.keywords if one.arg not in ("device", "requires_grad")]
            if isinstance(node.func, ast.Attribute):
                name, given = node.func.attr, node.args
                if name in ("cuda", "cpu", "detach", "requires_grad_"):
                    return node.func.value
                if name == "to" and not node.keywords and len(given) == 1 and _is_text(given[0]):
                    return node.func.value
            return node

    made: ast.expr = Plain().visit(substitute(copy.deepcopy(value), literals))
    return made


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_literal(value: ast.expr) -> bool:
    """Whether it is a number, string, None, type such as `torch.float64`, `torch.Size`, or a tuple or list of these."""
    if isinstance(value, ast.Attribute):
        return isinstance(value.value, ast.Name) and value.value.id in ("torch", "math")
    if isinstance(value, ast.Call):
        size = isinstance(value.func, ast.Attribute) and value.func.attr == "Size"
        return size and all(map(_is_literal, value.args)) and not value.keywords
    if not isinstance(value, _LITERAL):
        return False
    return all(_is_literal(one) for one in ast.iter_child_nodes(value) if isinstance(one, ast.expr))


def _is_complex(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in ("complex64", "complex128", "cfloat", "cdouble")
    return isinstance(node, ast.Constant) and isinstance(node.value, complex)


class _Inputs:
    """The body of `get_inputs`."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.lines: list[str] = []
        self.returned: list[str] = []
        self.ranges: dict[str, tuple[float, float]] = {}
        """Least and greatest value drawn for parameters whose tensor was written out."""
        self._function = function

    def make(self, made: Sequence[ast.Assign], tensors: Mapping[str, ast.expr]) -> None:
        """Raises NotATask for inputs that are not tensors, have no elements or are complex."""
        parameters = {one.id: name for name, one in tensors.items() if isinstance(one, ast.Name)}
        defined: set[str] = set()
        for statement in made:
            (target,) = statement.targets
            name = target.id if isinstance(target, ast.Name) else ""
            value = self._drawn(statement.value, parameters.get(name, name), defined)
            self.lines.append(f"{ast.unparse(target)} = {ast.unparse(value)}")
            defined |= {*names_within(target)}
        for name, value in tensors.items():
            shown = value if isinstance(value, ast.Name) else self._drawn(value, name, defined)
            self.returned.append(ast.unparse(shown))

    def _drawn(self, value: ast.expr, parameter: str, defined: set[str]) -> ast.expr:
        if any(_is_complex(node) for node in ast.walk(value)):
            raise effects.NotATask("complex")
        calls = {node.func.attr for node in ast.walk(value) if isinstance(node, ast.Call)
                 and isinstance(node.func, ast.Attribute)}  # fmt: skip
        if calls & effects.DRAWS or _loads(value) & defined:
            return value
        whole, anew = parse_literal_tensor(value), self._anew

        class Anew(ast.NodeTransformer):
            found = 0

            def visit_Call(self, node: ast.Call) -> ast.expr:
                drawn = anew(node, parameter)
                if drawn is None:
                    self.generic_visit(node)
                    return node
                self.found += 1
                return drawn

        visitor = Anew()
        made: ast.expr = visitor.visit(copy.deepcopy(value))
        if not visitor.found:
            raise effects.NotATask("argument")
        if whole is not None:
            self.ranges[parameter] = whole.range
        return made

    def _anew(self, node: ast.Call, parameter: str) -> ast.expr | None:
        found = parse_literal_tensor(node)
        if found is None:
            return None
        if not found.count:
            raise effects.NotATask("empty")
        scale, text = redrawn(found, node, effects.use_of(self._function, parameter))
        if scale:
            name = f"{parameter}_scale"
            self.lines.append(f"{name} = torch.rand({scale}) + 0.5")
            text = text.replace("SCALE", name)
        return ast.parse(text, mode="eval").body
