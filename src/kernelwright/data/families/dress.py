"""Changes that make a design look like what people write, and that a task and its kernel must share.

    inputs      uniform instead of normal numbers
    shapes      a parameter's shape comes as a tuple: `bias_shape = (out_channels, 1, 1)`
    dimension   the one dimension that an operator works along comes through the constructor

Operators, and so the graph, stay what they are.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kernelwright.data.families.spec import Design, Draw, Op

_PARAMETER = re.compile(r"^self\.(\w+) = nn\.Parameter\(torch\.randn\(([\w ,]+?)(, dtype=torch\.\w+)?\)\)$")
_NORMAL = re.compile(r"^torch\.randn\((.*)\)$")
_DIMENSION = re.compile(r"\bdim=(-?\d)(?=[,)])")


def dress(design: Design, draw: Draw) -> Design:
    """The design with some of the changes, as `draw` falls."""
    ops = list(design.ops)
    if draw.chance(0.35):
        ops = [replace(op, inputs=tuple(_uniform(given) for given in op.inputs)) for op in ops]
    if draw.chance(0.35):
        ops = [_shaped(op) for op in ops]
    single = [op for op in ops if op.name]
    if len(single) == 1 and draw.chance(0.4):
        ops = [_dimension(op) if op is single[0] else op for op in ops]
    return replace(design, ops=tuple(ops))


def _uniform(given: tuple[str, str]) -> tuple[str, str]:
    name, made = given
    return name, _NORMAL.sub(r"torch.rand(\1)", made)


def _shaped(op: Op) -> Op:
    """The operator with the shape of its one parameter as an argument."""
    match = _PARAMETER.match(op.state[0]) if len(op.state) == 1 else None
    if match is None:
        return op
    values = dict(op.init)
    parts = [values.get(part, part) for part in match[2].split(", ")]
    if any(part in values for part in parts) or f"{match[1]}_shape" in values:
        return op
    shape = f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    name = f"{match[1]}_shape"
    line = f"self.{match[1]} = nn.Parameter(torch.randn({name}{match[3] or ''}))"
    return replace(op, state=(line,), init=((name, shape),))


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
