"""Rewrites kernels that use names which PyTorch has removed.

    migrate(code) -> Migrated(code, changed, left)

An Inductor of 2024 emitted `grid(n)`, `get_raw_stream`, `empty_strided_cuda`, `assert_size_stride`, `reinterpret_tensor`,
`extern_kernels`, `triton_helpers` and `libdevice`; models that learned from its output still write them. We replace each
with what it did, by syntax only: the code is never executed. Results stay the same except for NaN (see
`policy.compiler.helpers`). Only modules whose launches name their tile sizes are supported, as in KernelBook; not
Inductor's own files with kernels in strings. Whether the result is correct is for the judge to decide.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.outcomes import Outcome
from kernelwright.parsing import callee, is_kernel, names_within, parse
from kernelwright.policy.compiler.helpers import LIBDEVICE, SOURCES, Plain
from kernelwright.policy.compiler.reasons import CannotCompile
from kernelwright.records import Candidate, Verdict

_GONE = ("torch._inductor", "torch._C", "torch._dynamo", "triton.compiler", "triton.backends.compiler")
"""Modules whose names are not public."""
_DROPPED = {
    "_cuda_getCurrentRawStream", "get_raw_stream", "assert_size_stride", "assert_alignment", "set_device",
    "start_graph", "end_graph",
}  # fmt: skip
"""Calls that change no values."""
_GUARDS = {"_DeviceGuard", "DeviceGuard"}
_GRIDS = {"grid"}
_EMPTY = {
    "_empty_strided_cuda": "",
    "empty_strided_cuda": "",
    "_empty_strided_cpu": "cpu",
    "empty_strided_cpu": "cpu",
}
_VIEWS = {"_reinterpret_tensor", "reinterpret_tensor"}
_MATH_LEFT = {
    "abs", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log", "log2", "rsqrt", "sin",
    "sqrt", "sqrt_rn", "umulhi",
}  # fmt: skip
"""Functions that `tl.math` still has; the others moved to libdevice."""
_MOST_ROWS = 65535
"""Most programs on a grid's second axis."""


@dataclass(frozen=True)
class Migrated:
    code: str
    """Unchanged if there was nothing to rewrite."""
    changed: tuple[str, ...] = ()
    """The removed names that the code used."""
    left: str = ""
    """Why part of it could not be rewritten."""


def migrate(code: str) -> Migrated:
    """Rewrite names of older versions of PyTorch and Triton. Code that does not parse is unchanged. Never raises."""
    try:
        tree = parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Migrated(code)
    names = _Names()
    names.read(tree)
    plain = Plain()
    try:
        tree = names.visit(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and is_kernel(node):
                plain.visit(node)
    except CannotCompile as reason:
        return Migrated(code, left=str(reason))
    except RecursionError:
        return Migrated(code, left="nested too deeply")
    if not names.changed:
        return Migrated(code)
    used = (
        {*names_within(tree, ast.Load)}
        - {*names_within(tree, ast.Store)}
        - {one.arg for one in ast.walk(tree) if isinstance(one, ast.arg)}
    )
    for name, came in names.known.items():
        if name in used and name not in plain.used:
            return Migrated(code, left=f"no counterpart: {came}")
    first = next((i for i, node in enumerate(tree.body) if is_kernel(node)), len(tree.body))
    own = [parse(f"@triton.jit\n{SOURCES[name]}").body[0] for name in plain.used if name != LIBDEVICE]
    if LIBDEVICE in plain.used:
        own[:0] = parse("from triton.language.extra import libdevice").body
    tree.body[first:first] = own
    return Migrated(ast.unparse(ast.fix_missing_locations(tree)) + "\n", tuple(sorted(names.changed)))


def migrated(candidate: Candidate) -> Candidate:
    """The candidate with its code rewritten and the removed names listed; unchanged if it has none."""
    if not candidate.code or candidate.problem is not None:
        return candidate
    made = migrate(candidate.code)
    if not made.changed:
        return candidate
    return candidate.model_copy(update={"code": made.code, "migrated": made.changed})


def count_as_migrated(candidate: Candidate, verdict: Verdict) -> Verdict:
    """The verdict on a rewritten candidate: lists what was rewritten, and is `migrated` instead of `correct`."""
    if not candidate.migrated:
        return verdict
    detail = f"rewritten: {', '.join(candidate.migrated)}" + (f"; {verdict.detail}" if verdict.detail else "")
    changes: dict[str, Any] = {"detail": detail, "beside": ()}
    if verdict.correct:
        changes |= {"outcome": Outcome.MIGRATED, "timing": None}
    return verdict.model_copy(update=changes)


class _Names(ast.NodeTransformer):
    """Rewrites every use of a removed name; `changed` are the names found."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        """Local name -> its name in the module it came from."""
        self.kernels: set[str] = set()
        self.changed: set[str] = set()
        self._device: ast.expr = ast.Constant("cuda")

    def read(self, tree: ast.Module) -> None:
        """Record local names of removed ones, before anything is rewritten."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and _gone(node.module or ""):
                self.known.update({alias.asname or alias.name: alias.name for alias in node.names})
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if _gone(path := _path(node.value)):
                    self.known[node.targets[0].id] = path.rpartition(".")[2]
            elif isinstance(node, ast.FunctionDef) and is_kernel(node):
                self.kernels.add(node.name)

    def _met(self, node: ast.expr) -> str:
        """The original name of a removed callee; empty for any other."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id, "")
        path = _path(node)
        gone = _gone(path) or path in ("torch.cuda.set_device", "torch.cuda._DeviceGuard")
        return path.rpartition(".")[2] if gone else ""

    # -- statements --------------------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> Any:
        kept = [alias for alias in node.names if not _gone(alias.name)]
        self.changed.update(alias.name for alias in node.names if _gone(alias.name))
        node.names = kept
        return node if kept else None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if not _gone(node.module or ""):
            return node
        self.changed.update(alias.name for alias in node.names)
        return None

    def visit_Assign(self, node: ast.Assign) -> Any:
        if _gone(_path(node.value)):
            self.changed.add(_path(node.value).rpartition(".")[2])
            return None
        if isinstance(node.value, ast.Call):
            name = self._met(node.value.func)
            if name in _DROPPED or name == "copy_if_misaligned":
                self.changed.add(name)
                return None
        self.generic_visit(node)
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Call) and (name := self._met(node.value.func)) in _DROPPED:
            self.changed.add(name)
            return None
        self.generic_visit(node)
        return node

    def visit_With(self, node: ast.With) -> Any:
        self.generic_visit(node)
        first = node.items[0].context_expr
        if len(node.items) == 1 and isinstance(first, ast.Call) and self._met(first.func) in _GUARDS:
            self.changed.add("_DeviceGuard")
            return node.body or [ast.Pass()]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = [one for one in node.decorator_list if not self._heuristics(one)]
        before, self._device = self._device, ast.Constant("cuda")
        given = _tensor_argument(node)
        calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
        if given and not is_kernel(node) and any(self._met(one.func) in _EMPTY for one in calls):
            place, tensor = given
            self._device = ast.Name("device", ast.Load())
            node.body.insert(place, ast.parse(f"device = {tensor}.device").body[0])
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        self._device = before
        return node

    def _heuristics(self, node: ast.expr) -> bool:
        """Whether a decorator belongs to Inductor's autotuner."""
        if not isinstance(node, ast.Call) or callee(node) == "jit":
            return False
        if _path(node.func).split(".")[0] not in self.known:
            return False
        self.changed.add("triton_heuristics")
        return True

    # -- expressions -------------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> ast.AST:
        own = {"triton_helpers": "triton_helpers", "libdevice": "libdevice", "math": "tl_math"}
        return ast.Name(own[self.known[node.id]], node.ctx) if self.known.get(node.id) in own else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Subscript):
            self._launch(node)
        elif (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "run"
            and _path(node.func.value) in self.kernels
        ):
            grid = next((word.value for word in node.keywords if word.arg == "grid"), ast.Constant(1))
            node.func = ast.Subscript(node.func.value, grid, ast.Load())
            self.changed.add("run")
            self._launch(node)
        owner, _, name = _path(node.func).rpartition(".")
        if owner == "tl.libdevice" or (
            owner in ("tl.math", "triton.language.math") and name not in _MATH_LEFT
        ):
            self.changed.add(f"{owner}.{name}")
            node.func = ast.Attribute(ast.Name("libdevice", ast.Load()), name, ast.Load())
        self.generic_visit(node)
        name = self._met(node.func)
        if name in _EMPTY:
            self.changed.add(name)
            device = ast.Constant(_EMPTY[name]) if _EMPTY[name] else self._device
            words = [ast.keyword("dtype", node.args[2]), ast.keyword("device", device)]
            return ast.Call(_torch("empty_strided"), node.args[:2], words)
        if name in _VIEWS and len(node.args) >= 3:
            self.changed.add(name)
            return _view(*node.args)
        owner = _path(node.func).split(".")[0]
        if isinstance(node.func, ast.Attribute) and self.known.get(owner) == "extern_kernels":
            self.changed.add(f"extern_kernels.{node.func.attr}")
            return ast.Call(_torch(node.func.attr), node.args, node.keywords)
        return node

    def _launch(self, node: ast.Call) -> None:
        """`kernel[grid(n)](..., XBLOCK=256)` -> `kernel[(triton.cdiv(n, 256),)](...)`."""
        assert isinstance(node.func, ast.Subscript)
        call = node.func.slice
        node.keywords = [word for word in node.keywords if word.arg not in ("stream", "grid")]
        if isinstance(call, ast.Call) and self._met(call.func) in _GRIDS:
            self.changed.add("grid")
            tiles = {word.arg: word.value for word in node.keywords if word.arg}
            node.func.slice = _programs(call.args, tiles)


def _programs(numels: Sequence[ast.expr], tiles: dict[str, ast.expr]) -> ast.expr:
    """The tuple that `grid(*numels)` computed from a launch's tile sizes; sizes come slowest first."""
    sides: list[ast.expr] = []
    for axis, numel in zip("XYZ", reversed(numels), strict=False):
        tile = tiles.get(f"{axis}BLOCK")
        if tile is not None and not (isinstance(tile, ast.Constant) and tile.value == 1):
            cdiv = ast.Attribute(ast.Name("triton", ast.Load()), "cdiv", ast.Load())
            numel = ast.Call(cdiv, [numel, tile], [])
        sides.append(numel)
    if len(sides) == 2 and isinstance(numels[0], ast.Constant) and isinstance(numels[0].value, int):
        tile = tiles.get("YBLOCK")
        block = tile.value if isinstance(tile, ast.Constant) and isinstance(tile.value, int) else 1
        rows = -(-numels[0].value // block)
        parts = -(-rows // _MOST_ROWS)
        if parts > 1:
            sides[1:] = [ast.Constant(-(-rows // parts)), ast.Constant(parts)]
    return ast.Tuple(sides, ast.Load())


def _view(tensor: ast.expr, size: ast.expr, stride: ast.expr, offset: ast.expr | None = None) -> ast.Call:
    """`reinterpret_tensor` as `as_strided`; the offset is relative to the tensor's own."""
    arguments = [size, stride]
    if offset is not None and not (isinstance(offset, ast.Constant) and offset.value == 0):
        start = ast.Call(ast.Attribute(tensor, "storage_offset", ast.Load()), [], [])
        arguments.append(ast.BinOp(start, ast.Add(), offset))
    return ast.Call(ast.Attribute(tensor, "as_strided", ast.Load()), arguments, [])


def _tensor_argument(node: ast.FunctionDef) -> tuple[int, str] | None:
    """(index in the body from which tensors are bound, name of one): after `a, b = args`, else the first parameter but `self`."""
    parameters = [one.arg for one in node.args.args if one.arg != "self"]
    for place, one in enumerate(node.body):
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Name) and one.value.id in parameters:
            target = one.targets[0]
            names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            if names and isinstance(names[0], ast.Name):
                return place + 1, names[0].id
    return (0, parameters[0]) if parameters else None


def _gone(path: str) -> bool:
    return any(path == root or path.startswith(f"{root}.") for root in _GONE)


def _path(node: ast.AST) -> str:
    """The dotted name of such an expression, as in `torch.cuda.set_device`; empty for others."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _torch(name: str) -> ast.Attribute:
    return ast.Attribute(ast.Name("torch", ast.Load()), name, ast.Load())
