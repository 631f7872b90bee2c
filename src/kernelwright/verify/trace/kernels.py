"""The kernel language: rebuilds a `@triton.jit` function from its text, if it is nothing but a kernel.

Kernels leave the candidate's process as text, with the constants and library names that the text refers to. Triton's
interpreter runs a kernel as Python, so the text may contain only what kernels need: arithmetic, control flow, `tl.*`,
tensor methods, other kernels. Anything that could reach beyond Triton's language is refused here, before it runs.

The text is parsed once. That tree is checked, and it is what the compiler gets (as text that parses to it) and what
the interpreter runs (see `tree_of`); nothing searches the text for lines.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import hashlib
import importlib
import itertools
import json
import keyword
import linecache
import math
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl
from triton.runtime import jit

from kernelwright.parsing import names_within
from kernelwright.verify.trace import assembly
from kernelwright.verify.trace.ended_loops import use_after_loop
from kernelwright.verify.trace.tape import MAX_KERNELS

if TYPE_CHECKING:
    from kernelwright.verify.structures import Function

_NODES = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.For, ast.While,
    ast.If, ast.IfExp, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.Assert, ast.Name, ast.Constant, ast.Tuple,
    ast.List, ast.Subscript, ast.Slice, ast.Attribute, ast.Call, ast.keyword, ast.BinOp, ast.UnaryOp, ast.BoolOp,
    ast.Compare, ast.Starred, ast.JoinedStr, ast.FormattedValue, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
    ast.expr_context, ast.Module, ast.Load, ast.ListComp, ast.comprehension, ast.NamedExpr,
)  # fmt: skip
_CONSTANT_BUILTINS = frozenset(["min", "max", "abs", "int", "float", "bool"])
"""Python builtins that do not reveal whether a constant is wrapped in `tl.constexpr` or bare."""
_BUILTINS = frozenset(
    [
        "range", "min", "max", "abs", "int", "float", "bool", "len", "tuple", "print", "isinstance", "sum",
        "pow", "round", "str", "list", "zip", "enumerate",
    ]
)  # fmt: skip
_HIDDEN = frozenset(["handle", "to_ir", "mangle", "codegen_name"])
_MEMBERS = frozenset(
    name
    for owner in (tl.tensor, tl.int32, tl.float32, tl.block_type, tl.pointer_type, tl.constexpr)
    for name in dir(owner)
    if not name.startswith("_") and name not in _HIDDEN
) | {
    "value", "shape", "numel", "dtype", "type", "T", "element_ty", "nbytes", "strides", "block_shape", "load", "store",
}  # fmt: skip
HELPERS = (
    "interpreter_semantic", "_InterpreterComparison", "interpreter_and", "interpreter_tensor",
    "interpreter_or", "interpreter_not",
)  # fmt: skip
"""Names that rewriting for the interpreter adds to a kernel's scope."""
_WHEN_AND_WHERE = frozenset(["globaltimer", "memrealtime", "smid", "target_info"])
"""Extras of the language that reveal time or place, by which a kernel could recognise a timed call, or the target, by which
it could recognise the interpreter."""
_OPTIONS = ("do_not_specialize", "do_not_specialize_on_alignment", "noinline")
_MAX_TEXT = 1 << 20
_counter = itertools.count()


class NotAKernel(Exception):
    """The text is not in the kernel language; the message says which part."""


def describe(
    function: jit.JITFunction | jit.ConstexprFunction, found: dict[int, tuple[int, dict[str, Any]]]
) -> int:
    """In the candidate's process: enter a kernel, or a `constexpr_function`, and what it refers to in `found`, as data.
    Returns its number."""
    key = id(function if isinstance(function, jit.JITFunction) else function.fn)
    if key in found:
        return found[key][0]
    number = len(found)
    spec: dict[str, Any] = {"name": function.fn.__name__, "source": function.src, "names": {}, "options": {}}
    found[key] = (number, spec)
    if not isinstance(function, jit.JITFunction):
        spec["options"]["of_constants"] = True
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
    return tuple(sorted({*names_within(ast.parse(source))}))


def inspect_closure(function: Function) -> dict[str, object]:
    """Names that a nested function takes from enclosing functions."""
    cells = function.__closure__ or ()
    pairs = zip(function.__code__.co_freevars, cells, strict=False)
    return {name: cell.cell_contents for name, cell in pairs if cell is not None}


def _reference(value: object, found: dict[int, tuple[int, dict[str, object]]]) -> object:
    if isinstance(value, jit.JITFunction):
        return member(value) or {"kernel": describe(value, found)}
    if isinstance(value, tl.constexpr) and isinstance(value.value, types.FunctionType):
        return {"kernel": describe(jit.constexpr_function(value.value), found)}
    if isinstance(value, jit.ConstexprFunction) and not member(value):
        return {"kernel": describe(value, found)}
    if isinstance(value, types.ModuleType):
        return {"module": value.__name__}
    return constant(value) or member(value) or {"unknown": type(value).__name__}


def constant(value: object) -> dict[str, object] | None:
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


def member(value: object) -> dict[str, object] | None:
    """JSON for an object imported from Triton's language, as by `from triton.language import exp`; else None."""
    home, name = getattr(value, "__module__", "") or "", getattr(value, "__name__", "") or ""
    if home.startswith("triton.language") and name.isidentifier():
        return {"module": home, "member": name}
    return None


class Kernels:
    """In the trusted process: kernels by number, each rebuilt on first use."""

    def __init__(
        self, specs: list[dict[str, object]], built: dict[str, jit.JITFunction] | None = None
    ) -> None:
        """`built` caches kernels across candidates whose descriptions agree. Raises NotAKernel."""
        if not isinstance(specs, list) or len(specs) > MAX_KERNELS:
            raise NotAKernel(f"more than {MAX_KERNELS} kernels")
        self._specs = specs
        self._built = {} if built is None else built
        self._made: dict[int, jit.JITFunction] = {}
        self._identities: dict[int, str] = {}

    def __getitem__(self, number: int) -> jit.JITFunction:
        """Raises NotAKernel."""
        if number not in self._made:
            try:
                identity = self._identity(number)
                if identity not in self._built:
                    self._built[identity] = self._rebuild(number, self._specs[number])
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError, MemoryError) as error:
                raise NotAKernel(f"not the description of a kernel: {type(error).__name__}") from None
            self._made[number] = self._built[identity]
        return self._made[number]

    def _identity(self, number: int, above: tuple[int, ...] = ()) -> str:
        """A hash of a kernel's description, including the kernels it calls. Raises NotAKernel for mutual recursion."""
        if number in self._identities:
            return self._identities[number]
        if not 0 <= number < len(self._specs):
            raise NotAKernel("a launch of a kernel that was not described")
        spec = self._specs[number]
        others = [other for other in _kernels_in(spec["names"]) if other != number]
        if number in above or len(above) > 64:
            raise NotAKernel("kernels that call each other in a circle")
        parts = [
            json.dumps(spec, sort_keys=True),
            *(self._identity(other, (*above, number)) for other in others),
        ]
        made = self._identities[number] = hashlib.sha256(
            "\n".join(parts).encode("utf-8", "replace")
        ).hexdigest()
        return made

    def argument(self, value: Any) -> Any:
        """The object that a launch argument or referenced constant describes (tensors excepted). Raises NotAKernel."""
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
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
            pass
        raise NotAKernel(f"a constant of a kind that kernels do not take: {str(value)[:60]}")

    def _rebuild(self, number: int, spec: dict[str, Any]) -> jit.JITFunction:
        source, name, names = str(spec["source"]), str(spec["name"]), dict(spec["names"])
        try:
            tree = ast.parse(source[:_MAX_TEXT])
        except (SyntaxError, RecursionError, MemoryError, ValueError):
            raise NotAKernel("a kernel whose text does not parse") from None
        (root,) = tree.body if len(tree.body) == 1 else (None,)
        if not isinstance(root, ast.FunctionDef) or root.name != name or root.decorator_list:
            raise NotAKernel(f"`{name}` is not one function")
        scope: dict[str, Any] = {"__builtins__": _SAFE_BUILTINS, "__name__": "candidate"}
        members: dict[str, tuple[str, str]] = {}
        for key, value in names.items():
            if not key.isidentifier() or keyword.iskeyword(key) or _is_reserved(key):
                raise NotAKernel(f"`{key[:60]}` is not a name that a kernel may use")
            if value.get("kernel") == number:
                continue  # itself, bound below
            if "member" in value:
                members[key] = (str(value["module"]), str(value["member"]))
            elif (bound := self._global(value)) is not None:
                scope[key] = bound[0]
        of_constants = spec["options"].get("of_constants") is True
        respelt = _spell_out(root, members, scope)
        if _refuse_to_compile(root, scope) or respelt:
            source = ast.unparse(tree)
        _Checker({**scope, name: None}, _CONSTANT_BUILTINS if of_constants else _BUILTINS).check(root)
        filename = f"<kernel {next(_counter)} {name}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        try:
            # Evaluates defaults and annotations, any of which can raise.
            exec(compile(tree, filename, "exec"), scope)
            function = scope[name]
            function.__module__ = "candidate"
            options = _options(dict(spec["options"]))
            made: Any = jit.constexpr_function(function) if of_constants else triton.jit(function, **options)
        except Exception as error:
            raise NotAKernel(f"`{name}`: {type(error).__name__}: {error}"[:300]) from None
        made._unsafe_update_src(source)  # the whole text, not the lines that Triton cut out
        function.tree = root
        scope[name] = made
        return made

    def _global(self, value: dict[str, object]) -> tuple[Any] | None:
        """The object that a name refers to, in a 1-tuple; None if a kernel must not use it."""
        if "unknown" in value:
            return None
        if "module" in value:
            module = _module(str(value["module"]))
            return None if module is None else (module,)
        return (self.argument(value),)


def tree_of(function: Any) -> ast.FunctionDef | None:
    """The checked tree of a kernel that was rebuilt here; None for a library's kernel."""
    return getattr(function.fn, "tree", None)


def _kernels_in(tree: object) -> list[int]:
    """Numbers of the kernels that a description refers to."""
    if isinstance(tree, dict):
        own = [tree["kernel"]] if isinstance(tree.get("kernel"), int) else []
        return own + [number for value in tree.values() for number in _kernels_in(value)]
    return [number for item in tree for number in _kernels_in(item)] if isinstance(tree, list) else []


def _is_reserved(name: str) -> bool:
    return name in HELPERS or name.startswith("__")


def _options(given: dict[str, object]) -> dict[str, Any]:
    """Options of `triton.jit`, of the types that it takes."""
    found: dict[str, object] = {}
    for name in _OPTIONS:
        value = given.get(name)
        if name == "noinline":
            found[name] = value is True
        elif isinstance(value, list):
            found[name] = [item for item in value if isinstance(item, (int, str))]
    return found


def _spell_out(root: ast.FunctionDef, members: dict[str, tuple[str, str]], scope: dict[str, object]) -> bool:
    """Rewrite `load` as `language.load` if it was imported by name: the interpreter patches the module's attribute only. Returns
    whether the tree has changed."""
    used = {*names_within(root), *scope}
    local = _locals(root)
    spelt: dict[str, tuple[str, str]] = {}
    for name, (path, member) in members.items():
        module = _module(path)
        if module is None or name in local or member not in _PUBLIC[path]:
            continue
        if (path, member) in _SHORT:
            module = tl
        alias = next(name for name in _aliases(module) if name not in used or scope.get(name) is module)
        scope[alias] = module
        spelt[name] = (alias, member)

    class Speller(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            if node.id not in spelt:
                return node
            alias, member = spelt[node.id]
            base = ast.copy_location(ast.Name(alias, ast.Load()), node)
            return ast.copy_location(ast.Attribute(base, member, ast.Load()), node)

    if spelt:
        Speller().visit(root)
    return bool(spelt)


def _refuse_to_compile(root: ast.FunctionDef, scope: dict[str, object]) -> bool:
    """Rewrite `raise` as an assertion that fails if it is compiled: Triton, too, skips branches that constants exclude. Returns
    whether the tree has changed."""
    if not any(isinstance(node, ast.Raise) for node in ast.walk(root)):
        return False
    used = {*names_within(root), *_locals(root)}
    alias = next(name for name in _aliases(tl) if name not in used or scope.get(name) is tl)
    scope[alias] = tl

    class Refuser(ast.NodeTransformer):
        def visit_Raise(self, node: ast.Raise) -> ast.stmt:
            called = ast.Attribute(ast.Name(alias, ast.Load()), "static_assert", ast.Load())
            fails = ast.Call(called, [ast.Constant(False)], [])
            return ast.fix_missing_locations(ast.copy_location(ast.Expr(fails), node))

    Refuser().visit(root)
    return True


def _aliases(module: types.ModuleType) -> Iterator[str]:
    """Candidate names for a module, as a kernel may use some of them for other things."""
    short = module.__name__.rpartition(".")[2]
    return itertools.chain([short], (f"{short}_{number}" for number in itertools.count()))


def _locals(root: ast.FunctionDef) -> set[str]:
    names = {node.arg for node in ast.walk(root) if isinstance(node, ast.arg)}
    return names | {*names_within(root, ast.Store)}


def _public(value: object, name: str) -> bool:
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
    """Public names of every module of the language, collected before an interpreter patches them."""
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
_SHORT = frozenset(
    (path, name)
    for path, names in _PUBLIC.items()
    for name in names & _PUBLIC[tl.__name__]
    if getattr(sys.modules[path], name, None) is getattr(tl, name)
)
"""Members of other modules that are also `tl`'s, under the same name; compared before an interpreter patches either."""


def _module(path: str) -> types.ModuleType | None:
    return sys.modules.get(path) if path in _PUBLIC else None


@functools.cache
def _dtype(name: str) -> tl.dtype:
    for value in vars(tl).values():
        if isinstance(value, tl.dtype) and str(value) == name:
            return value
    raise ValueError(name)


class _Checker:
    """Checks a kernel's tree. Raises NotAKernel at the first thing that kernels do not need."""

    def __init__(self, scope: dict[str, object], allowed: frozenset[str] = _BUILTINS) -> None:
        """`allowed` are the Python builtins in scope."""
        self.scope, self.allowed = scope, allowed

    def check(self, root: ast.FunctionDef) -> None:
        local = _locals(root)
        for name in (root.name, *local):
            if _is_reserved(name):
                raise NotAKernel(f"`{name}` is not a name that a kernel may use")
        hints = [node.annotation for node in ast.walk(root) if isinstance(node, ast.arg)]
        for hint in (*hints, root.returns):
            if hint is not None and not isinstance(hint, (ast.Constant, ast.Attribute, ast.Name)):
                raise NotAKernel(f"line {hint.lineno}: an annotation that is computed")
        for default in (*root.args.defaults, *root.args.kw_defaults):
            plain = default.operand if isinstance(default, ast.UnaryOp) else default
            if plain is not None and not isinstance(plain, (ast.Constant, ast.Attribute, ast.Name)):
                raise NotAKernel(f"line {plain.lineno}: a default that is computed")
        if (late := use_after_loop(root)) is not None:
            raise NotAKernel(
                f"line {late.lineno}: `{late.id}` after its loop, where Triton leaves it undefined"
            )
        callees = {id(node.func): node for node in ast.walk(root) if isinstance(node, ast.Call)}
        made = {*names_within(root, ast.Store)}
        for node in ast.walk(root):
            if isinstance(node, (ast.Call, ast.Compare)):
                _same_kind(node, made, none=self.allowed is _BUILTINS)
            if isinstance(node, ast.Attribute) and node.attr == "inline_asm_elementwise":
                self._assembly(node, callees.get(id(node)), local)
            if not isinstance(node, _NODES) or (isinstance(node, ast.FunctionDef) and node is not root):
                raise NotAKernel(f"line {getattr(node, 'lineno', '?')}: {type(node).__name__} in a kernel")
            if isinstance(node, ast.Attribute):
                self._attribute(node, local)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._name(node, local)
            elif isinstance(node, ast.keyword) and node.arg in _KEYWORDS:
                raise NotAKernel(f"argument `{node.arg}` is Triton's own")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 20_000:
                raise NotAKernel("a very long text in a kernel")

    def _name(self, node: ast.Name, local: set[str]) -> None:
        if node.id in local or node.id in self.allowed:
            return
        if node.id in self.scope and not node.id.startswith("__"):
            return
        # Undefined, or not usable by kernels: the compiler's own error describes that best.
        if hasattr(builtins, node.id) or _is_reserved(node.id):
            raise NotAKernel(f"line {node.lineno}: name `{node.id}` in a kernel")

    def _assembly(self, node: ast.Attribute, call: ast.Call | None, local: set[str]) -> None:
        """Assembly is checked by its text, which must be a literal or a global constant."""
        given = [] if call is None else [*call.args[:1], *(k.value for k in call.keywords if k.arg == "asm")]
        text: Any = given[0] if len(given) == 1 else None
        if isinstance(text, ast.Name) and text.id not in local:
            found = self.scope.get(text.id)
            text = found.value if isinstance(found, tl.constexpr) else found
        elif isinstance(text, ast.Constant):
            text = text.value
        if not isinstance(text, str):
            raise NotAKernel(f"line {node.lineno}: inline assembly whose text is not written out")
        if why := assembly.why_refused(text):
            raise NotAKernel(f"line {node.lineno}: inline assembly: {why}")

    def _attribute(self, node: ast.Attribute, local: set[str]) -> None:
        path, base = [node.attr], node.value
        while isinstance(base, ast.Attribute):
            path.insert(0, base.attr)
            base = base.value
        named = self.scope.get(base.id) if isinstance(base, ast.Name) and base.id not in local else None
        if isinstance(named, types.ModuleType):
            value: Any = named
            for number, part in enumerate(path):
                if not isinstance(value, types.ModuleType):
                    if part in _MEMBERS:
                        return
                    raise NotAKernel(f"line {node.lineno}: `.{part}` in a kernel")
                if part not in _PUBLIC.get(value.__name__, ()):
                    name = ".".join([ast.unparse(base), *path[: number + 1]])
                    raise NotAKernel(
                        f"line {node.lineno}: `{name}` is not part of Triton {triton.__version__}'s language"
                    )
                if part in _WHEN_AND_WHERE:
                    raise NotAKernel(f"line {node.lineno}: `{part}` tells when or where a kernel runs")
                value = getattr(value, part)
            return
        if node.attr not in _MEMBERS:
            raise NotAKernel(
                f"line {node.lineno}: AttributeError: 'tensor' object has no attribute '{node.attr}'"
            )


def _same_kind(node: ast.Call | ast.Compare, made: set[str], none: bool) -> None:
    """Refuse questions about types and identity that compiler and interpreter answer differently: a value that a kernel assigns
    is a tensor when compiled, and tuples and shapes are Triton's own classes. `none`: comparing with None is allowed."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        named = none and any(isinstance(side, ast.Constant) and side.value is None for side in sides)
        if any(isinstance(operator, (ast.Is, ast.IsNot)) for operator in node.ops) and not named:
            raise NotAKernel(f"line {node.lineno}: `is` with anything but None")
    elif isinstance(node.func, ast.Name) and node.func.id == "isinstance" and node.args:
        inner = list(ast.walk(node.args[0]))
        strange = any(
            isinstance(one, (ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.Call)) for one in inner
        )
        if strange or any(isinstance(one, ast.Name) and one.id in made for one in inner):
            raise NotAKernel(f"line {node.lineno}: isinstance of what a kernel has made")


def _choice(name: str, /, *values: object, **options: object) -> object:
    """`min` or `max`: Triton's, elementwise, if an argument is a tensor; Python's would compare whole blocks."""
    if any(isinstance(value, tl.tensor) for value in values):
        return getattr(tl.core, f"builtin_{name}")(*values, **options)
    return getattr(builtins, name)(*values, **options)


_KEYWORDS = ("member", "_semantic", "_builder", "_generator")
_SAFE_BUILTINS: dict[str, object] = {
    **{name: getattr(builtins, name) for name in _BUILTINS},
    "print": lambda *values, **options: tl.device_print("print"),  # as the compiler reads it
    "min": functools.partial(_choice, "min"),
    "max": functools.partial(_choice, "max"),
    # As when compiled: a constant counts as the value it holds.
    "isinstance": lambda value, kinds: isinstance(
        value.value if isinstance(value, tl.constexpr) else value, kinds
    ),
}
