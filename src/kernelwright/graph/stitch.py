"""One readable file from a graph's groups: their kernels, a function that runs the whole, a module in benchmark form.

    text = stitch(partition(graph), {digest: code})                   def run(x, w, ...): the results as a tuple
    text = stitch(..., state=state_of(graph), name="Block")           and class ModelNew with that state_dict

A kernel is source that defines `kernel(...)` on its group's arguments. Its names get the group's number as suffix, to avoid
clashes. Groups with the same source share it; imports are shared; a group without a kernel runs as ATen calls. The same input
gives the same bytes.

Does not guarantee that the kernels or the file are right: the file is judged as a whole afterwards.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.graph import sizes
from kernelwright.graph.partition import Group, Partition
from kernelwright.graph.public import call
from kernelwright.graph.types import Graph, Node, TensorType
from kernelwright.parsing import names_within
from kernelwright.precision import FLOATS

ENTRY = "kernel"
"""Name of the function that a kernel's source defines."""
_IMPORTS = ("import torch", "import torch.nn as nn", "import triton", "import triton.language as tl")
_COMPLEX = {"float16": "complex32", "float32": "complex64", "float64": "complex128"}
_TEXTS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@dataclass(frozen=True)
class Entry:
    """One entry of a state_dict."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    learnable: bool


def state_of(graph: Graph) -> tuple[Entry, ...]:
    """The weights and buffers that a graph reads, by their names in its module."""
    found = []
    for one in graph.arguments:
        if one.role in ("weight", "buffer") and isinstance(one.type, TensorType):
            shape = tuple(sizes.evaluate(size, {}) for size in one.type.shape)
            dtype: str = one.type.dtype
            if one.complex:
                shape, dtype = shape[:-1], _COMPLEX[dtype]
            found.append(Entry(one.origin, shape, dtype, one.role == "weight"))
    return tuple(found)


def stitch(
    whole: Partition,
    kernels: Mapping[str, str],
    *,
    state: Sequence[Entry] | None = None,
    notes: Mapping[str, str] | None = None,
    name: str = "",
) -> str:
    """The file. `kernels`: digest of a group's graph -> source; `notes`: digest -> where its kernel comes from.

    With `state`, adds a `ModelNew` with these names. Raises UserError for a kernel that is not Python or defines no `kernel`,
    and, with `state`, for a graph with tensors that no state_dict has: lifted constants, buffers that are not persistent.
    """
    graph = whole.graph
    distinct = whole.distinct()
    alike: dict[str, list[str]] = {}
    for digest in distinct:
        if digest in kernels:
            alike.setdefault(kernels[digest], []).append(digest)
    places = {digest: at for at, digest in enumerate(distinct, 1)}
    numbers = {digest: places[first] for first, *more in alike.values() for digest in (first, *more)}
    imports = dict.fromkeys(_IMPORTS)
    parts = []
    for code, digests in alike.items():
        first, count = digests[0], sum(len(distinct[one]) for one in digests)
        theirs, body = number_names(code, numbers[first])
        imports.update(dict.fromkeys(theirs))
        where = f", {count} times" if count > 1 else ""
        note = f" ({notes[first]})" if notes and first in notes else ""
        parts.append(f"# {numbers[first]}: {distinct[first][0].operators}{where}{note}\n\n{body.strip()}")
    head = f'"""{name or graph.name}: {len(parts)} kernels."""\n\n' + "\n".join(imports)
    text = [head, *parts, _print_run(whole, numbers)]
    if state is not None:
        text.append(_module(graph, state))
    return "\n\n\n".join(text) + "\n"


def candidate(code: str, graph: Graph, entry: str = ENTRY) -> str:
    """A kernel, or with `entry="run"` a stitched file, in function form for the judge, with a `ModelNew` appended.

    A kernel that also defines `kernel_backward(*arguments, *cotangents)`, which returns the gradient of each floating-point
    argument in order, has gradients.
    """
    names = ", ".join(one.name for one in graph.arguments)
    form = _TEXTS["form"]
    if entry == ENTRY and re.search(rf"^def {ENTRY}_backward\(", code, re.MULTILINE):
        floating = [isinstance(one.type, TensorType) and one.type.dtype in FLOATS for one in graph.arguments]
        form = _TEXTS["backward"].replace("FLOATING", repr(tuple(floating))) + _TEXTS["form"]
        entry = "KernelFunction.apply"
    call = f"{entry}({names})" + ("[0]" if entry == "run" and len(graph.results) == 1 else "")
    code = _import_nn(code)
    return code.rstrip() + "\n" + form.format(arguments=names, call=call)


_NN = "import torch.nn as nn"


def _import_nn(code: str) -> str:
    """Source with `import torch.nn as nn` after `import torch`, or at the top if torch is imported in another way."""
    if re.search(f"^{re.escape(_NN)}$", code, re.MULTILINE):
        return code
    code, found = re.subn(r"^import torch$", f"import torch\n{_NN}", code, count=1, flags=re.MULTILINE)
    if found:
        return code
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return code  # the judge reports the error
    first = next((node for node in tree.body if not _is_future(node)), None)
    if first is None:
        return code
    lines = code.split("\n")
    above = min([first.lineno, *(one.lineno for one in getattr(first, "decorator_list", ()))]) - 1
    return "\n".join([*lines[:above], "import torch", _NN, *lines[above:]])


def _is_future(node: ast.stmt) -> bool:
    """Whether it must stay first: a docstring, or an import from `__future__`."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    return isinstance(node, ast.Expr) and _is_head(node)


def number_names(code: str, number: int) -> tuple[list[str], str]:
    """(import statements, the rest) of a kernel's source, with suffix `_number` on its top-level names. Raises UserError."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UserError(f"a kernel is not Python ({error}); give text that defines {ENTRY}(...)") from None
    own = _top_level_names(tree)
    if ENTRY not in own:
        raise UserError(f"a kernel defines no {ENTRY}(...); give text that does")
    names = {name: f"{name}_{number}" for name in own}
    imports = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    lines = [line.encode() for line in code.split("\n")]
    for row, start, end, new in sorted(_edits(tree, names), reverse=True):
        lines[row - 1] = lines[row - 1][:start] + new.encode() + lines[row - 1][end:]
    return imports, "\n\n\n".join(_texts(tree, lines))


def _is_head(node: ast.stmt) -> bool:
    """An import, or the docstring of a file."""
    return isinstance(node, ast.Import | ast.ImportFrom) or (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _texts(tree: ast.Module, lines: list[bytes]) -> Iterator[str]:
    """Statements with the comments above them, without imports and docstring."""
    last = 0
    for node in tree.body:
        assert node.end_lineno is not None
        if not _is_head(node):
            yield b"\n".join(lines[last : node.end_lineno]).decode().strip("\n")
        last = node.end_lineno


def _top_level_names(tree: ast.Module) -> set[str]:
    """Names bound at the top level of a file, except by imports."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            found |= {*names_within(node, ast.Store)}
    return found


_SCOPES = ast.FunctionDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def _edits(tree: ast.Module, names: Mapping[str, str]) -> Iterator[tuple[int, int, int, str]]:
    """(line, start byte, end byte, new name) for every occurrence of the names, respecting scopes."""

    def walk(node: ast.AST, hidden: frozenset[str]) -> Iterator[tuple[int, int, int, str]]:
        inner = hidden
        outside: list[ast.AST] = []
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if node.name in names and node.name not in hidden and node in tree.body:
                start = node.col_offset + len("def " if isinstance(node, ast.FunctionDef) else "class ")
                yield node.lineno, start, start + len(node.name.encode()), names[node.name]
            outside = list(node.decorator_list)
        if isinstance(node, _SCOPES):
            inner = hidden | _local(node)
        if isinstance(node, ast.FunctionDef):
            given = node.args
            written = [one.annotation for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            outside += [one for one in (*written, *given.defaults, *given.kw_defaults, node.returns) if one]
        elif isinstance(node, ast.Name) and node.id in names and node.id not in hidden:
            assert node.end_col_offset is not None
            yield node.lineno, node.col_offset, node.end_col_offset, names[node.id]
        for one in outside:
            yield from walk(one, hidden)
        done = set(map(id, outside))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.arguments):
                continue
            if id(child) not in done:
                yield from walk(child, inner)

    yield from walk(tree, frozenset())


def _local(scope: ast.AST) -> frozenset[str]:
    """Names that a function or comprehension binds locally."""
    shared: set[str] = set()
    found: set[str] = set()
    waiting = list(ast.iter_child_nodes(scope))
    if isinstance(scope, ast.FunctionDef | ast.Lambda):
        found |= {one.arg for one in ast.walk(scope.args) if isinstance(one, ast.arg)}
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Global | ast.Nonlocal):
            shared |= set(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if not isinstance(node, _SCOPES | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return frozenset(found - shared)


# -- the whole --------------------------------------------------------------------------------------------------


def _print_run(whole: Partition, numbers: Mapping[str, int]) -> str:
    """`def run(...)`: every step in order."""
    graph = whole.graph
    tensors = [one for one in graph.arguments if isinstance(one.type, TensorType)]
    lines = [f"def run({', '.join(one.name for one in graph.arguments)}):"]
    lines += [f"    {line}" for line in _size_lines(graph)]
    calls = [_calls(step, numbers) for step in whole.steps]
    if any("device" in line for lines_ in calls for line in lines_) and tensors:
        lines.append(f"    device = {tensors[0].name}.device")
    lines += [f"    {line}" for lines_ in calls for line in lines_]
    lines.append(f"    return {_tuple(graph.results)}")
    return "\n".join(lines)


def _calls(step: object, numbers: Mapping[str, int]) -> list[str]:
    if isinstance(step, Group) and step.graph.digest in numbers:
        made = ", ".join(step.outputs)
        return [f"{made} = {ENTRY}_{numbers[step.graph.digest]}({', '.join(step.inputs)})"]
    nodes: tuple[Node, ...] = step.nodes  # type: ignore[attr-defined]
    return [call(node) for node in nodes]


def _size_lines(graph: Graph) -> Iterator[str]:
    """Lines that read each symbol's value, plain dimensions first. Raises UserError if no argument determines one."""
    told = {one.name for one in graph.arguments}
    for symbol, name, at, formula in sizes.readings(graph):
        told.add(symbol)
        yield f"{symbol} = {formula.replace('size_', f'{name}.shape[{at}]')}"
    if lost := [one.name for one in graph.symbols if one.name not in told]:
        raise UserError(f"{graph.name}: no argument is {lost[0]} long; capture it with fixed sizes")


def _module(graph: Graph, state: Sequence[Entry]) -> str:
    constants = [one.name for one in graph.arguments if one.role == "constant" or not one.kept]
    if constants:
        raise UserError(
            f"{graph.name} holds {len(constants)} tensors that no state_dict has ({constants[0]}); register them as buffers that it keeps"
        )
    rows = "\n".join(
        f"    ({entry.name!r}, {entry.shape!r}, torch.{entry.dtype}, {entry.learnable})," for entry in state
    )
    table = f"STATE = (\n{rows}\n)\n" if rows else "STATE = ()\n"
    learnable = {entry.name: entry.learnable for entry in state}
    inputs = _names_of_inputs(graph)
    arguments = [
        inputs[one.name]
        if one.role == "input"
        else f"self.{'get_parameter' if learnable.get(one.origin, one.role == 'weight') else 'get_buffer'}({one.origin!r})"
        for one in graph.arguments
    ]
    arguments = [
        f"torch.view_as_real({made})" if one.complex else made
        for one, made in zip(graph.arguments, arguments, strict=True)
    ]
    written = [argument for one, argument in zip(graph.arguments, arguments, strict=True) if one.mutated]
    names = [f"y{at}" for at in range(len(graph.results))]
    shown = names[len(written) :]
    text = _TEXTS["module"].format(
        inputs=", ".join(inputs.values()) or "*inputs",
        results=", ".join(names) + ("," if len(names) == 1 else ""),
        arguments=", ".join(arguments),
        written="".join(f"        {to}.copy_({one})\n" for to, one in zip(written, names, strict=False)),
        returned=shown[0] if len(shown) == 1 else ", ".join(shown),
    )
    return table + "\n" + re.sub(r"\n{3,}", "\n\n", text)


def _names_of_inputs(graph: Graph) -> dict[str, str]:
    """Names of forward's inputs: those of the captured module if they are usable."""
    inputs = [one for one in graph.arguments if one.role == "input"]
    names = {one.origin for one in inputs} - {"self", "run", "torch"}
    own = len(names) == len(inputs) and all(one.isidentifier() and not iskeyword(one) for one in names)
    return {one.name: one.origin if own else one.name for one in inputs}


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
