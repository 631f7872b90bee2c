"""An `nn.Module` class with all that it needs, as one stand-alone text: of an installed package, which is read and not
imported (`Library`), or of this process (`Live`).

A class takes along what it uses from its package (functions, constants, other classes), in order of need; from
elsewhere only torch and a few modules of the standard library. Annotations, docstrings, decorators and log calls go.
Raises Skip, with a counted reason, for a class that does not stand alone within `LONGEST` characters.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib.metadata
import importlib.util
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

LONGEST = 6000
"""Characters of a class with all that it needs."""
ALLOWED = frozenset(
    [
        "torch",
        "math",
        "typing",
        "functools",
        "itertools",
        "collections",
        "enum",
        "numbers",
        "warnings",
        "os",
        "copy",
        "abc",
        "operator",
    ]
)
STAND_INS = {
    "ACT2FN": 'ACT2FN = {"gelu": nn.GELU(), "silu": nn.SiLU(), "relu": nn.ReLU(), "tanh": nn.Tanh()}',
}
"""What stands for a package's table that would bring in half of the package; these entries mean the same there."""
_DECORATORS = frozenset({"staticmethod", "classmethod", "property"})
_LOGGERS = frozenset({"logger", "_logger", "logging", "warnings"})
_FORMS = {"Module", "nn.Module", "torch.nn.Module"}


class Skip(Exception):
    """Why a class makes no task; `str()` is counted."""


@dataclass(frozen=True)
class Package:
    """An installed package, found and not imported."""

    name: str
    version: str
    licence: str
    root: Path


def find(name: str, folder: Path | None = None) -> Package | None:
    """The package, in `folder` (as `pip install --target` makes them) or on the path; None where it is not there."""
    if folder is not None:
        root = folder / name
        spots = importlib.metadata.distributions(path=[str(folder)])
        meta = next((d for d in spots if d.metadata["Name"].replace("-", "_").lower() == name.lower()), None)
    else:
        spec = importlib.util.find_spec(name)
        root = Path(spec.origin).parent if spec and spec.origin else Path("/nowhere")
        try:
            meta = importlib.metadata.distribution(name.replace("_", "-"))
        except importlib.metadata.PackageNotFoundError:
            meta = None
    if not root.is_dir():
        return None
    return Package(name, meta.version if meta else "", _licence(meta), root)


def _licence(meta: Any) -> str:
    if meta is None:
        return "unknown"
    fields = meta.metadata
    kinds = [
        line.rpartition(":: ")[2]
        for line in fields.get_all("Classifier") or ()
        if line.startswith("License ::")
    ]
    text = (
        fields.get("License-Expression") or (fields.get("License") or "").split("\n")[0] or ", ".join(kinds)
    )
    return str(text)[:80] or "unknown"


class Library:
    """The modules of one package, parsed when they are asked for."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self._modules: dict[str, dict[str, ast.stmt]] = {}

    def modules(self) -> Iterator[str]:
        """Dotted names of its modules, tests apart, in order."""
        for path in sorted(self.package.root.rglob("*.py")):
            parts = path.relative_to(self.package.root.parent).with_suffix("").parts
            if not any(part.startswith(("test", "_pytest")) for part in parts):
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def path(self, module: str) -> Path | None:
        base = self.package.root.parent.joinpath(*module.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
        return None

    def names(self, module: str) -> dict[str, ast.stmt]:
        """What a module binds at its top level."""
        if module not in self._modules:
            path = self.path(module)
            found: dict[str, ast.stmt] = {}
            if path is not None:
                try:
                    tree = ast.parse(path.read_text("utf-8"))
                except (SyntaxError, ValueError, RecursionError):
                    tree = ast.Module([], [])
                for statement in _top(tree.body):
                    for name in _bound(statement):
                        found.setdefault(name, statement)
            self._modules[module] = found
        return self._modules[module]

    def classes(self, module: str) -> list[ast.ClassDef]:
        """Classes with a `forward` of their own whose bases look like modules."""
        return [
            node
            for name, node in self.names(module).items()
            if isinstance(node, ast.ClassDef)
            and node.name == name
            and any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in node.body)
            and any(ast.unparse(base) in _FORMS for base in node.bases)
        ]

    def statement(self, module: str, name: str) -> ast.stmt | None:
        """What binds a name at the top of a module."""
        return self.names(module).get(name)

    def inside(self, module: str) -> bool:
        """Whether a module's things are taken along rather than imported."""
        return module.split(".")[0] == self.package.name

    def closure(self, module: str, name: str) -> str:
        """The class with all that it needs, as one text. Raises Skip."""
        gathering = _Gathering(self)
        gathering.need(module, name)
        imports = sorted(gathering.imports)
        return "\n".join(imports) + "\n\n\n" + "\n\n\n".join(gathering.texts)


class Live(Library):
    """The modules of this process, notebooks and scripts among them; `of` is the class that is asked for."""

    def __init__(self, of: type) -> None:
        super().__init__(Package(of.__module__.split(".")[0], "", "", Path("/nowhere")))
        self._of = of

    def path(self, module: str) -> Path | None:
        loaded = sys.modules.get(module)
        file = getattr(loaded, "__file__", None)
        if file is None and loaded is None:
            try:
                spec = importlib.util.find_spec(module)
            except (ImportError, ValueError):
                spec = None
            file = spec.origin if spec else None
        return Path(file) if file and file.endswith(".py") and Path(file).is_file() else None

    def inside(self, module: str) -> bool:
        root = module.split(".")[0]
        return root not in ALLOWED and root not in sys.stdlib_module_names and self.path(module) is not None

    def statement(self, module: str, name: str) -> ast.stmt | None:
        """By the text of the module; what has none there (notebooks, classes inside functions), by the object."""
        of = self._of
        if (module, name) != (of.__module__, of.__name__) or of.__qualname__ == of.__name__:
            found = self.names(module).get(name)
            if found is not None:
                return found
        value = of if name == of.__name__ else vars(sys.modules.get(module, types)).get(name)
        if isinstance(value, types.ModuleType):
            return ast.Import([ast.alias(value.__name__, name if name != value.__name__ else None)])
        if isinstance(value, bool | int | float | str):
            return ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value), lineno=0)
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(value)))  # type: ignore[arg-type]
        except (OSError, TypeError, SyntaxError):
            return None
        return tree.body[0] if tree.body and getattr(tree.body[0], "name", None) == name else None


class _Gathering:
    def __init__(self, library: Library) -> None:
        self.library = library
        self.imports: set[str] = {"import torch", "import torch.nn as nn"}
        self.texts: list[str] = []
        self.owners: dict[str, str] = {}

    def need(self, module: str, name: str) -> None:
        if self.owners.get(name) == module or hasattr(builtins, name):
            return
        if name in STAND_INS:
            if name not in self.owners:
                self.texts.append(STAND_INS[name])
            self.owners[name] = module
            return
        statement = self.library.statement(module, name)
        if statement is None:
            raise Skip(f"name: {name} is not found")
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            self._imported(module, name, statement)
            return
        if name in self.owners:
            raise Skip("two things of one name")
        for bound in _bound(statement):
            self.owners[bound] = module
        plain = _plain(statement)
        self._inner_imports(plain)
        for used in _used(plain):
            if used not in self.owners or self.owners[used] != module:
                self.need(module, used)
        text = ast.unparse(ast.fix_missing_locations(plain))
        self.texts.append(text)
        if sum(map(len, self.texts)) > LONGEST:
            raise Skip(f"longer than {LONGEST} characters")

    def _inner_imports(self, tree: ast.AST) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for item in node.names:
                    self._external(item.name.split(".")[0])
            elif isinstance(node, ast.ImportFrom):
                self._external(
                    "its package inside a function" if node.level else (node.module or "").split(".")[0]
                )

    def _imported(self, module: str, name: str, statement: ast.Import | ast.ImportFrom) -> None:
        item = next(n for n in statement.names if (n.asname or n.name.split(".")[0]) == name)
        alias = f" as {item.asname}" if item.asname else ""
        if isinstance(statement, ast.Import):
            self._external(item.name.split(".")[0])
            self.imports.add(f"import {item.name}{alias}")
            return
        source = statement.module or ""
        if statement.level:
            parts = module.split(".")
            path = self.library.path(module)
            drop = statement.level - (path is not None and path.name == "__init__.py")
            source = ".".join([*parts[: len(parts) - drop], *filter(None, [source])])
        if not self.library.inside(source):
            self._external(source.split(".")[0])
            self.imports.add(f"from {source} import {item.name}{alias}")
            return
        if self.library.path(f"{source}.{item.name}") is not None:
            raise Skip("needs a module as a whole")
        self.need(source, item.name)
        if item.asname and item.asname != item.name:
            self.owners[item.asname] = module
            self.texts.append(f"{item.asname} = {item.name}")
        self.owners.setdefault(name, module)

    def _external(self, root: str) -> None:
        if root not in ALLOWED:
            raise Skip(f"needs {root}")


def _top(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If):
            yield from _top([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _top(node.body)
        else:
            yield node


def _bound(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [item.asname or item.name.split(".")[0] for item in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [
        node.id
        for target in targets
        if target is not None
        for node in ast.walk(target)
        if isinstance(node, ast.Name)
    ]


class _Plain(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return self._bare(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        return self._bare(node)

    def _bare(self, node: Any) -> ast.AST:
        node.decorator_list = [
            d for d in node.decorator_list if isinstance(d, ast.Name) and d.id in _DECORATORS
        ]
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            node.body = node.body[1:]
        node.body = node.body or [ast.Pass()]
        return cast(ast.AST, node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        self.generic_visit(node)
        return None if node.value is None else ast.Assign([node.target], node.value, lineno=0)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Call):
            owner = node.value.func
            while isinstance(owner, ast.Attribute):
                owner = owner.value
            if isinstance(owner, ast.Name) and owner.id in _LOGGERS:
                return None
        return node


def _plain(statement: ast.stmt) -> ast.stmt:
    made = _Plain().visit(copy.deepcopy(statement))
    if made is None:
        raise Skip("a declaration without a value")
    for node in ast.walk(made):
        if getattr(node, "body", None) == []:
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
    return cast(ast.stmt, made)


def _used(tree: ast.AST) -> list[str]:
    """Names that a statement reads and does not bind itself, in order."""
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    bound |= {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {item.asname or item.name.split(".")[0] for item in node.names}
    bound |= {n.name for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler) and n.name}
    read = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    return [name for name in dict.fromkeys(read) if name not in bound]
