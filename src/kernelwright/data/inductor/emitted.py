"""Inductor's output for a suite as kept by `emit`, and how two such dumps differ, kernel by kernel.

A kernel is the text that Inductor hands to `async_compile.triton`. Two are identical when their bytes are. Others are
sorted by all that sets them apart: keys of their metadata (device properties, hashes, autotune hints), temporaries'
names, tiles, cache hints, index types; `code` is what none of these explains. Nothing is executed.
"""

from __future__ import annotations

import ast
import copy
import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from kernelwright.errors import UserError
from kernelwright.records import Record, Task


class Emission(Record):
    """One task and what came of it."""

    task: Task
    digest: str
    """Of the source and the shape sets; see `digest`."""
    raw: str = ""
    """Inductor's module."""
    code: str = ""
    """The stand-alone module made of it."""
    reason: str = ""
    """Why there is no stand-alone module, or no module at all."""


class Dump(Record):
    """What one machine emitted."""

    where: str
    """A sheet's name where there was no GPU, else `gpu` or `own`; see `emit`."""
    machine: Mapping[str, str]
    """Versions of torch, triton, python, cuda, and the device."""
    emissions: tuple[Emission, ...]

    @classmethod
    def read(cls, path: Path) -> Dump:
        """Raises UserError for a file that is none."""
        try:
            return cls.model_validate_json(path.read_text("utf-8"))
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; make it with --dump") from None
        except (ValidationError, ValueError):
            raise UserError(f"{path} is no dump of this version; make it anew with --dump") from None


class Change(NamedTuple):
    """One kernel that is not byte-identical."""

    task_id: str
    kernel: str
    kinds: tuple[str, ...]
    """All that sets it apart, such as `device properties: triton_meta.device.cc`."""
    diff: str


class Comparison(NamedTuple):
    """Two dumps side by side."""

    tasks: int
    """Tasks that both emitted kernels for."""
    missing: tuple[str, ...]
    """Tasks that one of them emitted nothing for, with the reason."""
    kernels: int
    identical: int
    changes: tuple[Change, ...]
    raw: int
    """Inductor's whole modules, with paths and wrapper, that are byte-identical."""
    modules: tuple[int, int]
    """Stand-alone modules that are byte-identical, of those that both have."""

    @property
    def kinds(self) -> Counter[str]:
        """How many kernels each kind of difference concerns."""
        return Counter(kind for change in self.changes for kind in change.kinds)


def digest(task: Task) -> str:
    """16 hex digits of a task's source and shape sets."""
    return hashlib.sha256(f"{task.source}\n{dict(task.shapes)}".encode()).hexdigest()[:16]


def compare(left: Dump, right: Dump) -> Comparison:
    """Raises UserError for dumps of different versions or with no task in common."""
    for name in ("torch", "triton"):
        ours, theirs = (dump.machine.get(name, "").split("+")[0] for dump in (left, right))
        if ours != theirs:
            raise UserError(f"dumps of {name} {ours} and {theirs}; compare dumps of the same version")
    others = {emission.digest: emission for emission in right.emissions}
    pairs = [(one, others[one.digest]) for one in left.emissions if one.digest in others]
    if not pairs:
        raise UserError(
            "the dumps have no task in common; make both with the same --suite, --tasks and --seed"
        )
    missing: list[str] = []
    changes: list[Change] = []
    tasks = count = identical = raw = same = both = 0
    for one, other in pairs:
        task_id = one.task.id
        if not one.raw or not other.raw:
            if one.raw or other.raw:
                where, reason = (left.where, one.reason) if other.raw else (right.where, other.reason)
                missing.append(f"{task_id}: nothing by {where}: {reason}")
            continue
        tasks += 1
        raw += one.raw == other.raw
        if one.code and other.code:
            both += 1
            same += one.code == other.code
        for name, first, second in _paired(kernels(one.raw), kernels(other.raw)):
            count += 1
            if first == second:
                identical += 1
            else:
                changes.append(Change(task_id, name, differences(first, second), _diff(first, second)))
    return Comparison(tasks, tuple(missing), count, identical, tuple(changes), raw, (same, both))


def kernels(raw: str) -> dict[str, str]:
    """Source by name of every kernel in one of Inductor's modules, in order."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(raw)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "async_compile.triton":
            name, source = node.args[:2]
            if isinstance(name, ast.Constant) and isinstance(source, ast.Constant):
                found[str(name.value)] = str(source.value)
    return found


def _paired(left: Mapping[str, str], right: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """(name, source, other source): by place where there are as many, else by name, with "" for none."""
    if len(left) == len(right):
        yield from zip(left, left.values(), right.values(), strict=True)
        return
    for name in dict.fromkeys([*left, *right]):
        yield name, left.get(name, ""), right.get(name, "")


def differences(left: str, right: str) -> tuple[str, ...]:
    """All that sets two kernels apart, sorted; empty for equal bytes."""
    if left == right:
        return ()
    if not left or not right:
        return ("fusion: a kernel that only one has",)
    one, other = ast.parse(left), ast.parse(right)
    functions = [_split(tree) for tree in (one, other)]
    kinds: set[str] = set()
    metadata = [dict(_metadata(function)) for function, _ in functions]
    for key in metadata[0].keys() | metadata[1].keys():
        if metadata[0].get(key) != metadata[1].get(key):
            kinds.add(_kind(key))
    if functions[0][1] != functions[1][1]:
        kinds.add("imports")
    kinds.update(_body([function for function, _ in functions]))
    return tuple(sorted(kinds)) or ("comments and layout",)


def _split(tree: ast.Module) -> tuple[ast.FunctionDef, str]:
    """The kernel, and what stands around it, as text."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    rest = [node for node in tree.body if node is not functions[-1]]
    return functions[-1], "\n".join(ast.unparse(node) for node in rest)


def _metadata(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Every leaf of the decorators' arguments by its path, and the decorators' names."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call):
            yield "heuristic", ast.unparse(decorator.func)
            for keyword in decorator.keywords:
                yield from _leaves(str(keyword.arg), keyword.value)


def _leaves(path: str, node: ast.expr) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            name = str(key.value) if isinstance(key, ast.Constant) else ast.unparse(key) if key else "**"
            yield from _leaves(f"{path}.{name}", value)
    elif isinstance(node, ast.Call) and node.keywords:
        for keyword in node.keywords:
            yield from _leaves(f"{path}.{keyword.arg}", keyword.value)
    else:
        yield path, ast.unparse(node)


_KINDS = (
    (r"\.device\.", "device properties"),
    (r"hash", "hashes"),
    (r"(^|[._])(kernel_)?name$|filename|path", "names"),
    (r"^heuristic$", "heuristic"),
    (r"signature", "signature"),
    (r"size_hint|num_warps|num_stages|tun|config|hint|elem_per|num_load|num_store|regs|maxnreg|coordinate",
     "autotune hints"),
)  # fmt: skip


def _kind(key: str) -> str:
    kind = next((kind for pattern, kind in _KINDS if re.search(pattern, key)), "settings")
    return kind if kind == "heuristic" else f"{kind}: {key}"


def _body(functions: Sequence[ast.FunctionDef]) -> list[str]:
    """The fewest of `_VIEWS` under which two kernels are the same code; `code` where all together do not do."""

    def equal(kinds: Sequence[str]) -> bool:
        views = []
        for function in functions:
            copied = ast.parse(ast.unparse(_bare(function))).body[0]
            for kind in kinds:
                _VIEWS[kind](copied)
            views.append(ast.dump(copied))
        return views[0] == views[1]

    needed = list(_VIEWS)
    if not equal(needed):
        return ["code"]
    for kind in _VIEWS:
        rest = [other for other in needed if other != kind]
        if equal(rest):
            needed = rest
    return needed


def _bare(function: ast.FunctionDef) -> ast.FunctionDef:
    bare = copy.deepcopy(function)
    bare.decorator_list = []
    return bare


def _without_name(tree: ast.AST) -> None:
    if isinstance(tree, ast.FunctionDef):
        tree.name = "kernel"


def _without_tiles(tree: ast.AST) -> None:
    """`BLOCK_M : tl.constexpr = 128`, and other constants in capitals, without their numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id.isupper():
            node.value = None
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id.isupper()
            and isinstance(node.value, ast.Constant)
        ):
            node.value = ast.Constant(0)


def _without_cache_hints(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords = [
                keyword
                for keyword in node.keywords
                if keyword.arg not in ("eviction_policy", "cache_modifier")
            ]


def _without_index_types(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("int32", "int64"):
            node.attr = "int"


def _without_temporaries(tree: ast.AST) -> None:
    """Locals by the order in which they appear."""
    stored = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    numbers = {name: f"v{number}" for number, name in enumerate(dict.fromkeys(stored))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in numbers:
            node.id = numbers[node.id]


_VIEWS: Mapping[str, Callable[[ast.AST], None]] = {
    "names: of the kernel": _without_name,
    "tiles": _without_tiles,
    "cache hints": _without_cache_hints,
    "index type": _without_index_types,
    "names: of temporaries": _without_temporaries,
}
"""What two kernels may differ in and still be the same code, by the function that takes it away."""


def _diff(left: str, right: str) -> str:
    return "\n".join(
        difflib.unified_diff(left.splitlines(), right.splitlines(), "left", "right", "", "", 0, "")
    )
