"""Tunable numbers in a kernel's source: block sizes, `num_warps` and `num_stages`.

    knobs(code)                         every knob with its value and positions in the text
    set_knobs(code, {"BLOCK_M": 128})   the source with knobs set, layout kept

A block size is a constexpr launch argument, recognised by its name (`BLOCK`, `TILE_M`, `ROWS`), whose value is a literal or a
name assigned one literal. Whether the kernel still computes the same is for the verifier to say. Kernels that tune themselves
(`triton.autotune`, `triton.heuristics`) and computed block sizes are left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kernelwright.parsing import Edit, Span, apply_edits, parse, spans

WARPS, STAGES = "num_warps", "num_stages"
_DEFAULT = {WARPS: 4, STAGES: 3}
_BLOCK = re.compile(r"BLOCK|TILE|CHUNK|ROWS|COLS|GROUP|PER_PROGRAM|UNROLL|SPLIT", re.IGNORECASE)
_COUNT = re.compile(r"ROWS|GROUP|PER_PROGRAM|UNROLL|SPLIT", re.IGNORECASE)
_LARGEST = 16384


@dataclass(frozen=True)
class Knob:
    """One number, with all places where it occurs."""

    name: str
    """Name of the constant (`BLOCK_M`), else of the argument (`num_warps of matmul_kernel`, or `BLOCK_M=BLOCK_N of
    matmul_kernel` if they share a literal in the grid)."""
    kind: str
    """`block`, `count`, `num_warps` or `num_stages`."""
    value: int
    spans: tuple[Span, ...] = ()
    """Byte ranges of the literals, or of the expressions that compute the value."""
    ends: tuple[int, ...] = ()
    """Byte offsets of argument lists' ends where the option must be added."""

    def neighbours(self) -> tuple[int, ...]:
        """Values one step away."""
        return neighbours(self.kind, self.value)


def neighbours(kind: str, value: int) -> tuple[int, ...]:
    """Values one step away that GPUs support: double and half, or plus and minus one for stages."""
    if kind == STAGES:
        return tuple(v for v in (value + 1, value - 1) if 1 <= v <= 5)
    least, most = (1, 16) if kind == WARPS else (1, 64) if kind == "count" else (16, _LARGEST)
    return tuple(v for v in (2 * value, value // 2) if min(least, value) <= v <= most and v >= 1)


def knobs(code: str, launched: Mapping[str, Mapping[str, int]] | None = None) -> list[Knob]:
    """Every knob of a module, in source order. Empty if it does not parse.

    `launched` has options observed at launches, such as `{"softmax_kernel": {"num_warps": 8}}`: they give the values of
    options that the source computes, which become knobs, too.
    """
    try:
        return list(_Module(code, launched or {}).knobs())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def set_knobs(
    code: str, values: Mapping[str, int], launched: Mapping[str, Mapping[str, int]] | None = None
) -> str:
    """`code` with each named knob set. Raises ValueError for an unknown name."""
    known = {knob.name: knob for knob in knobs(code, launched)}
    edits: list[Edit] = []
    for name, value in values.items():
        knob = known.get(name)
        if knob is None:
            raise ValueError(f"no knob {name!r}; there are {', '.join(known) or 'none'}")
        edits += [(start, end, str(value)) for start, end in knob.spans]
        edits += [(end, end, f", {knob.kind}={value}") for end in knob.ends]
    return apply_edits(code, edits)


class _Module:
    def __init__(self, code: str, launched: Mapping[str, Mapping[str, int]]) -> None:
        self.tree, self.launched = parse(code), launched
        self._span = spans(code)
        functions = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]
        self.kernels = {node.name: node for node in functions if _plain_kernel(node)}
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def knobs(self) -> Iterator[Knob]:
        found: dict[str, Knob] = {}
        for kernel, call in self._launches():
            for knob in (*self._blocks(kernel, call), *self._options(kernel, call)):
                known = found.get(knob.name)
                if known is None:
                    found[knob.name] = knob
                elif known.value == knob.value:
                    spans = tuple(dict.fromkeys((*known.spans, *knob.spans)))
                    ends = tuple(dict.fromkeys((*known.ends, *knob.ends)))
                    found[knob.name] = Knob(knob.name, knob.kind, knob.value, spans, ends)
        yield from found.values()

    def _launches(self) -> Iterator[tuple[ast.FunctionDef, ast.Call]]:
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
            if isinstance(call.func, ast.Subscript) and isinstance(call.func.value, ast.Name):
                kernel = self.kernels.get(call.func.value.id)
                if kernel is not None:
                    yield kernel, call

    def _blocks(self, kernel: ast.FunctionDef, call: ast.Call) -> Iterator[Knob]:
        """Constexpr arguments with the names of block sizes, with the positions of their literals."""
        parameters = [*kernel.args.posonlyargs, *kernel.args.args]
        constants = {
            argument.arg
            for argument in (*parameters, *kernel.args.kwonlyargs)
            if argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation)
        }
        given = {parameters[n].arg: value for n, value in enumerate(call.args[: len(parameters)])}
        given |= {word.arg: word.value for word in call.keywords if word.arg is not None}
        function = self._function(call)
        literals: dict[int, list[tuple[str, ast.Constant]]] = {}
        for name, value in given.items():
            if name not in constants or not _BLOCK.search(name):
                continue
            if isinstance(value, ast.Name):
                literal = self._assigned(value.id, function)
                if literal is not None:
                    yield _block(value.id, literal.value, (self._span(literal),))
            elif _power(value):
                assert isinstance(value, ast.Constant)
                literals.setdefault(int(value.value), []).append((name, value))  # type: ignore[arg-type]
        axes = {axis: names & constants or constants for axis, names in _axes(kernel).items()}
        for number, named in literals.items():
            divisors = list(self._count(function, call, number))
            counted = {
                name: [
                    literal for literal, axis in divisors if axis is None or name in axes.get(axis, constants)
                ]
                for name, _ in named
            }
            every = [literal for found in counted.values() for literal in found]
            shared = len(set(every)) < len(every)
            for group in [named] if shared else [[item] for item in named]:
                spans = [self._span(node) for _, node in group]
                spans += [self._span(node) for name, _ in group for node in counted[name]]
                yield _block(f"{'='.join(name for name, _ in group)} of {kernel.name}", number, spans)

    def _options(self, kernel: ast.FunctionDef, call: ast.Call) -> Iterator[Knob]:
        words = {word.arg: word.value for word in call.keywords}
        loops = any(isinstance(node, ast.For | ast.While) for node in ast.walk(kernel))
        for option in (WARPS, STAGES) if loops else (WARPS,):
            name = f"{option} of {kernel.name}"
            value = words.get(option)
            if value is None:
                last = [*call.args, *(word.value for word in call.keywords)]
                if None in words or not last or any(isinstance(arg, ast.Starred) for arg in call.args):
                    continue
                end = max(self._span(node)[1] for node in last)
                yield Knob(name, option, _DEFAULT[option], ends=(end,))
            elif isinstance(value, ast.Constant) and type(value.value) is int:
                yield Knob(name, option, value.value, (self._span(value),))
            elif isinstance(value, ast.Name) and (literal := self._assigned(value.id, self._function(call))):
                yield Knob(value.id, option, int(literal.value), (self._span(literal),))  # type: ignore[arg-type]
            elif option in (seen := self.launched.get(kernel.name, {})):
                yield Knob(name, option, seen[option], (self._span(value),))

    def _function(self, node: ast.AST) -> ast.AST:
        """The host function that contains a launch, or the module."""
        while not isinstance(node, ast.FunctionDef | ast.Module):
            node = self.parents[node]
        return node

    def _assigned(self, name: str, function: ast.AST) -> ast.Constant | None:
        """The literal of a name that is assigned once, in the function or else at module level."""
        for scope in (function, self.tree):
            values = [value for target, value in _assignments(scope) if target == name]
            if values:
                only = values[0] if len(values) == 1 else None
                if isinstance(only, ast.Call) and len(only.args) == 1 and not only.keywords:
                    only = only.args[0] if ast.unparse(only.func).endswith("constexpr") else None
                return only if isinstance(only, ast.Constant) and type(only.value) is int else None
        return None

    def _count(
        self, function: ast.AST, call: ast.Call, number: int
    ) -> Iterator[tuple[ast.Constant, int | None]]:
        """Literals equal to `number` by which the function divides sizes, each with the axis of this launch's grid that it
        counts, or None outside the grid. Literals in other launches' grids are skipped."""
        own = _grid(call)
        elsewhere = {inner for node in ast.walk(function) if node is not call for inner in _grid(node)}
        for node in ast.walk(function):
            divisor: ast.AST | None = None
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("cdiv") and len(node.args) == 2:
                divisor = node.args[1]
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
                divisor = node.right
            if not isinstance(divisor, ast.Constant) or divisor in elsewhere:
                continue
            if type(divisor.value) is int and divisor.value == number:
                yield divisor, own.get(divisor)


def _grid(launch: ast.AST) -> dict[ast.AST, int]:
    """Nodes in a launch's grid, each with its axis; empty if the node is not a launch."""
    if not (isinstance(launch, ast.Call) and isinstance(launch.func, ast.Subscript)):
        return {}
    grid = launch.func.slice
    parts = grid.elts if isinstance(grid, ast.Tuple) else [grid]
    return {node: axis for axis, part in enumerate(parts) for node in ast.walk(part)}


def _axes(kernel: ast.FunctionDef) -> dict[int, set[str]]:
    """What the kernel multiplies each of its program ids by: `tl.program_id(0) * BLOCK_M` gives `{0: {"BLOCK_M"}}`."""
    ids: dict[str, int] = {}

    def axis_of(node: ast.AST) -> int | None:
        if isinstance(node, ast.Name):
            return ids.get(node.id)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "to":
                return axis_of(node.func.value)
            where = [*node.args, *(word.value for word in node.keywords)]
            if node.func.attr == "program_id" and where and isinstance(where[0], ast.Constant):
                return where[0].value if type(where[0].value) is int else None
        return None

    for name, value in _assignments(kernel):
        axis = axis_of(value)
        if axis is not None:
            ids[name] = axis
    found: dict[int, set[str]] = {}
    for node in ast.walk(kernel):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                axis = axis_of(one)
                if axis is not None and isinstance(other, ast.Name):
                    found.setdefault(axis, set()).add(other.id)
    return found


def _block(name: str, value: object, spans: Iterable[Span]) -> Knob:
    assert isinstance(value, int)
    kind = "count" if _COUNT.search(name.partition(" of ")[0]) else "block"
    return Knob(name, kind, value, tuple(dict.fromkeys(spans)))


def _power(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Constant)
        and type(value.value) is int
        and value.value > 0
        and value.value & (value.value - 1) == 0
    )


def _assignments(scope: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """(name, value) of every assignment in a scope; for a module only those at top level."""
    nodes = scope.body if isinstance(scope, ast.Module) else ast.walk(scope)
    for node in nodes:
        if isinstance(node, ast.AnnAssign | ast.AugAssign):
            if node.value is not None and isinstance(node.target, ast.Name):
                yield node.target.id, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for part, value in zip(target.elts, node.value.elts, strict=False):
                        if isinstance(part, ast.Name):
                            yield part.id, value
                elif isinstance(target, ast.Tuple):
                    yield from ((part.id, node.value) for part in target.elts if isinstance(part, ast.Name))


def _plain_kernel(node: ast.FunctionDef) -> bool:
    """Whether it has a `triton.jit` decorator, and none that chooses launch options itself."""
    named = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any("jit" in name for name in named) and not any(
        "autotune" in name or "heuristics" in name for name in named
    )
