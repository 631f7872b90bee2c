"""Kernel bodies as Python functions on the interpreter's tensors, and Triton's language patched for its interpreter."""

from __future__ import annotations

import ast
import copy
import sys
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any

import triton.language as tl
from triton.runtime import interpreter, jit

from kernelwright.verify.interpret.linear_loops import linear_loops
from kernelwright.verify.trace.kernels import HELPERS, tree_of

_LANGUAGE: dict[tuple[str, ...], list[tuple[object, str, object]]] = {}
"""By loaded libdevice packages: each attribute of Triton's language that the interpreter replaces, and its replacement."""
_REWRITTEN: dict[object, Callable[..., object]] = {}
LINEAR: dict[types.CodeType, frozenset[int]] = {}
"""By code of a candidate's kernel: lines of loops whose variable Python uses in a known way (`linear_loops.py`)."""
LOOPS: dict[str, Callable[..., object]] = {"range": range}
"""What `range` means in kernels: the loop of the installed engine."""


def taken_over() -> Any:
    """Patch Triton's language for its interpreter until the returned scope is restored. The replacements are collected only once:
    members of a dozen modules, which takes longer than many kernels."""
    packages = _extern_packages()
    key = tuple(package.__name__ for package in packages)
    known = _LANGUAGE.get(key)
    if known is None:
        scope = interpreter._patch_lang(types.SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
        for package in packages:
            interpreter._patch_builtin(package, interpreter.interpreter_builder, scope)
        changes = getattr(scope, "_changes", [])  # Triton versions without it collect them each time
        if changes:
            _LANGUAGE[key] = [(owner, name, vars(owner)[name]) for owner, name, _ in changes]
        return scope
    scope = interpreter._LangPatchScope()
    for owner, name, value in known:
        scope.set_attr(owner, name, value)
    return scope


def _extern_packages() -> list[ModuleType]:
    names = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")
    return [sys.modules[name] for name in names if name in sys.modules]


def _implementation(value: Any) -> object:
    """CUDA's libdevice in place of Triton's empty front end, which only the compiler resolves."""
    front, real = (
        sys.modules.get(f"triton.language.extra.{name}") for name in ("libdevice", "cuda.libdevice")
    )
    if front is None or real is None:
        return value
    if value is front:
        return real
    if getattr(value, "__module__", None) == front.__name__ and callable(value):
        return getattr(real, value.__name__, value)
    return value


def rewritten(function: jit.JITFunction) -> Callable[..., object]:
    """The kernel's body as a Python function over interpreter tensors (Triton's own rewriting, cached)."""
    body = _REWRITTEN.get(function.fn)
    if body is None:
        tree = tree_of(function)
        made = interpreter.FunctionRewriter(function.fn).rewrite_ast() if tree is None else None
        names = function.fn.__globals__ if made is None else made.__globals__
        names = {name: _implementation(value) for name, value in names.items()}
        names = {"range": lambda *args: LOOPS["range"](*args), **names}
        if made is None:
            assert tree is not None
            body = _compile(function, tree, names)
        else:
            body = types.FunctionType(
                made.__code__, names, made.__name__, made.__defaults__, made.__closure__
            )
            body.__kwdefaults__ = made.__kwdefaults__
        _REWRITTEN[function.fn] = body
    return body


def _compile(
    function: jit.JITFunction, tree: ast.FunctionDef, names: dict[str, Any]
) -> Callable[..., object]:
    """A candidate's kernel: the checked tree, rewritten as Triton does and compiled in its own scope."""
    body_of = _Lanes().visit(interpreter.ASTTransformer().visit(copy.deepcopy(tree)))
    module = ast.Module([body_of], type_ignores=[])
    names |= {name: getattr(interpreter, name) for name in HELPERS if hasattr(interpreter, name)} | _LOGIC
    code = compile(ast.fix_missing_locations(module), function.fn.__code__.co_filename, "exec")
    exec(code, names)
    body: Callable[..., object] = names[tree.name]
    LINEAR[body.__code__] = linear_loops(tree)
    names[tree.name] = function
    return body


class _Lanes(ast.NodeTransformer):
    """`and`, `or` and `not` lane by lane, as Triton compiles them; Python would take a block as one truth value. Python numbers
    that are tensors when compiled, like a loop's variable, are made tensors where a tensor's attributes are used."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr in ("to", "cast", "dtype") and isinstance(node.ctx, ast.Load):
            node.value = _call("interpreter_tensor", [node.value], node.value)  # type: ignore[assignment]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        later: list[ast.expr] = [ast.Lambda(args=nothing, body=value) for value in node.values]
        return _call("interpreter_and" if isinstance(node.op, ast.And) else "interpreter_or", later, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call("interpreter_not", [node.operand], node) if isinstance(node.op, ast.Not) else node


def _call(name: str, arguments: list[ast.expr], node: ast.AST) -> ast.AST:
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), arguments, []), node)


def _join(method: str, deciding: bool, operands: tuple[Callable[[], Any], ...]) -> Any:
    """A value that the compiler knows either decides at once or does not count; all others are evaluated."""
    joined = value = None
    for operand in operands:
        value = operand()
        if not isinstance(value, tl.tensor):
            if bool(value) is deciding:
                return value
        else:
            joined = value if joined is None else getattr(_truths(joined), method)(_truths(value))
    return value if joined is None else joined


def _truths(value: Any) -> Any:
    """Numbers as truth values: constants of the compiler that were assigned to a name are tensors here."""
    return value if value.type.scalar.is_bool() else value != 0


def _as_tensor(value: Any) -> Any:
    """A Python number as the compiler types it."""
    if type(value) is float:
        return tl.full((), value, tl.float32)
    if type(value) is int:
        return tl.full((), value, tl.int32 if -(1 << 31) <= value < 1 << 31 else tl.int64)
    # A loop variable whose rounds are followed (`rounds.py`): treated like other operands.
    if isinstance(value, int) and type(value) is not bool:
        return tl.full((), 0, tl.int32) + value
    return value


_LOGIC: dict[str, Callable[..., Any]] = {
    "interpreter_tensor": _as_tensor,
    "interpreter_and": lambda *operands: _join("logical_and", False, operands),
    "interpreter_or": lambda *operands: _join("logical_or", True, operands),
    "interpreter_not": lambda value: _truths(value).__not__() if isinstance(value, tl.tensor) else not value,
}
