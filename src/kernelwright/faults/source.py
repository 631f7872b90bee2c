"""Parses a module with Triton kernels for planting faults: which functions are kernels, and what expressions are for.

An expression in a kernel has a role: it computes an `address`, a `mask`, the `padding` of a load, the bounds of a `loop`, the
`condition` of a select, or a `value`. A name has the roles of all its uses. Roles follow from naming conventions (the
language is `tl`), so they may be wrong: a fault planted in the wrong place is still a fault.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from typing import TypeVar

from kernelwright.parsing import apply_edits, is_kernel, names_within, spans

Node = TypeVar("Node", bound=ast.AST)
_STORES = ("store", "atomic_add", "atomic_max", "atomic_min", "atomic_and", "atomic_or", "atomic_xchg")
_MEMORY = ("load", "atomic_cas", *_STORES)
_SHAPES = ("zeros", "full", "arange", "program_id", "num_programs", "cdiv", "range", "static_range")
JOINS = ("sum", "max", "min", "dot", "cumsum", "cumprod", "associative_scan", "reduce", "argmax", "argmin")
"""Calls that combine lanes of a block."""
_PLAIN = ("min", "max", "abs", "float", "int")


@dataclasses.dataclass(frozen=True)
class Fault:
    """One bug at one place in a correct module."""

    kind: str
    """One of `KINDS` or `PRECISION`; `plant` fills it in."""
    line: int
    what: str
    """Old and new text, on one line."""
    code: str
    """The whole module with the bug."""
    equivalent: str = ""
    """Why this edit cannot change any result, if that is known: then it is not a bug."""


def callee(node: ast.AST) -> str:
    """`load` for `tl.load(...)`, `gelu` for `gelu(...)`, `.to` for `x.to(...)`; empty for anything but a call."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        inner = node.func.value
        library = (isinstance(inner, ast.Name) and inner.id in ("tl", "libdevice", "triton")) or (
            isinstance(inner, ast.Attribute) and inner.attr in ("math", "libdevice", "extra")
        )
        return node.func.attr if library else f".{node.func.attr}"
    return node.func.id if isinstance(node.func, ast.Name) else ""


class Source:
    """A module's text, syntax tree and functions."""

    def __init__(self, code: str) -> None:
        """Raises SyntaxError if `code` does not parse."""
        self.code = code
        self.tree = ast.parse(code)
        self.span = spans(code)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        functions = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]
        self.kernels = [Kernel(self, node) for node in functions if is_kernel(node)]
        self.hosts = [node for node in functions if not is_kernel(node)]

    def launches(self) -> Iterator[tuple[Kernel, ast.Call]]:
        """Every `kernel[grid](...)` of the host code."""
        for node in self.host_nodes(ast.Call):
            if isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name):
                name = node.func.value.id
                yield from ((kernel, node) for kernel in self.kernels if kernel.node.name == name)

    def host_nodes(self, kind: type[Node]) -> Iterator[Node]:
        return (node for host in self.hosts for node in ast.walk(host) if isinstance(node, kind))

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.code.encode()[start:end].decode()

    def fault(self, node: ast.AST, new: str, *more: tuple[ast.AST, str], equivalent: str = "") -> Fault:
        """Replace `node` by `new`, and likewise each pair of `more`."""
        code = apply_edits(self.code, ((*self.span(place), text) for place, text in ((node, new), *more)))
        old = " ".join(self.text(node).split())
        what = f"{old[:70]} -> {' '.join(new.split())[:90]}"
        return Fault("", node.lineno, what, code, equivalent)  # type: ignore[attr-defined]


class Kernel:
    """One `@triton.jit` function and the roles of its expressions."""

    def __init__(self, source: Source, node: ast.FunctionDef) -> None:
        self.source, self.node = source, node
        arguments = node.args.args
        self.parameters = [argument.arg for argument in arguments]
        self.constants = {
            a.arg for a in arguments if a.annotation is not None and "constexpr" in ast.dump(a.annotation)
        }
        self._assigned: dict[str, list[ast.expr]] = {}
        for item in ast.walk(node):
            if (
                isinstance(item, ast.Assign)
                and len(item.targets) == 1
                and isinstance(item.targets[0], ast.Name)
            ):
                self._assigned.setdefault(item.targets[0].id, []).append(item.value)
        self.roles: dict[str, set[str]] = {}
        uses = [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        changed = True
        while changed:
            changed = False
            for use in uses:
                known = self.roles.setdefault(use.id, set())
                found = self._uses(use)
                changed = changed or not found <= known
                known |= found
        self.pointers = {
            name for call in self.calls(*_MEMORY) if call.args for name in self._roots(call.args[0], set())
        }

    @property
    def sizes(self) -> list[str]:
        """Parameters that are plain numbers at launch."""
        return [name for name in self.parameters if name not in self.constants | self.pointers]

    def nodes(self, *kinds: type[Node]) -> Iterator[Node]:
        """Nodes of the body, in order of the text."""
        found = [node for part in self.node.body for node in ast.walk(part) if isinstance(node, kinds)]
        yield from sorted(found, key=lambda n: (n.lineno, n.col_offset))  # type: ignore[attr-defined]

    def calls(self, *names: str) -> Iterator[ast.Call]:
        return (node for node in self.nodes(ast.Call) if callee(node) in names)

    def stores(self) -> Iterator[ast.Call]:
        """Every store and atomic update that names its value."""
        return (call for call in self.calls(*_STORES) if len(call.args) > 1)

    def assigned(self, name: str) -> list[ast.expr]:
        """The values assigned to a name, in order."""
        return self._assigned.get(name, [])

    def readers(self, name: str) -> list[ast.AST]:
        """The expressions and statements that use a name."""
        uses = (use for use in self.nodes(ast.Name) if use.id == name)
        return [self.source.parents[use] for use in uses if isinstance(use.ctx, ast.Load)]

    def role(self, node: ast.AST) -> str:
        """The role of an expression; `value` wins over `address`, and both over `mask`."""
        roles = self._uses(node)
        for name in ("value", "address", "mask", "condition", "padding", "loop", "argument"):
            if name in roles:
                return name
        return "other"

    def reduces(self) -> bool:
        """Whether lanes of a block are combined: only then can a load's padding affect a result."""
        return any(True for _ in self.calls(*JOINS, "sort"))

    def _uses(self, node: ast.AST) -> set[str]:
        parents = self.source.parents
        child, parent = node, parents.get(node)
        while parent is not None:
            if isinstance(parent, ast.keyword):
                if parent.arg in ("mask", "other"):
                    return {"mask" if parent.arg == "mask" else "padding"}
                if parent.arg not in ("acc", "input", "value"):
                    return {"option"}
            elif isinstance(parent, ast.Call) and child is not parent.func and child in parent.args:
                name, place = callee(parent), parent.args.index(child)
                if name in _MEMORY:
                    if place == 0:
                        return {"address"}
                    if name == "load" or place > 1:
                        return {"mask" if place == 1 or name != "load" else "padding"}
                    return {"value"}
                if name == "where" and place == 0:
                    return {"condition"}
                if name in ("range", "static_range"):
                    return {"loop"}
                if name in _SHAPES:
                    return {"shape"}
                if isinstance(parent.func, ast.Name) and name not in _PLAIN:
                    return {"argument"}
            elif isinstance(parent, ast.Subscript) and child is parent.slice:
                return {"slice"}
            elif isinstance(parent, ast.Assign | ast.AugAssign | ast.AnnAssign):
                targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
                names = [name for target in targets for name in names_within(target)]
                return set().union(*(self.roles.get(name, set()) for name in names))
            elif isinstance(parent, ast.Return):
                return {"value"}
            elif isinstance(parent, ast.stmt):
                return {"other"}
            child, parent = parent, parents.get(parent)
        return {"other"}

    def _roots(self, node: ast.expr, seen: set[str]) -> Iterator[str]:
        """Parameters from which an address is computed."""
        while isinstance(node, ast.BinOp):
            node = node.left
        if isinstance(node, ast.Name) and node.id not in seen:
            if node.id in self.parameters:
                yield node.id
            for value in self.assigned(node.id):
                yield from self._roots(value, seen | {node.id})
