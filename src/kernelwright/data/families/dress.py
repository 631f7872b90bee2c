"""Changes that make a design look like what people write, and that a task and its kernel must share.

    inputs      uniform instead of normal numbers
    shapes      a parameter's shape comes as a tuple: `bias_shape = (out_channels, 1, 1)`
    dimension   the one dimension that an operator works along comes through the constructor
    attributes  `self.linear` is `self.gemm`, `self.conv` is `self.conv_transpose`
    literals    numbers stand in `__init__` instead of coming through the constructor
    freed       weights are arguments of `forward`, as functions take them
    unused      an argument of the constructor that nothing reads

Operators, and so the graph, stay what they are.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kernelwright.data.families.freed import LITERAL, freed
from kernelwright.data.families.spec import Design, Draw, Op, passing

BASES = ("conv", "linear", "norm", "bn", "pool", "global_pool", "linear2", "pool2", "first_pool")
"""Modules that may be called otherwise."""
ATTRIBUTES = {
    "ConvTranspose": ("conv_transpose",) * 5 + ("deconv", "conv", "upconv"),
    "Conv": ("conv",) * 5 + ("conv1", "conv_layer"),
    "Linear": ("linear", "linear", "gemm", "gemm", "matmul", "fc", "proj"),
    "GroupNorm": ("group_norm",) * 3 + ("norm", "gn", "groupnorm"),
    "LayerNorm": ("layer_norm", "layer_norm", "norm", "ln"),
    "InstanceNorm": ("instance_norm", "instance_norm", "norm"),
    "BatchNorm": ("bn", "bn", "batch_norm", "batch_norm", "norm"),
    "MaxPool": ("max_pool", "max_pool", "maxpool", "pool"),
    "AvgPool": ("avg_pool", "avg_pool", "avgpool", "pool"),
    "Adaptive": ("global_avg_pool", "global_avg_pool", "global_pool", "avgpool"),
}
"""What a module of a class, named by how that begins, may be called."""
UNUSED = (
    *(("num_classes", "1000"), ("dropout", "0.0"), ("momentum", "0.1"), ("eps", "1e-5"), ("groups", "1")),
    *(("num_groups", "8"), ("return_indices", "False"), ("ceil_mode", "False"), ("inplace", "False")),
)
"""Arguments that people leave in a constructor."""
_PARAMETER = re.compile(
    r"^self\.(\w+) = nn\.Parameter\(torch\.(randn|rand|ones)\(([\w ,]+?)(, dtype=torch\.\w+)?\)\)$"
)
_NORMAL = re.compile(r"^torch\.randn\((.*)\)$")
_DIMENSION = re.compile(r"\bdim=(-?\d)(?=[,)])")


def dress(design: Design, draw: Draw) -> Design:
    """The design with some of the changes, as `draw` falls."""
    ops = list(design.ops)
    if draw.chance(0.45):
        ops = [replace(op, inputs=tuple(_uniform(given) for given in op.inputs)) for op in ops]
    if draw.chance(0.65):
        ops = [_shaped(op) for op in ops]
    single = [op for op in ops if op.name]
    if len(single) == 1 and draw.chance(0.4):
        ops = [_dimension(op) if op is single[0] else op for op in ops]
    if draw.chance(0.12):
        ops = [_literal(op) for op in ops]
    if draw.chance(0.08):
        name, value = draw.pick(UNUSED)
        if not any(name == given for op in ops for given, _ in op.init) and name not in str(design.stages):
            ops[-1] = replace(ops[-1], init=(*ops[-1].init, (name, value)))
    design = replace(design, ops=tuple(ops))
    if draw.chance(draw.freed):
        design = freed(design, draw)
    return _renamed(design, draw) if draw.chance(0.6) else design


def _renamed(design: Design, draw: Draw) -> Design:
    """The design with other names for its modules, in the reference and in what the kernels take."""
    made = re.findall(r"self\.(\w+) = nn\.(\w+)", " ; ".join(line for op in design.ops for line in op.state))
    taken = {name for name, _ in made if name not in BASES}
    kinds = {name: next((k for k in ATTRIBUTES if kind.startswith(k)), "") for name, kind in made}
    chosen = {name: draw.pick(ATTRIBUTES[kind]) for name, kind in kinds.items() if name in BASES and kind}
    counts = draw.chance(0.4)
    names: dict[str, str] = {}
    for name, other_name in chosen.items():
        several = sum(one == other_name for one in chosen.values()) > 1
        options = [f"{other_name}{n}" for n in range(1 if several and counts else 2, 9)]
        options = options if several and counts else [other_name, *options]
        names[name] = next(one for one in options if one not in taken)
        taken.add(names[name])
    if not names:
        return design
    pattern = re.compile(rf"\bself\.({'|'.join(names)})\b")

    def other(text: str) -> str:
        return pattern.sub(lambda match: f"self.{names[match[1]]}", text)

    ops = tuple(
        replace(
            op,
            expression=other(op.expression),
            state=tuple(map(other, op.state)),
            lines=tuple(map(other, op.lines)),
        )
        for op in design.ops
    )
    return replace(design, ops=ops, stages=passing(design.stages, other))


def _uniform(given: tuple[str, str]) -> tuple[str, str]:
    name, made = given
    return name, _NORMAL.sub(r"torch.rand(\1)", made)


def _shaped(op: Op) -> Op:
    """The operator with the shape of its one parameter as an argument."""
    match = _PARAMETER.match(op.state[0]) if len(op.state) == 1 else None
    if match is None:
        return op
    values = dict(op.init)
    parts = [values.get(part, part) for part in match[3].split(", ")]
    if any(part in values for part in parts) or f"{match[1]}_shape" in values:
        return op
    shape = f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    name = f"{match[1]}_shape"
    line = f"self.{match[1]} = nn.Parameter(torch.{match[2]}({name}{match[4] or ''}))"
    return replace(op, state=(line,), init=((name, shape),))


def _literal(op: Op) -> Op:
    """The operator with those of its arguments that are plain values written out where it is made."""
    plain = {name: value for name, value in op.init if LITERAL.match(value)}
    if not plain or not op.state:
        return op
    pattern = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, plain))})\b(?! ?=)")

    def written(line: str) -> str:
        return pattern.sub(lambda match: plain[match[1]], line)

    init = tuple(pair for pair in op.init if pair[0] not in plain)
    return replace(op, state=tuple(map(written, op.state)), init=init, module=written(op.module))


def _dimension(op: Op) -> Op:
    """The operator with its one dimension as an argument."""
    found = _DIMENSION.findall(op.expression)
    used = " ".join((*op.lines, *op.state, *(name for name, _ in op.init)))
    if len(found) != 1 or op.module or re.search(r"\bdim\b", used):
        return op
    return replace(
        op,
        expression=_DIMENSION.sub("dim=self.dim", op.expression),
        state=(*op.state, "self.dim = dim"),
        init=(*op.init, ("dim", found[0])),
    )
