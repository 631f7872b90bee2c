"""Checks the candidate's syntax tree for constructs that no honest kernel needs. Run-time evidence decides the rest.

Each rule names a construct whose only use in a kernel file is to attack the judge: leaving the process, walking
frames, patching modules. Compute done by torch is *not* judged here (`nn.Linear` may just hold a weight), nor whether
a kernel is launched in the end: the tape shows both. We use no regular expressions, so strings and docstrings never
matter; code under `if __name__ == "__main__":` is ignored.

The idea: every name bound by an import stands for a dotted path, also after `c = torch.cuda`, and modules may not be
used as values. So everything reached through a module has a path that `static_rules.py` can judge.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from kernelwright.outcomes import Outcome
from kernelwright.parsing import parse
from kernelwright.verify import static_rules as rules

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, *_COMPREHENSIONS)
_JIT = ("triton.jit", "triton.runtime.jit.jit")
_MOST_CHARACTERS = 200_000
_LONGEST_PATH = 40
"""Most names in a path from an imported module. Aliases of aliases could make paths that take hours to check."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """Why the static gate stops the candidate."""

    outcome: Outcome
    detail: str


def bare_load(code: str) -> int:
    """Line of the first `tl.load` with a mask but no `other`; 0 if there is none."""
    lines = [
        node.lineno
        for node in ast.walk(parse(code))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load"
        for given in [{one.arg for one in node.keywords}]
        if len(node.args) == 2 or (len(node.args) == 1 and "mask" in given)
        if "other" not in given
    ]
    return min(lines, default=0)


def inspect_code(code: str) -> Finding | None:
    """The first finding in `code`, or None if run-time evidence is to decide.

    Checks in this order: syntax, imports, forbidden constructs, a Triton kernel that is used, `ModelNew`.
    """
    if len(code) > _MOST_CHARACTERS:
        return Finding(Outcome.SYNTAX_ERROR, f"more than {_MOST_CHARACTERS} characters")
    try:
        tree = parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        return Finding(Outcome.SYNTAX_ERROR, f"line {line}: {getattr(error, 'msg', error)}"[:300])
    visitor = _Visitor()
    try:
        visitor.read(tree)
    except RecursionError:
        return Finding(Outcome.SYNTAX_ERROR, "nested too deeply")
    if visitor.finding is not None:
        return visitor.finding
    if not visitor.jitted:
        return Finding(Outcome.NOT_TRITON, "no function is made a kernel by @triton.jit")
    if not visitor.launched:
        kernel = next(iter(visitor.kernels), "")
        return Finding(Outcome.NOT_TRITON, f"kernel `{kernel}` is never launched: kernel[grid](...)")
    if "ModelNew" not in visitor.scopes[0].bound:
        return Finding(Outcome.NO_ENTRY, "no class ModelNew")
    return None


@dataclasses.dataclass
class _Scope:
    """Names that a module or function binds."""

    bound: set[str] = dataclasses.field(default_factory=set)
    paths: dict[str, str] = dataclasses.field(default_factory=dict)
    """The dotted paths of names that stand for an imported module or member."""


class _Visitor(ast.NodeVisitor):
    def __init__(self) -> None:
        self.finding: Finding | None = None
        self.kernels: set[str] = set()
        self.jitted = self.launched = False
        self.scopes = [_Scope()]
        self._in_kernel = 0
        self._plain: set[int] = set()
        """Ids of nodes that may be a module."""
        self._decorators: set[int] = set()
        self._callees: set[int] = set()
        self._told: set[int] = set()
        """Ids of nodes whose class, or whether they are None, may be asked: no launch depends on it, or it is drawn."""

    def read(self, tree: ast.Module) -> None:
        self._collect(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and self._is_kernel(node):
                self.kernels.add(node.name)
        self.visit(tree)

    def visit(self, node: ast.AST) -> None:
        if self.finding is None:
            super().visit(node)

    def _reject(self, outcome: Outcome, node: ast.AST, what: str) -> None:
        if self.finding is None:
            self.finding = Finding(outcome, f"line {getattr(node, 'lineno', '?')}: {what}")

    # -- scopes ------------------------------------------------------------------------------------------------

    def _collect(self, root: ast.AST) -> None:
        """Record the names that `root` binds in the innermost scope. Two passes, to resolve aliases of aliases."""
        scope = self.scopes[-1]
        own = list(_own(root))
        outer = {n for node in own if isinstance(node, (ast.Global, ast.Nonlocal)) for n in node.names}
        for _ in range(2):
            for node in own:
                for name, path in self._bindings(node):
                    if name in outer:
                        continue
                    scope.bound.add(name)
                    if path is not None:
                        scope.paths[name] = path

    def _bindings(self, node: ast.AST) -> Iterator[tuple[str, str | None]]:
        """(name, path) of each name that one node binds; the path is None unless it is imported."""
        if isinstance(node, ast.Import):
            for item in node.names:
                yield (
                    item.asname or item.name.split(".")[0],
                    item.name if item.asname else item.name.split(".")[0],
                )
        elif isinstance(node, ast.ImportFrom):
            for item in node.names:
                yield item.asname or item.name, f"{node.module}.{item.name}"
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and node.value is not None:
                    yield target.id, self._path(node.value)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, None
        elif isinstance(node, ast.arg):
            yield node.arg, None
        elif isinstance(node, (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)) and node.name:
            yield node.name, None

    def _local(self, name: str) -> bool:
        """Whether a function binds this name, so that it cannot be the builtin one."""
        return any(name in scope.bound for scope in self.scopes[1:])

    def _path(self, node: ast.AST) -> str | None:
        """`tl.math.exp` with `import triton.language as tl` -> `triton.language.math.exp`."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        for scope in reversed(self.scopes):
            if node.id in scope.paths:
                start = scope.paths[node.id]
                if start.count(".") + len(parts) > _LONGEST_PATH:
                    self._reject(Outcome.FORBIDDEN_CODE, node, f"a path of more than {_LONGEST_PATH} names")
                    return start
                return ".".join([start, *reversed(parts)])
            if node.id in scope.bound:
                return None
        return None

    def _enter_scope(self, node: ast.AST) -> None:
        self.scopes.append(_Scope())
        self._collect(node)
        self.generic_visit(node)
        self.scopes.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda = _enter_scope

    # -- imports -----------------------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        for item in node.names:
            self._judge(Outcome.FORBIDDEN_IMPORT, node, item.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            self._reject(
                Outcome.FORBIDDEN_IMPORT, node, "relative import: a candidate is one stand-alone file"
            )
        for item in node.names:
            if item.name == "*" and node.module not in ("math", "__future__"):
                self._reject(
                    Outcome.FORBIDDEN_IMPORT, node, f"from {node.module} import *: name what you need"
                )
            self._judge(Outcome.FORBIDDEN_IMPORT, node, f"{node.module}.{item.name}")

    def _judge(self, outcome: Outcome, node: ast.AST, path: str) -> None:
        why = rules.forbidden(path)
        if why:
            self._reject(outcome, node, f"import of {why}" if "." not in path else why)

    # -- names and attributes ------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> None:
        name = node.id
        if _dunder(name):
            allowed = rules.NAMED["dunder_names" if isinstance(node.ctx, ast.Load) else "dunder_globals"]
            if name not in allowed:
                self._reject(Outcome.FORBIDDEN_CODE, node, f"`{name}`")
        elif isinstance(node.ctx, ast.Load) and not self._local(name):
            if name in rules.NAMED["builtins"]:
                self._reject(Outcome.FORBIDDEN_CODE, node, f"`{name}`")
            if name in {"type", *rules.NAMED["reflection"]} and id(node) not in self._callees:
                self._reject(Outcome.FORBIDDEN_CODE, node, f"`{name}` as a value: call it")
        if isinstance(node.ctx, ast.Load):
            self._note_mention(node, name)
            self._value(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        self._attribute(node, node.attr, node.value)
        if node.attr == "__class__":
            self._class_of(node, node.value)
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            owner = self._path(node.value)
            strange = _dunder(node.attr) and node.attr not in rules.NAMED["assigned_dunders"]
            if strange or owner is not None or self._is_foreign_class(node.value):
                what = f"assignment to `{ast.unparse(node)}` patches a library"
                self._reject(Outcome.FORBIDDEN_CODE, node, what)
        if path is None:
            self.visit(node.value)
            return
        self._judge(Outcome.FORBIDDEN_CODE, node, path)
        if isinstance(node.ctx, ast.Load):
            self._note_mention(node, "")
            self._value(node)

    def _attribute(self, node: ast.AST, name: str, base: ast.AST) -> None:
        """Judge an attribute by its name alone."""
        of_super = isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super"
        strange = _dunder(name) and name not in (rules.SUPER_DUNDERS if of_super else rules.NAMED["dunders"])
        if strange or name in rules.NAMED["attributes"]:
            self._reject(Outcome.FORBIDDEN_CODE, node, f"attribute `{name}`")
        asked = not isinstance(getattr(node, "ctx", None), ast.Store) and not self._in_kernel
        private = name in rules.private_names(of_self=_name(base) in ("self", "cls"))
        if asked and (private or (name == "grad_fn" and id(node) not in self._told)):
            what = f"attribute `{name}`: what a kernel computes does not depend on who made a tensor or uses a module"
            self._reject(Outcome.FORBIDDEN_CODE, node, what)

    def _class_of(self, node: ast.AST, base: ast.AST) -> None:
        """Reject asking for the class of anything but `self` and `cls`, except to tell it or to make another."""
        own = isinstance(base, ast.Name) and base.id in ("self", "cls")
        if not (own or id(node) in self._told or self._in_kernel):
            what = f"`{ast.unparse(node)[:80]}`: what a kernel computes does not depend on classes; use isinstance"
            self._reject(Outcome.FORBIDDEN_CODE, node, what)

    def _tell(self, *nodes: ast.AST | None) -> None:
        self._told.update(id(part) for node in nodes if node is not None for part in ast.walk(node))

    def visit_Raise(self, node: ast.Raise) -> None:
        self._tell(node)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        self._tell(node.msg)
        self.generic_visit(node)

    def _value(self, node: ast.expr) -> None:
        """Reject a module used as a value, which we could no longer track."""
        path = self._path(node)
        if path is not None and not (id(node) in self._plain or self._in_kernel) and rules.is_module(path):
            self._reject(Outcome.FORBIDDEN_CODE, node, f"module `{path}` as a value")

    def _note_mention(self, node: ast.expr, name: str) -> None:
        """Note the signs that a file has kernels and uses them: `triton.jit`, and mentions of a kernel's name."""
        path = self._path(node)
        if path in _JIT or (path or "").startswith("triton.experimental"):
            self.jitted = True
            # A kernel made by calling `jit` may have any name.
            self.launched = self.launched or id(node) not in self._decorators
        if name in self.kernels and not self._in_kernel:
            self.launched = True

    def _is_foreign_class(self, node: ast.AST) -> bool:
        """Whether this is `type(x)` or `x.__class__` of anything but `self` and `cls`."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type":
            return not (node.args and _own_object(node.args[0]))
        return isinstance(node, ast.Attribute) and node.attr == "__class__" and not _own_object(node.value)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:  # a pattern reads attributes without an Attribute node
            self._attribute(node, name, node)
            if name.startswith("_"):
                self._reject(Outcome.FORBIDDEN_CODE, node, f"attribute `{name}` in a pattern")
        self.generic_visit(node)

    # -- places where a module may stand -------------------------------------------------------------------------

    def _allow(self, *nodes: ast.AST | None) -> None:
        for node in nodes:
            if isinstance(node, ast.BoolOp):
                self._allow(*node.values)
            elif isinstance(node, ast.UnaryOp):
                self._allow(node.operand)
            elif node is not None:
                self._plain.add(id(node))

    def visit_Assign(self, node: ast.Assign) -> None:
        if all(isinstance(target, ast.Name) for target in node.targets):
            self._allow(node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._allow(node.value)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        self._allow(node.value)
        if isinstance(node.value, ast.Call) and _name(node.value.func) in rules.NAMED["telling"]:
            self._tell(node.value)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._allow(node.left, *node.comparators)
        others = [
            part
            for side in node.comparators
            for part in (side.elts if isinstance(side, ast.Tuple) else [side])
        ]
        if all(_name(one) in rules.NAMED["plain_types"] or _is_none(one) for one in others):
            self._told.add(id(node.left))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if _is_main(node.test):
            for statement in node.orelse:
                self.visit(statement)
            return
        self._allow(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._allow(node.test)
        self.generic_visit(node)

    # -- calls and stores ------------------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        self._allow(function)
        self._callees.add(id(function))
        self._told.add(id(function))
        if isinstance(function, ast.Subscript):
            self.launched = self.launched or not self._in_kernel
        if isinstance(function, ast.Name) and not self._local(function.id):
            if function.id in rules.NAMED["reflection"] and node.args:
                self._allow(node.args[0])
                self._reflective(node, function.id)
            if function.id == "type" and len(node.args) == 1:
                self._class_of(node, node.args[0])
            if function.id == "type" and len(node.args) == 3:
                self._reject(Outcome.FORBIDDEN_CODE, node, "a class made by type(...)")
        path = self._path(function) or ""
        if path == "functools.wraps" and (len(node.args) != 1 or node.keywords):
            self._reject(Outcome.FORBIDDEN_CODE, node, "functools.wraps with more than a function")
        owner, _, method = path.rpartition(".")
        if owner == "os.environ" and method not in ("get", "keys", "values", "items", "copy"):
            self._reject(Outcome.FORBIDDEN_CODE, node, f"os.environ.{method}")
        self.generic_visit(node)

    def _reflective(self, node: ast.Call, name: str) -> None:
        """getattr and its kind: a literal name is judged as an attribute, a computed one by its literal prefix."""
        base, key = node.args[0], node.args[1] if len(node.args) > 1 else None
        path = self._path(base)
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            self._attribute(node, key.value, base)
            if path is not None:
                self._judge(Outcome.FORBIDDEN_CODE, node, f"{path}.{key.value}")
        elif path is not None or not (_own_object(base) or _harmless(_beginning(key))):
            self._reject(Outcome.FORBIDDEN_CODE, node, f"{name} with a computed name")
        if name in ("setattr", "delattr") and (path is not None or self._is_foreign_class(base)):
            self._reject(Outcome.FORBIDDEN_CODE, node, f"{name} on a library")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        path = self._path(node.value)
        if path is not None:
            self._allow(node.value if path == "os.environ" else None)
            if isinstance(node.ctx, (ast.Store, ast.Del)):
                self._reject(Outcome.FORBIDDEN_CODE, node, f"assignment to {path}[...]")
        self.generic_visit(node)

    # -- definitions -----------------------------------------------------------------------------------------------

    def _is_kernel(self, node: ast.FunctionDef) -> bool:
        targets = [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]
        self._decorators.update(map(id, targets))
        return any(self._path(item) in _JIT for item in targets)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in rules.NAMED["definitions"]:
            self._reject(Outcome.FORBIDDEN_CODE, node, f"definition of {node.name}")
        kernel = self._is_kernel(node)
        self.jitted = self.jitted or kernel
        self._in_kernel += kernel
        self._enter_scope(node)
        self._in_kernel -= kernel

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._reject(Outcome.FORBIDDEN_CODE, node, "async function")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            path = self._path(base) or ""
            if path == "torch.Tensor" or path.endswith(("TorchFunctionMode", "TorchDispatchMode")):
                self._reject(Outcome.FORBIDDEN_CODE, node, f"subclass of {path}")
        if any(keyword.arg == "metaclass" for keyword in node.keywords):
            self._reject(Outcome.FORBIDDEN_CODE, node, "a metaclass")
        self.generic_visit(node)


def _own(root: ast.AST) -> Iterator[ast.AST]:
    """The nodes of `root`'s scope, without the bodies of functions inside it."""
    waiting = [*ast.iter_child_nodes(root)][::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend([*ast.iter_child_nodes(node)][::-1])


def _dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _name(node: ast.AST) -> str:
    """The last name of a dotted path, or an empty string."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_main(test: ast.expr) -> bool:
    """Whether this is `__name__ == "__main__"`, which is never true in the judge."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)):
        return False
    sides = [test.left, test.comparators[0]]
    names = [side.id for side in sides if isinstance(side, ast.Name)]
    return names == ["__name__"] and any(isinstance(s, ast.Constant) and s.value == "__main__" for s in sides)


def _own_object(node: ast.AST) -> bool:
    """Whether this is `self`, `cls` or an attribute of them."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _beginning(key: ast.AST | None) -> str:
    """The literal prefix of a computed name."""
    while isinstance(key, ast.BinOp):
        key = key.left
    if isinstance(key, ast.JoinedStr) and key.values:
        key = key.values[0]
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _harmless(beginning: str) -> bool:
    """Whether no forbidden attribute, and no question that a file must ask by its name, begins with this prefix."""
    known = rules.NAMED["attributes"] | rules.TENSORS["otherwise"]
    return beginning[:1] not in ("", "_") and not any(name.startswith(beginning) for name in known)
