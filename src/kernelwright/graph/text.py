"""The printed form of a graph, for models and people: one line per argument, one line per node.
    sizes s0=2 s1=17
    x1: f32[s0,s1,48]
    w1: f32[48] weight
    h1: f32[s0,s1,48] = layer_norm(x1, [48], w1, b1, 1e-06)
    h2: f32[s0,s1] = sum(h1, [2])
    return h2

Operators appear by name without overload, which the arguments imply. Omits strides and origins; the stored form is JSON,
which has everything.
"""

from __future__ import annotations

from kernelwright.graph import operators
from kernelwright.graph.types import (
    DtypeArg,
    Graph,
    Node,
    NumberType,
    Operand,
    Other,
    Ref,
    Scale,
    Size,
    TensorType,
    Value,
)  # fmt: skip

SHORT = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b1",
}  # fmt: skip


def to_text(graph: Graph) -> str:
    """The whole graph, ending in a line `return`."""
    lines = []
    if graph.symbols:
        lines.append("sizes " + " ".join(f"{one.name}={one.hint}" for one in graph.symbols))
    for one in graph.arguments:
        role = "" if one.role == "input" else f" {one.role}"
        lines.append(f"{one.name}: {type_text(one.type)}{role}{' written' if one.mutated else ''}")
    lines += [node_text(node) for node in graph.nodes]
    return "\n".join([*lines, "return " + ", ".join(graph.results)])


def node_text(node: Node) -> str:
    """`h1: f32[2,48] = layer_norm(x1, [48], w1, b1, 1e-06)`."""
    outputs = ", ".join("_" if one is None else _value(one) for one in node.outputs)
    given = [operand_text(one) for one in node.args]
    given += [f"{name}={operand_text(value)}" for name, value in node.kwargs if name != "device"]
    name = operators.packet(node.op) if node.op.startswith("aten.") else node.op
    name = {"_to_copy": "to", "_softmax": "softmax", "_log_softmax": "log_softmax"}.get(name, name)
    if node.op == "aten._to_copy.default":
        given = [one.removeprefix("dtype=") for one in given]
    if name in ("softmax", "log_softmax"):
        given = given[:2]
    return f"{outputs} = {name}({', '.join(given)})"


def type_text(type: TensorType | NumberType) -> str:
    """`bf16[s0,4096]`, with strides if they are not contiguous; `int` for a number."""
    if isinstance(type, NumberType):
        return type.of
    shape = ",".join(str(one).replace(" ", "") for one in type.shape)
    strides = ""
    if type.strides is not None:
        strides = " strides " + ",".join(str(one).replace(" ", "") for one in type.strides)
    return f"{SHORT[type.dtype]}[{shape}]{strides}"


def operand_text(value: Operand) -> str:
    """An operator's argument: `[2, 3]`, `f32`, `s0*4`, `x1`."""
    if isinstance(value, Ref):
        return value.ref
    if isinstance(value, Size):
        return value.size.replace(" ", "")
    if isinstance(value, Scale):
        return value.scale.replace(" ", "")
    if isinstance(value, DtypeArg):
        return SHORT[value.dtype]
    if isinstance(value, Other):
        return value.other.removeprefix("torch.")
    if isinstance(value, tuple):
        return "[" + ", ".join(map(operand_text, value)) + "]"
    return repr(value)


def _value(value: Value) -> str:
    return f"{value.name}: {type_text(value.type)}"
