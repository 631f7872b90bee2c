"""The kernel language: turns the text of a `@triton.jit` function back into one, if it is nothing but a kernel.

Kernels leave the candidate's process as text plus the constants and library names that the text refers to. Triton's
interpreter runs a kernel as Python, so the text is held to what a kernel is made of: arithmetic, control flow, `tl.*`,
tensor methods, other kernels. Anything that could reach past Triton's own language is refused here, before it is run.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import importlib
import itertools
import linecache
import math
import sys
import types
from typing import Any

import triton
import triton.language as tl
from triton.runtime import jit

_NODES = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.For, ast.While,
    ast.If, ast.IfExp, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.Assert, ast.Name, ast.Constant, ast.Tuple,
    ast.List, ast.Subscript, ast.Slice, ast.Attribute, ast.Call, ast.keyword, ast.BinOp, ast.UnaryOp, ast.BoolOp,
    ast.Compare, ast.Starred, ast.JoinedStr, ast.FormattedValue, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
    ast.expr_context, ast.Module, ast.Load,
)  # fmt: skip
_BUILTINS = frozenset(
    [
        "range",
        "min",
        "max",
        "abs",
        "int",
        "float",
        "bool",
        "len",
        "tuple",
        "print",
        "isinstance",
        "sum",
        "pow",
        "round",
        "str",
        "list",
        "zip",
        "enumerate",
    ]
)
_HIDDEN = frozenset(["handle", "to_ir", "mangle", "codegen_name"])
_MEMBERS = frozenset(
    name
    for owner in (tl.tensor, tl.dtype, tl.block_type, tl.pointer_type, tl.constexpr)
    for name in dir(owner)
    if not name.startswith("_") and name not in _HIDDEN
) | {
    "value",
    "shape",
    "dtype",
    "type",
    "T",
    "element_ty",
    "nbytes",
    "strides",
    "block_shape",
    "load",
    "store",
}
_OPTIONS = ("do_not_specialize", "do_not_specialize_on_alignment", "noinline")
_counter = itertools.count()


class NotAKernel(Exception):
    """The text is not in the kernel language; the message says which part."""


def describe(function: jit.JITFunction, found: dict[int, tuple[int, dict[str, Any]]]) -> int:
    """In the candidate's process: a kernel and what it refers to as data, entered in `found`. Returns its number."""
    if id(function) in found:
        return found[id(function)][0]
    number = len(found)
    spec: dict[str, Any] = {"name": function.fn.__name__, "source": function.src, "names": {}, "options": {}}
    found[id(function)] = (number, spec)
    for option in _OPTIONS:
        value = getattr(function, option, None)
        if value:
            spec["options"][option] = (
                value if isinstance(value, bool) else [x for x in value if isinstance(x, (int, str))]
            )
    scope = {**function.fn.__globals__, **inspect_closure(function.fn)}
    for name in _names(function.src):
        if name in scope:
            spec["names"][name] = _reference(scope[name], found)
    return number


@functools.cache
def _names(source: str) -> tuple[str, ...]:
    return tuple(sorted({node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}))


def inspect_closure(function: Any) -> dict[str, Any]:
    """Names that a nested function takes from the function around it."""
    cells = function.__closure__ or ()
    pairs = zip(function.__code__.co_freevars, cells, strict=False)
    return {name: cell.cell_contents for name, cell in pairs if cell is not None}


def _reference(value: Any, found: dict[int, tuple[int, dict[str, Any]]]) -> Any:
    if isinstance(value, jit.JITFunction):
        return {"kernel": describe(value, found)}
    if isinstance(value, types.ModuleType):
        return {"module": value.__name__}
    return constant(value) or member(value) or {"unknown": type(value).__name__}


def constant(value: Any) -> dict[str, Any] | None:
    """JSON for the constants that kernels take: numbers, text, None, types, tuples and `tl.constexpr` of them."""
    if isinstance(value, tl.constexpr):
        inner = constant(value.value)
        return {"constexpr": inner} if inner else None
    if value is None or isinstance(value, (bool, int, str)):
        return {"value": value}
    if isinstance(value, float):
        return {"float": value.hex() if math.isfinite(value) else repr(value)}
    if isinstance(value, tl.dtype) and not value.is_block() and not value.is_ptr():
        return {"dtype": str(value)}
    if isinstance(value, (tuple, list)):
        items = [constant(item) for item in value]
        return {"tuple": items} if all(items) else None
    return None


def member(value: Any) -> dict[str, Any] | None:
    """`from triton.language import exp` as data."""
    home, name = getattr(value, "__module__", "") or "", getattr(value, "__name__", "") or ""
    if home.startswith("triton.language") and name.isidentifier():
        return {"module": home, "member": name}
    return None


class Kernels:
    """On the trusted side: kernels by number, each rebuilt when first asked for."""

    def __init__(self, specs: list[dict[str, Any]]) -> None:
        if len(specs) > 256:
            raise NotAKernel("more than 256 kernels")
        self._specs = specs
        self._made: dict[int, jit.JITFunction] = {}

    def __getitem__(self, number: int) -> jit.JITFunction:
        """Raises NotAKernel."""
        if number not in self._made:
            if not 0 <= number < len(self._specs):
                raise NotAKernel("a launch of a kernel that was not described")
            self._made[number] = self._rebuild(self._specs[number])
        return self._made[number]

    def argument(self, value: Any) -> Any:
        """A launch argument or referenced constant as the object it stands for (tensors excepted)."""
        try:
            if "kernel" in value:
                return self[int(value["kernel"])]
            if "constexpr" in value:
                return tl.constexpr(self.argument(value["constexpr"]))
            if "float" in value:
                text = value["float"]
                return float.fromhex(text) if "x" in text else float(text)
            if "dtype" in value:
                return _dtype(value["dtype"])
            if "tuple" in value:
                return tuple(self.argument(item) for item in value["tuple"])
            if "value" in value and (value["value"] is None or isinstance(value["value"], (bool, int, str))):
                return value["value"]
        except (TypeError, ValueError, KeyError, AttributeError):
            pass
        raise NotAKernel(f"a constant of a kind that kernels do not take: {str(value)[:60]}")

    def _rebuild(self, spec: dict[str, Any]) -> jit.JITFunction:
        try:
            source, name, names, options = (spec[key] for key in ("source", "name", "names", "options"))
            tree = ast.parse(source)
        except (KeyError, TypeError, ValueError, SyntaxError, RecursionError, MemoryError):
            raise NotAKernel("a kernel whose text does not parse") from None
        (root,) = tree.body if len(tree.body) == 1 else (None,)
        if not isinstance(root, ast.FunctionDef) or root.name != name:
            raise NotAKernel(f"`{name}` is not one function")
        scope: dict[str, Any] = {"__builtins__": _SAFE_BUILTINS, "__name__": "candidate"}
        checker = _Checker(scope)
        for key, value in names.items():
            bound = self._name(value, key)
            if bound is not None:
                scope[str(key)] = bound[0]
        root.decorator_list = []
        checker.check(root)
        filename = f"<kernel {next(_counter)} {name}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(compile(tree, filename, "exec"), scope)
        function = scope[name]
        function.__module__ = "candidate"
        made = triton.jit(function, **{str(key): value for key, value in options.items() if key in _OPTIONS})
        scope[name] = made
        return made

    def _name(self, value: Any, name: str) -> tuple[Any] | None:
        """The object that a name refers to, in a 1-tuple; None for one that must not be used."""
        if "unknown" in value:
            return None
        if "module" in value:
            module = _module(str(value["module"]))
            if module is None:
                return None
            if "member" in value:
                member = str(value["member"])
                return (getattr(module, member),) if member in _PUBLIC[module.__name__] else None
            return (module,)
        return (self.argument(value),)


def _public(value: Any, name: str) -> bool:
    """Whether `value`, found under `name`, belongs to Triton's language."""
    if name.startswith("_"):
        return False
    if isinstance(value, types.ModuleType):
        return value.__name__ == "triton.language" or value.__name__.startswith("triton.language.")
    if isinstance(value, (tl.dtype, tl.constexpr, bool, int, float, str)):
        return True
    home = getattr(value, "__module__", "") or ""
    return home.startswith("triton.language") and (callable(value) or isinstance(value, jit.JITFunction))


def _survey() -> dict[str, frozenset[str]]:
    """Public names of every module of the language, taken before an interpreter puts its own in their place."""
    for path in ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice"):
        with contextlib.suppress(ImportError):
            importlib.import_module(path)
    found = {
        path: frozenset(name for name, value in vars(module).items() if _public(value, name))
        for path, module in list(sys.modules.items())
        if path == "triton.language" or path.startswith("triton.language.")
    }
    return found | {"triton": frozenset(["cdiv", "next_power_of_2", "language"])}


_PUBLIC = _survey()


def _module(path: str) -> types.ModuleType | None:
    return sys.modules.get(path) if path in _PUBLIC else None


@functools.cache
def _dtype(name: str) -> tl.dtype:
    for value in vars(tl).values():
        if isinstance(value, tl.dtype) and str(value) == name:
            return value
    raise ValueError(name)


class _Checker:
    """Walks a kernel's tree. Raises NotAKernel at the first thing that a kernel has no use for."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope

    def check(self, root: ast.FunctionDef) -> None:
        local = {node.arg for node in ast.walk(root) if isinstance(node, ast.arg)}
        local |= {n.id for n in ast.walk(root) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for default in (*root.args.defaults, *root.args.kw_defaults):
            if default is not None and not isinstance(
                default, (ast.Constant, ast.UnaryOp, ast.Attribute, ast.Name)
            ):
                raise NotAKernel(f"line {default.lineno}: a default that is computed")
        for node in ast.walk(root):
            if not isinstance(node, _NODES) or (isinstance(node, ast.FunctionDef) and node is not root):
                raise NotAKernel(f"line {getattr(node, 'lineno', '?')}: {type(node).__name__} in a kernel")
            if isinstance(node, ast.Attribute):
                self._attribute(node, local)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._name(node, local)
            elif isinstance(node, ast.Name) and node.id.startswith("__"):
                raise NotAKernel(f"line {node.lineno}: name `{node.id}`")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 20_000:
                raise NotAKernel("a very long text in a kernel")

    def _name(self, node: ast.Name, local: set[str]) -> None:
        if (
            node.id in local
            or (node.id in self.scope and not node.id.startswith("__"))
            or node.id in _BUILTINS
        ):
            return
        # Undefined, or defined as something no kernel may use: the compiler's own complaint names it best.
        if hasattr(builtins, node.id) or node.id.startswith("__"):
            raise NotAKernel(f"line {node.lineno}: name `{node.id}` in a kernel")

    def _attribute(self, node: ast.Attribute, local: set[str]) -> None:
        path, base = [node.attr], node.value
        while isinstance(base, ast.Attribute):
            path.insert(0, base.attr)
            base = base.value
        if (
            isinstance(base, ast.Name)
            and base.id not in local
            and isinstance(self.scope.get(base.id), types.ModuleType)
        ):
            value: Any = self.scope[base.id]
            for number, part in enumerate(path):
                if not isinstance(value, types.ModuleType):
                    if part in _MEMBERS:
                        return
                    raise NotAKernel(f"line {node.lineno}: `.{part}` in a kernel")
                if part not in _PUBLIC.get(value.__name__, ()):
                    name = ".".join([base.id, *path[: number + 1]])
                    raise NotAKernel(f"line {node.lineno}: `{name}` is not part of Triton's language")
                value = getattr(value, part)
            return
        if node.attr not in _MEMBERS:
            raise NotAKernel(
                f"line {node.lineno}: AttributeError: 'tensor' object has no attribute '{node.attr}'"
            )


_SAFE_BUILTINS = {name: getattr(builtins, name) for name in _BUILTINS}
