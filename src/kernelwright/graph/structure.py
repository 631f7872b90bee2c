"""What a graph computes, independent of sizes and spelling: a digest of its normalised form without numbers.

    nn.Linear then nn.GELU at 1024 x 8192, and `x @ w.t() + c` with F.gelu at 64 x 100, are one structure.

Views, casts, copies and dead nodes do not count; a value is identified by the operators that made it, not by name or position.
Alternative spellings are unified: products with a bias become product and addition, `x * sigmoid(x)` silu, a division by a
number a scaling. Sizes, numbers, windows, strides and the identity of arguments are left out, so different functions may
share a structure: whatever shares one with a benchmark's file is treated as that file. Two structures differ for certain
only if their operators do.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelwright.graph import operators
from kernelwright.graph.types import Graph, Node, NumberType, Operand, Ref, TensorType

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_SAME = {name: one for one, names in _TABLE.items() for name in names.split()}
_PASSED = frozenset(["_to_copy", "clone", "contiguous", "copy", "to", "alias", "positive", "lift_fresh_copy"])
_COMMUTE = frozenset(["add", "mul", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or"])
_LEAF = "."


def structure(graph: Graph) -> str:
    """The digest: 16 hex digits."""
    return hashlib.sha256(structure_text(graph).encode()).hexdigest()[:16]


def structure_text(graph: Graph) -> str:
    """The hashed text in prefix form: `gelu(add(.,matmul(.,.)))`; long subexpressions appear as hashes."""
    made: dict[str, str] = {one.name: _LEAF for one in graph.arguments}
    types = graph.types()
    for node in graph.nodes:
        text = _write(node, made, types)
        for place, value in enumerate(node.outputs):
            if value is not None:
                made[value.name] = _digest(text if place == 0 else f"{text}#{place}")
    return ";".join(sorted({made[name] for name in graph.results}))


def operator_count(graph: Graph) -> int:
    """Number of nodes that compute something: no views, casts or values made from sizes alone."""
    return sum(
        operators.kind(node.op) not in ("view", "create") and _name(node) not in _PASSED
        for node in graph.nodes
    )


def _digest(text: str) -> str:
    """Long texts as their hash, so that a value read twice does not double the text."""
    return text if len(text) <= 120 else "@" + hashlib.sha256(text.encode()).hexdigest()[:16]


def _name(node: Node) -> str:
    name = operators.packet(node.op)
    return _SAME.get(name, name)


def _write(node: Node, made: Mapping[str, str], types: Mapping[str, TensorType | NumberType]) -> str:
    read = [made[one.ref] for one in _values(node.args)]
    name = _name(node)
    if operators.kind(node.op) == "view" or name in _PASSED:
        return read[0] if read else _LEAF
    if operators.kind(node.op) == "create":
        return _LEAF
    if name in ("linear", "addmm", "baddbmm", "addbmm", "conv"):
        return _contraction(node, name, read, types)
    return _map(node, name, read)


def _contraction(node: Node, name: str, read: list[str], types: Mapping[str, TensorType | NumberType]) -> str:
    """The product without its bias, then the bias as an addition."""
    if name.startswith("add") or name == "baddbmm":
        read = [*read[1:], read[0]]
    if name == "conv":
        kind = types[_values(node.args[1:2])[0].ref]
        transposed = "transpose" in node.op or (len(node.args) > 6 and node.args[6] is True)
        name = f"conv{len(kind.shape) - 2 if isinstance(kind, TensorType) else ''}{'t' if transposed else ''}"
    else:
        name = "matmul"
    product = f"{name}({','.join(read[:2])})"
    return product if len(read) < 3 else _call("add", [product, read[2]])


def _map(node: Node, name: str, read: list[str]) -> str:
    if len(read) == 1:
        if name in ("mul", "div"):
            return f"scale({read[0]})"
        if name in ("add", "sub", "rsub"):
            return f"shift({read[0]})"
        if name == "pow" and len(node.args) > 1 and node.args[1] in (2, 2.0):
            return _call("mul", [read[0], read[0]])
        if name in ("clamp", "clamp_min", "maximum", "threshold"):
            return f"relu({read[0]})" if _is_zero(node) else f"clamp({read[0]})"
        if name == "minimum":
            return f"clamp({read[0]})"
    if name == "square":
        return _call("mul", [read[0], read[0]])
    if name == "mul" and len(read) == 2:
        for one, other in (read, read[::-1]):
            if other == _digest(f"sigmoid({one})"):
                return f"silu({one})"
            if other == _digest(f"tanh({_digest(f'softplus({one})')})"):
                return f"mish({one})"
    return _call(name, read)


def _call(name: str, read: Sequence[str]) -> str:
    parts = sorted(read) if name in _COMMUTE else list(read)
    return f"{name}({','.join(parts)})"


def _is_zero(node: Node) -> bool:
    numbers = [
        one for one in (*node.args[1:], *(value for _, value in node.kwargs)) if isinstance(one, int | float)
    ]
    return bool(numbers) and all(one == 0 for one in numbers)


def _values(operands: Sequence[Operand]) -> list[Ref]:
    found: list[Ref] = []
    for one in operands:
        if isinstance(one, Ref):
            found.append(one)
        elif isinstance(one, tuple):
            found += _values(one)
    return found
