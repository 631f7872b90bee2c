"""Weights as arguments of `forward`, as functions take them: `F.conv2d(x, weight, bias, stride=2)`.

Modules with weights become the functions they stand for, in one of the ways that people write those; what a kernel's host
code read from the module (`self.conv.stride`) becomes numbers, or attributes where the constructor keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from kernelwright.data.families.spec import Design, Draw, Op, passing

LITERAL = re.compile(r"^(-?[\d.]+(e-?\d+)?|True|False|\([\d, ]+\))$")
"""A plain value."""
_TENSOR = re.compile(
    r'^self\.(?:(\w+) = nn\.Parameter|register_buffer)\((?:"(\w+)", )?(torch\.(?:randn|rand|ones)\(.*)\)$'
)
_MODULE = re.compile(r"^self\.(\w+) = nn\.([A-Za-z]+)(?:(\d)d)?\((.*)\)$")


class _Function(NamedTuple):
    """A module of `nn` as a function."""

    made: str
    """Arguments of the module."""
    called: str
    """Those of the function."""
    weight: str
    """The weight's shape, over the module's arguments."""
    bias: str = ""
    """The bias's, where it is another: a weight that sums is divided by the root of what it sums over."""


_CONV = "in_channels, out_channels, kernel_size, stride=1, padding=0, {}groups=1, bias=True"
_NORM = "weight=None, bias=None, {}eps=1e-5"
_FUNCTIONS = {
    "linear": _Function(
        "in_features, out_features, bias=True",
        "input, weight, bias=None",
        "{out_features}, {in_features}",
        "{out_features}",
    ),
    "conv": _Function(
        _CONV.format("dilation=1, "),
        "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1",
        "{out_channels}, {inner}, {window}",
        "{out_channels}",
    ),
    "conv_transpose": _Function(
        _CONV.format("output_padding=0, ") + ", dilation=1",
        "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1",
        "{in_channels}, {outer}, {window}",
        "{out_channels}",
    ),
    "layer_norm": _Function(
        "normalized_shape, eps=1e-5",
        "input, normalized_shape, " + _NORM.format(""),
        "{normalized_shape}",
    ),
    "group_norm": _Function(
        "num_groups, num_channels, eps=1e-5",
        "input, num_groups, " + _NORM.format(""),
        "{num_channels}",
    ),
    "batch_norm": _Function(
        "num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True",
        "input, running_mean, running_var, " + _NORM.format("training=False, momentum=0.1, "),
        "{num_features}",
    ),
    "instance_norm": _Function(
        "num_features, eps=1e-5, momentum=0.1, affine=False",
        "input, running_mean=None, running_var=None, " + _NORM.format("use_input_stats=True, momentum=0.1, "),
        "{num_features}",
    ),
    "embedding": _Function(
        "num_embeddings, embedding_dim", "input, weight", "{num_embeddings}, {embedding_dim}"
    ),
    "prelu": _Function("num_parameters=1, init=0.25", "input, weight", "{num_parameters}"),
}
_MODULES = {name.replace("_", ""): name for name in _FUNCTIONS}
"""A module's name in small letters -> its function's."""
_FIXED = {"running_mean": "None", "running_var": "None", "training": "True", "momentum": "0.1"}
"""What a function is given whatever its module had: batches are normalised by their own statistics."""
_BY_AXIS = ("stride", "padding", "output_padding", "dilation")
"""What a module keeps as a tuple."""


class _Layer(NamedTuple):
    """A module with weights, freed."""

    name: str
    call: str
    """Over `\\1`, what it is applied to."""
    attributes: dict[str, str]
    """What stands for `self.NAME.ATTRIBUTE`."""
    inputs: tuple[tuple[str, str], ...]
    held: tuple[str, ...]
    """Arguments of the constructor that `forward` reads."""

    def instead(self, text: str) -> str:
        """`text` without the module."""
        text = re.sub(rf"\bself\.{self.name}\(([^()]*)\)", self.call, text)
        return re.sub(rf"\bself\.{self.name}\.(\w+)", lambda at: self.attributes.get(at[1], at[0]), text)


def freed(design: Design, draw: Draw) -> Design:
    """The design with its weights as inputs; itself where it has none, or where a name would stand for two things."""
    values = {name: value for op in design.ops for name, value in op.init}
    state = [line for op in design.ops for line in op.state]
    tensors = {line: match for line in state if (match := _TENSOR.match(line))}
    names = {line: match[1] or f"running_{match[2]}" for line, match in tensors.items()}
    taken = {name for op in design.ops for name, _ in op.inputs} | {stage.name for stage in design.stages}
    plain = not {"weight", "bias"} & {*taken, *names.values()}
    modules = [match for line in state if (match := _MODULE.match(line)) and match[2].lower() in _MODULES]
    holds, first = draw.chance(0.4), draw.chance(0.5)
    layers: dict[str, _Layer] = {}
    for match in modules:
        prefixed = not plain or (len(modules) > 1 and (layers or not first))
        layer = _layer(match, f"{match[1]}_" if prefixed else "", values, holds, draw)
        if layer is not None:
            layers[match[0]] = layer

    def other(text: str) -> str:
        for layer in layers.values():
            text = layer.instead(text)
        for line, match in tensors.items():
            text = re.sub(rf"\bself\.{match[1] or match[2]}\b", names[line], text)
        return text

    def one(op: Op) -> Op:
        inputs, kept = list(op.inputs), []
        for line in op.state:
            if line in tensors:
                inputs.append((names[line], _sized(tensors[line][3].replace(".ones(", ".rand("), values)))
            elif line in layers:
                inputs += layers[line].inputs
                kept += [f"self.{name} = {name}" for name in layers[line].held]
            else:
                kept.append(line)
        lines = tuple(map(other, op.lines))
        return replace(
            op, expression=other(op.expression), state=tuple(kept), inputs=tuple(inputs), lines=lines
        )

    ops = [one(op) for op in design.ops]
    stages = passing(design.stages, other)
    kept = [line for op in ops for line in op.state]
    gone = _read([*tensors, *layers]) - _read([*kept, *(op.module for op in ops)])
    ops = [replace(op, init=tuple(pair for pair in op.init if pair[0] not in gone)) for op in ops]
    new = [*names.values(), *(name for layer in layers.values() for name, _ in layer.inputs)]
    taken |= {name for op in ops for name, _ in op.init}
    attributes = [line.partition(" = ")[0] for line in kept]
    text = " ".join([*(op.expression for op in ops), *(line for op in ops for line in op.lines), str(stages)])
    sound = (
        len({*taken, *new}) == len(taken) + len(new)
        and len({*attributes}) == len(attributes)
        and not any(re.search(rf"\bself\.{layer.name}\b", text) for layer in layers.values())
    )
    return replace(design, ops=tuple(ops), stages=stages) if new and sound else design


def _layer(
    match: re.Match[str], prefix: str, values: Mapping[str, str], holds: bool, draw: Draw
) -> _Layer | None:
    """The module that a line makes, its weights named with `prefix`; None where it has none. `holds`: numbers stay
    attributes, where they do not have to."""
    name, kind, rank = match[1], _MODULES[match[2].lower()], int(match[3] or 0)
    function = _FUNCTIONS[kind]
    options, known = _signature(function.called), _signature(function.made)
    given = _arguments(match[4], known)
    dtype = f", dtype={given.pop('dtype')}" if "dtype" in given else ""
    known |= {key: _sized(value, values) for key, value in given.items()}
    if known.get("affine") == "False":
        return None
    shapes = {key: value.strip("(),") for key, value in known.items()}
    if rank and "kernel_size" in shapes:
        window, groups = shapes["kernel_size"], shapes["groups"]
        shapes["window"] = window if "," in window else ", ".join([window] * rank)
        shapes["inner"] = _divided(shapes["in_channels"], groups)
        shapes["outer"] = _divided(shapes["out_channels"], groups)
    shape = function.weight.format(**shapes)
    made = draw.pick(("torch.randn({})", "torch.rand({}) + 0.5"))
    if function.bias:
        over = " * ".join(part for part in shape.split(", ")[1:] if part != "1")
        over = f"({over})" if " " in over else over
        made = "torch.randn({})" + (f" / {over} ** 0.5" if over else "")
    written = {**_FIXED, "input": r"\1", "weight": f"{prefix}weight", "bias": "None"}
    inputs = [(written["weight"], made.format(shape + dtype))]
    if "bias" in options and known.get("bias") != "False":
        written["bias"] = f"{prefix}bias"
        bias = (function.bias or function.weight).format(**shapes)
        inputs.append((written["bias"], f"torch.randn({bias}{dtype})"))
    last = rf"\1.shape[-{shape.count(',') + 1}:]"
    written["normalized_shape"] = draw.pick((f"{written['weight']}.shape", last))
    attributes = dict(written)
    held = {}
    for option in [name for name in options if name not in written]:
        said = given.get(option, options[option])
        if said in values and (holds or not LITERAL.match(values[said])):
            held[said] = True
            written[option] = f"self.{said}"
        else:
            value = known.get(option, options[option])
            same = {*value.strip("()").split(", ")} == {options[option]}
            known[option] = written[option] = options[option] if same else value
        attributes[option] = written[option]
        if option in _BY_AXIS and not known[option].startswith("("):
            attributes[option] = f"({', '.join([written[option]] * rank)}{',' * (rank == 1)})"
    place = f"{rank}d" if kind.startswith("conv") else ""
    call = f"F.{kind}{place}({_spelled(written, options, draw)})"
    return _Layer(name, call, attributes, tuple(inputs), tuple(held))


def _spelled(written: Mapping[str, str], options: Mapping[str, str], draw: Draw) -> str:
    """The arguments of a call: the first by place, the others by name and without those that are the default."""
    names = list(options)
    least = sum(not default for default in options.values())
    last = max(place for place, name in enumerate(names, 1) if written[name] != options[name])
    weights = names.index("bias") + 1 if "bias" in names else least
    count = min(draw.pick((least, *[weights] * 3, last)), last)
    by_name = [f"{name}={written[name]}" for name in names[count:] if written[name] != options[name]]
    return ", ".join([*(written[name] for name in names[:count]), *by_name])


def _signature(text: str) -> dict[str, str]:
    """Name -> default, which is empty where there is none."""
    return {name: default for name, _, default in (part.partition("=") for part in text.split(", "))}


def _arguments(text: str, names: Iterable[str]) -> dict[str, str]:
    """Name -> what a call gives, by place or by name."""
    parts = [part.rpartition("=") for part in re.split(r", (?![^(]*\))", text)]
    places = [*names, *[""] * len(parts)]
    return {name or place: value for (name, _, value), place in zip(parts, places, strict=False)}


def _sized(text: str, values: Mapping[str, str]) -> str:
    """`text` with arguments of the constructor replaced by their values."""
    return re.sub(r"(?<![\w.])[a-zA-Z_]\w*\b(?!=)", lambda at: values.get(at[0], at[0]), text)


def _read(lines: Iterable[str]) -> set[str]:
    """Names that are neither attributes nor keywords."""
    return {name for line in lines for name in re.findall(r"(?<![\w.])[a-zA-Z_]\w*\b(?!=)", line)}


def _divided(channels: str, groups: str) -> str:
    return "1" if channels == groups else channels if groups == "1" else f"{channels} // {groups}"
