"""Parses one of Inductor's kernels to a plain `@triton.jit` function, with what its launch needs to know.

    source text -> Kernel(function, blocks, ...)  parse
    heuristics' decorators removed, constants folded, helpers replaced, tile sizes as constexpr parameters   plain

Tile sizes are chosen here instead of by the autotuner: from the kind of kernel and the full sizes. Raises CannotCompile for
unknown kinds of kernels and grids.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelwright.parsing import callee, is_name, names_within, substitute
from kernelwright.policy.compiler import helpers
from kernelwright.policy.compiler.reasons import CannotCompile
from kernelwright.policy.compiler.simplify import Facts, assignments, simplify

AXES = ("x", "y", "z")
_GRIDS = ("Grid1D", "Grid2D", "Grid3D", "Grid2DWithYZOverflow", "FixedGrid", "BatchMatmulGrid3D")
_OF_THE_HOST = {"to", "full", "power", "sqrt", "rsqrt", "abs"}
"""Functions of sizes that host code can compute."""
_TILE_NAME = re.compile(r"^(BLOCK_\w+|GROUP_M|[XYZ]BLOCK|R\d_BLOCK)$")
_ELEMENT = {
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "i1": "int1", "i8": "int8",
    "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
}  # fmt: skip
_PROMISES = ("device_assert", "assume", "static_assert")
_HINTS = ("max_contiguous", "multiple_of")


@dataclass
class Kernel:
    """A kernel being rewritten: its syntax tree, and facts from Inductor's decorator."""

    name: str
    function: ast.FunctionDef
    kind: str
    """`pointwise`, `reduction`, `persistent_reduction` or `template`."""
    signature: Mapping[str, str]
    """Triton's type of every parameter, such as `*fp32`, `i64`, `constexpr`."""
    grid: str
    sizes: Mapping[str, int]
    """Inductor's size hints by axis (`x`, `y`, `r0_`), powers of two."""
    inner: bool
    """Whether it reduces along the fastest dimension."""
    warps: int = 4
    stages: int = 0
    tiles: dict[str, int | None] = field(default_factory=dict)
    """Tile sizes by constexpr parameter; None: the next power of two of the row's length."""
    scalars: dict[str, ast.expr] = field(default_factory=dict)
    """Float parameters that the host computes, as expressions over size parameters."""
    helpers: dict[str, None] = field(default_factory=dict)
    """Names in `helpers.SOURCES` that it calls, and `helpers.LIBDEVICE`."""
    combines: list[ast.FunctionDef] = field(default_factory=list)
    """Functions that Inductor wrote for its scans and reductions."""
    swapped: bool = False
    """Whether program ids 0 and 1 are exchanged, because the second may exceed its axis's limit."""

    @property
    def parameters(self) -> list[str]:
        return [argument.arg for argument in self.function.args.args]


def parse(name: str, source: str) -> Kernel:
    """Read one `async_compile.triton` source. Raises CannotCompile if its form is unknown."""
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    function = functions[-1]
    decorator = next((node for node in function.decorator_list if isinstance(node, ast.Call)), None)
    if decorator is None:
        raise CannotCompile("unsupported", "a kernel without heuristics")
    words = {word.arg: word.value for word in decorator.keywords if word.arg}
    meta = _entries(words.get("triton_meta"))
    facts = _entries(words.get("inductor_meta"))
    kind = callee(decorator)
    if kind not in ("pointwise", "reduction", "persistent_reduction", "template"):
        raise CannotCompile("unsupported", f"a {kind} kernel")
    grid = facts.get("grid_type", "FixedGrid" if kind == "template" else "Grid1D")
    if grid not in _GRIDS:
        raise CannotCompile("unsupported", f"a {grid} grid")
    hint = words.get("reduction_hint")
    function.decorator_list = [ast.parse("triton.jit", mode="eval").body]
    return Kernel(
        name=name,
        function=function,
        kind=kind,
        signature=meta.get("signature", {}),
        grid=grid,
        sizes=_literal(words.get("size_hints")) or {},
        inner=isinstance(hint, ast.Attribute) and hint.attr == "INNER",
        warps=_literal(words.get("num_warps")) or 4,
        stages=_literal(words.get("num_stages")) or 0,
        combines=functions[:-1],
    )


def plain(kernel: Kernel) -> None:
    """Rewrite the kernel in place."""
    function = kernel.function
    _Strip().visit(function)
    _constants(kernel)
    names = helpers.Plain()
    names.visit(function)
    kernel.helpers = names.used
    for combine in kernel.combines:
        names.visit(combine)
        simplify(combine, {})
    _Scans({combine.name: _operation(combine) for combine in kernel.combines}).visit(function)
    _grid(kernel)
    _choose_tiles(kernel)
    if _one_row(kernel):
        _Row().visit(function)
    types = {
        name: _ELEMENT.get(text[1:], "") for name, text in kernel.signature.items() if text.startswith("*")
    }
    simplify(function, types)
    if (rounded := _Rounded(function, types)).products:
        rounded.visit(function)
        kernel.helpers[helpers.LIBDEVICE] = None
    _host_scalars(kernel)
    _whole_operands(function)
    simplify(function, types)
    if any(isinstance(node, ast.Return) for node in ast.walk(function)):
        raise CannotCompile("unsupported", "a kernel that returns early")
    used = names_within(function)
    kernel.function.args.args = [argument for argument in function.args.args if argument.arg in used]
    kernel.tiles = {name: size for name, size in kernel.tiles.items() if name in used}
    ast.fix_missing_locations(function)


class _Rounded(ast.NodeTransformer):
    """Rounds products x * y in exp(x * y - peak), as in a softmax: against the peak, which was rounded, a contracted product is
    off by as much as its last digit is worth, and above 10^9 that overflows."""

    def __init__(self, function: ast.FunctionDef, types: Mapping[str, str]) -> None:
        self.facts = Facts(function, types)
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and callee(node) == "exp"]
        gaps = [self._made(call.args[0]) for call in calls]
        ours = [
            self._made(gap.left) for gap in gaps if isinstance(gap, ast.BinOp) and isinstance(gap.op, ast.Sub)
        ]
        self.products = {id(one) for one in ours if self._of_tensors(one)}

    def _made(self, node: ast.expr) -> ast.expr:
        while isinstance(node, ast.Name) and node.id in self.facts.values:
            node = self.facts.values[node.id]
        return (
            self._made(node.args[0])
            if isinstance(node, ast.Call) and callee(node) == "broadcast_to"
            else node
        )

    def _of_tensors(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            return False
        return self.facts.type_of(node.left) == self.facts.type_of(node.right) == "float32"

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if id(node) not in self.products:
            return node
        name = ast.Attribute(ast.Name(helpers.LIBDEVICE, ast.Load()), "mul_rn", ast.Load())
        return ast.Call(name, [node.left, node.right], [])


class _Strip(ast.NodeTransformer):
    """Removes assertions, compiler hints and cache policies, which no result depends on."""

    def visit_Expr(self, node: ast.Expr) -> Any:
        self.generic_visit(node)
        if isinstance(node.value, ast.Call) and callee(node.value) in _PROMISES:
            return None
        return None if isinstance(node.value, ast.Constant) else node

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        if len(node.body) == 1 and isinstance(node.body[0], ast.Return) and not node.orelse:
            return None  # the early return of an empty launch
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = callee(node)
        if name in _HINTS:
            return node.args[0]
        if name in ("load", "store"):
            node.keywords = [
                word for word in node.keywords if word.arg not in ("eviction_policy", "cache_modifier")
            ]
            place = 1 if name == "load" else 2
            if len(node.args) > place:
                mask = node.args.pop(place)
                if not (isinstance(mask, ast.Constant) and mask.value is None):
                    node.keywords.insert(0, ast.keyword("mask", mask))
        if name == "dot":
            words = {word.arg: word.value for word in node.keywords}
            node.keywords = [word for word in node.keywords if word.arg not in ("allow_tf32", "out_dtype")]
            allowed = words.get("allow_tf32")
            if allowed is not None:
                node.keywords.append(ast.keyword("input_precision", ast.Constant("ieee")))
        if name == "full" and node.keywords and isinstance(node.args[0], ast.List) and not node.args[0].elts:
            return node.args[1]
        if name == "range" and isinstance(node.func, ast.Attribute):
            return ast.Call(ast.Name("range", ast.Load()), node.args, [])
        return node


def _whole_operands(function: ast.FunctionDef) -> None:
    """Zero what a product reads beyond its operands' ends; Inductor leaves that undefined if it fuses a map before."""
    for loop in ast.walk(function):
        calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
        if not isinstance(loop, ast.For) or not any(callee(call) == "dot" for call in calls):
            continue
        for call in calls:
            words = {word.arg for word in call.keywords}
            if callee(call) == "load" and "mask" in words and "other" not in words:
                call.keywords.append(ast.keyword("other", ast.Constant(0.0)))


def _constants(kernel: Kernel) -> None:
    """Handle constants assigned in the body: tile sizes become parameters, all others are inlined."""
    function = kernel.function
    counts = assignments(function)
    given = {argument.arg: argument for argument in function.args.args}
    body: list[ast.stmt] = []
    values: dict[str, ast.expr] = {}
    for statement in function.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name, value = statement.target.id, statement.value
            if value is not None and _TILE_NAME.match(name) and isinstance(value, ast.Constant):
                kernel.tiles[name] = int(ast.literal_eval(value))
            elif value is not None:
                values[name] = substitute(value, values)
            continue
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name in given and counts[name] == 1 and isinstance(statement.value, ast.Constant):
                values[name] = statement.value
                del given[name]
                continue
        body.append(statement)
    function.body = body
    substitute(function, values)
    persistent = kernel.kind == "persistent_reduction"
    for name in [*kernel.tiles, *(name for name in given if _TILE_NAME.match(name))]:
        given.pop(name, None)
        kernel.tiles.setdefault(name, 0)
        if persistent and name.startswith("R") and f"{name[:2].lower()}_numel" in given:
            kernel.tiles[name] = None
    tiles = [ast.arg(name, ast.parse("tl.constexpr", mode="eval").body) for name in kernel.tiles]
    function.args.args = [*given.values(), *tiles]
    for argument in given.values():
        argument.annotation = None


def _grid(kernel: Kernel) -> None:
    """One grid axis per dimension; a third axis to split the second is not needed."""
    if kernel.grid in ("Grid2DWithYZOverflow", "FixedGrid"):
        kernel.swapped = kernel.sizes.get("y", 0) > kernel.sizes.get("x", 0)

        class Split(ast.NodeTransformer):
            def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
                self.generic_visit(node)
                if ast.unparse(node) == "tl.program_id(1) + tl.program_id(2) * tl.num_programs(1)":
                    return node.left
                return node

            def visit_Call(self, node: ast.Call) -> ast.AST:
                self.generic_visit(node)
                if kernel.swapped and callee(node) == "program_id" and node.args[0].value in (0, 1):  # type: ignore[attr-defined]
                    node.args[0] = ast.Constant(1 - node.args[0].value)  # type: ignore[attr-defined]
                return node

        Split().visit(kernel.function)


def _host_scalars(kernel: Kernel) -> None:
    """Move floating-point arithmetic on sizes, such as a scale of 1/sqrt(d), to the host."""
    sizes = {name for name in kernel.parameters if name.startswith("ks")}

    class Hoist(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            names = {*names_within(node)} - {"tl", "power"}
            wide = any(
                isinstance(n, ast.Attribute) and n.attr in ("float64", "float32") for n in ast.walk(node)
            )
            functions = {callee(n) for n in ast.walk(node) if isinstance(n, ast.Call)}
            if names and names <= sizes and wide and functions <= _OF_THE_HOST:
                host = _HostForm().visit(node)
                if isinstance(host, ast.Name):
                    return host  # an integer, which Triton promotes by itself
                text = ast.unparse(host)
                known = {ast.unparse(value): name for name, value in kernel.scalars.items()}
                if text not in known:
                    known[text] = f"scalar{len(kernel.scalars)}"
                    kernel.scalars[known[text]] = host
                return ast.Name(known[text], ast.Load())
            self.generic_visit(node)
            return node

    Hoist().visit(kernel.function)
    arguments = kernel.function.args.args
    place = next((i for i, argument in enumerate(arguments) if argument.annotation), len(arguments))
    arguments[place:place] = [ast.arg(name) for name in kernel.scalars]
    if "power" not in names_within(kernel.function):
        kernel.helpers.pop("power", None)


class _HostForm(ast.NodeTransformer):
    """Translates Triton's scalar arithmetic to Python's."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = callee(node)
        if name == "to" and isinstance(node.func, ast.Attribute):
            return node.func.value
        if name == "full":
            return node.args[1]
        if name == "power":
            return ast.BinOp(node.args[0], ast.Pow(), node.args[1])
        if name in ("sqrt", "rsqrt"):
            return ast.BinOp(node.args[0], ast.Pow(), ast.Constant(0.5 if name == "sqrt" else -0.5))
        return node


def _choose_tiles(kernel: Kernel) -> None:
    """Choose tile sizes and warps for kernels without a template. Tiles that do not divide a size stay masked."""
    tiles, sizes = kernel.tiles, kernel.sizes
    if kernel.kind == "template":
        return
    rows = [name for name in tiles if name.startswith("R")]
    spaces = [name for name in tiles if not name.startswith("R")]
    free = [name for name in spaces if not tiles[name]]
    if not rows:
        budget = 1024 if max(sizes.values(), default=0) > 1 << 14 else 256
        for name in free:
            tiles[name] = budget if len(free) == 1 else 32 if len(free) == 2 else 16
    else:
        length = max((sizes.get(f"{name[:2].lower()}_", 1) for name in rows), default=1)
        if kernel.kind == "persistent_reduction":
            wide = 1 if length >= 256 else max(1, min(16, 1024 // length))
            kernel.warps = 8 if length * wide >= 4096 else 4
        elif kernel.inner:
            wide = 1
            kernel.warps = 8
        else:
            wide = 64
        for name in free:
            tiles[name] = wide if name == "XBLOCK" else 1
        for name in rows:
            if tiles[name] == 0:
                tiles[name] = (min(2048, max(16, length)) if kernel.inner else min(32, max(1, length))) // (
                    1 if len(rows) == 1 else 4
                )
    _fit_unmasked(kernel)


class _Scans(ast.NodeTransformer):
    """Replaces scans by addition and multiplication with `tl.cumsum` and `tl.cumprod`."""

    def __init__(self, operations: Mapping[str, str]) -> None:
        self.operations = operations

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        value = node.value
        if isinstance(value, ast.Call) and callee(value) == "associative_scan" and len(value.args) == 3:
            which = self.operations.get(getattr(value.args[2], "id", ""))
            scanned, target = value.args[0], node.targets[0]
            single = isinstance(scanned, ast.Tuple) and len(scanned.elts) == 1
            if which and single and isinstance(target, ast.Tuple):
                name = ast.parse(f"tl.{which}", mode="eval").body
                assert isinstance(scanned, ast.Tuple)
                return ast.Assign(
                    [target.elts[0]], ast.Call(name, [scanned.elts[0], value.args[1]], []), lineno=0
                )
        return node


def _operation(combine: ast.FunctionDef) -> str:
    """`cumsum` or `cumprod` for a function that returns the sum or product of its two arguments; else empty."""
    last = combine.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    if len(combine.args.args) == 2 and isinstance(value, ast.BinOp):
        return {ast.Add: "cumsum", ast.Mult: "cumprod"}.get(type(value.op), "")
    return ""


def _one_row(kernel: Kernel) -> bool:
    """Whether a program handles one row, so that its values need no second dimension."""
    spaces = [name for name in kernel.tiles if not name.startswith("R")]
    return "reduction" in kernel.kind and spaces == ["XBLOCK"] and kernel.tiles["XBLOCK"] == 1


class _Row(ast.NodeTransformer):
    """Rewrites a kernel of tiles [1, R] to one of vectors [R]."""

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
        if name == "xmask":
            return None
        if name == "xoffset":
            return ast.Assign([ast.Name("xindex", ast.Store())], _without_tile(node.value), lineno=0)
        return None if name == "xindex" else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.BitAnd):
            for side, other in ((node.left, node.right), (node.right, node.left)):
                if is_name(side, "xmask"):
                    return other
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
        shaped = all(
            isinstance(p, ast.Slice) or (isinstance(p, ast.Constant) and p.value is None) for p in parts
        )
        return node.value if parts and shaped else node

    def visit_List(self, node: ast.List) -> ast.AST:
        if len(node.elts) == 2:
            node.elts = node.elts[1:]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = callee(node)
        node.keywords = [w for w in node.keywords if not (w.arg == "mask" and is_name(w.value, "xmask"))]
        if name in ("load", "store") and not any(word.arg == "mask" for word in node.keywords):
            node.keywords = [word for word in node.keywords if word.arg != "other"]
        if name == "where" and is_name(node.args[0], "xmask"):
            return node.args[1]
        if name == "broadcast_to" and len(node.args) == 2 and _is_one(node.args[1]):
            return node.args[0]  # a scalar per row is a number, as the row's sum is
        folds = ("sum", "max", "min", "reduce", "cumsum", "cumprod", "associative_scan", "sort")
        if name in folds and len(node.args) > 1:
            node.args[1] = ast.Constant(0)
        return node


def _is_one(shape: ast.expr) -> bool:
    sides = shape.elts if isinstance(shape, ast.List) else []
    return len(sides) == 1 and isinstance(sides[0], ast.Constant) and sides[0].value == 1


def _without_tile(value: ast.expr) -> ast.expr:
    """`tl.program_id(0) * XBLOCK` without the factor."""
    if isinstance(value, ast.BinOp) and is_name(value.right, "XBLOCK"):
        return value.left
    raise CannotCompile("unsupported", f"a row index of {ast.unparse(value)[:60]}")


def _fit_unmasked(kernel: Kernel) -> None:
    """Limit tiles of dimensions that Inductor left unmasked, since these have a fixed size that the tile must divide."""
    text = ast.unparse(kernel.function)
    for name, size in kernel.tiles.items():
        axis = name[0].lower() if not name.startswith("R") else f"{name[:2].lower()}_"
        limit = kernel.sizes.get(axis)
        index = f"{axis}index"
        masked = re.search(rf"\b{index}(__\w+)? < ", text)
        if not masked and size and limit and size > limit:
            kernel.tiles[name] = limit


def _entries(node: ast.expr | None) -> dict[str, Any]:
    """The entries of a dict display whose values are literals."""
    found: dict[str, Any] = {}
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                literal = _literal(value)
                if literal is not None:
                    found[key.value] = literal
    return found


def _literal(node: ast.expr | None) -> Any:
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
