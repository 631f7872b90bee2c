"""Writes the task of a design: a `Model` in the manner of one of the people who write such modules.

What varies: names of sizes, inputs and values; sizes before the class or after it; numbers in `get_init_inputs` as they
are or named; one assignment an operator, one expression, or a name for each value; modules or functions, `F` or the
whole path; no docstring, a line, or one with arguments and returns; annotations; how the base class is called.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kernelwright.data.families.spec import Design

SIZE_NAMES: Mapping[str, tuple[str, ...]] = {
    "B": ("B", "BATCH", "batch_size", "batch_size"),
    "M": ("M", "ROWS", "rows", "dim1"),
    "N": ("N", "COLS", "dim", "dim2"),
    "K": ("K", "INNER", "inner", "K"),
    "C": ("C", "CHANNELS", "channels"),
    "CI": ("CI", "IN_CHANNELS", "in_channels"),
    "CO": ("CO", "OUT_CHANNELS", "out_channels"),
    "H": ("H", "HEIGHT", "height"),
    "W": ("W", "WIDTH", "width"),
    "D": ("D", "DEPTH", "depth"),
    "L": ("L", "LENGTH", "length", "input_length"),
    "S": ("S", "SEQ", "seq_len", "sequence_length"),
    "E": ("E", "HEAD_DIM", "head_dim"),
    "HEADS": ("HEADS", "num_heads", "n_heads"),
    "V": ("V", "VOCAB", "vocab_size"),
    "F": ("FEATURES", "features", "hidden"),
}
"""Other names of a size constant."""
INPUT_NAMES: Mapping[str, tuple[str, ...]] = {
    "x": ("x", "inp", "x", "input", "input_tensor", "X"),
    "a": ("a", "lhs", "A", "left", "x", "mat1"),
    "b": ("b", "rhs", "B", "right", "y", "mat2"),
    "q": ("q", "query", "Q"),
    "k": ("k", "key", "K"),
    "v": ("v", "value", "V"),
    "other": ("other", "y", "add_input", "residual"),
    "keep": ("keep", "mask", "mask", "mask", "valid", "mask"),
    "third": ("third", "z", "extra"),
    "pred": ("pred", "prediction", "predictions", "output", "input", "logits"),
    "target": ("target", "labels", "targets", "labels"),
}

TOLD = (
    "Model that performs {ops}.",
    "Computes {ops}.",
    "A simple module: {ops}.",
    "{ops}.",
    "Simple model that performs {ops}.",
    "A model that applies {ops} in sequence.",
)
MODULES = {"LeakyReLU": "leaky_relu", "LogSoftmax": "log_softmax", "LogSigmoid": "log_sigmoid"}
"""Attributes of modules whose names are of several words."""
WORDS = {
    "conv": "a convolution",
    "conv_transpose": "a transposed convolution",
    "matmul": "a matrix multiplication",
    "bmm": "a batched matrix multiplication",
    "linear": "a linear layer",
    "over": "a division",
    "minus": "a subtraction",
    "offset": "an addition",
    "scale": "a scaling",
    "add": "an addition",
    "sub": "a subtraction",
    "mul": "a multiplication",
}
"""What people call an operator, where it is not its name."""
MEANING = {
    "in_channels": "Number of channels of the input.",
    "out_channels": "Number of channels of the output.",
    "channels": "Number of channels.",
    "kernel_size": "Size of the convolution kernel.",
    "stride": "Stride of the window.",
    "padding": "Padding on all sides.",
    "dilation": "Distance between the elements of the window.",
    "groups": "Number of groups.",
    "bias": "Whether to add a learned bias.",
    "in_features": "Number of input features.",
    "out_features": "Number of output features.",
    "num_groups": "Number of groups to normalise over.",
    "dim": "Dimension to work along.",
    "eps": "Added to the variance, against division by zero.",
    "bias_shape": "Shape of the bias.",
}


@dataclass(frozen=True)
class Argument:
    """An argument of the constructor."""

    name: str
    value: str
    """Over size constants."""
    default: bool = False
    """The signature gives it its value."""

    @property
    def signature(self) -> str:
        """As `ModelNew` takes it."""
        return f"{self.name}={self.value}" if self.default else self.name

    @property
    def kind(self) -> str:
        """Its type, as far as the value tells."""
        if self.value in ("True", "False"):
            return "bool"
        if self.value.startswith("("):
            return "tuple"
        return "float" if "." in self.value or "e-" in self.value else "int"


def write_reference(
    design: Design,
    arguments: Sequence[Argument],
    inputs: Sequence[tuple[str, str]],
    rng: random.Random,
) -> tuple[str, dict[str, str]]:
    """The text, and the name in it of each size of the design."""
    sizes = _renaming(rng, design.sizes, SIZE_NAMES)
    taken = {given.name for given in arguments} | {*sizes.values()}
    names = _renaming(rng, [given for given, _ in inputs], INPUT_NAMES, taken)
    return _Writer(design, arguments, inputs, sizes, names, rng).text(), sizes


class _Writer:
    """One wording."""

    def __init__(
        self,
        design: Design,
        arguments: Sequence[Argument],
        inputs: Sequence[tuple[str, str]],
        sizes: Mapping[str, str],
        names: Mapping[str, str],
        rng: random.Random,
    ) -> None:
        self.ops, self.values, self.rng = design.ops, design.sizes, rng
        self.arguments, self.inputs, self.sizes, self.names = arguments, inputs, sizes, names
        self.typed, self.modules = rng.random() < 0.35, rng.random() < 0.5
        self.layout = rng.choice(("steps", "plain", "plain", "nested", "names"))
        self.told = rng.choice(("", "", "line", "block", "block", "full"))
        self.after = rng.random() < 0.5
        self.named = rng.random() < 0.5
        self.spelled_out = rng.random() < 0.3
        self.parent = "super().__init__()" if rng.random() < 0.5 else "super(Model, self).__init__()"

    def text(self) -> str:
        state = [line for op in self.ops for line in op.state]
        body = self._forward(state)
        hint = ": torch.Tensor" if self.typed else ""
        made = _inputs(self.inputs, self.names, self.sizes, self.rng.random() < 0.3)
        constants = self._constants()
        given = self._given(constants)
        lines = ["class Model(nn.Module):", *self._docstring()]
        if self.arguments or state or self.rng.random() < 0.5:
            init = [self._signature(argument) for argument in self.arguments]
            lines += wrapped(f"    def __init__({', '.join(['self', *init])}):")
            lines += [f"        {self.parent}"]
            lines += [part for line in state for part in wrapped(f"        {line}")]
            lines.append("")
        signature = ", ".join(["self", *(f"{self.names[name]}{hint}" for name, _ in self.inputs)])
        lines += [f"    def forward({signature}){' -> torch.Tensor' if self.typed else ''}:"]
        lines += [*self._explained(), *(f"        {line}" for line in body)]
        functions = ["def get_inputs():", *(f"    {line}" for line in made), "", ""]
        functions += ["def get_init_inputs():", f"    return [{', '.join(given)}]", ""]
        heads = ["import torch", "import torch.nn as nn"]
        text = "\n".join([*lines, *functions])
        if "F." in text and not self.spelled_out:
            heads.append("import torch.nn.functional as F")
        parts = [lines, constants] if self.after else [constants, lines]
        blocks = [
            "\n".join(heads),
            *("\n".join(part).rstrip("\n") for part in parts if part),
            "\n".join(functions),
        ]
        joined = blocks[0]
        for block in blocks[1:]:
            joined += ("\n\n\n" if block.startswith(("class", "def")) else "\n\n") + block
        return (
            re.sub(r"(?<![\w.])F\.(?=[a-z])", "torch.nn.functional.", joined) if self.spelled_out else joined
        )

    def _constants(self) -> list[str]:
        """The sizes at the top: one a line, some as a product, neighbouring places together."""
        lines = []
        together = self.rng.random() < 0.2
        places = [key for key in self.values if key in ("D", "H", "W")]
        for key, size in self.values.items():
            if together and key in places and len(places) > 1:
                if key == places[0]:
                    names = ", ".join(self.sizes[place] for place in places)
                    lines.append(f"{names} = {', '.join(str(self.values[place].full) for place in places)}")
                continue
            value = str(size.full)
            if size.full >= 1024 and size.full % 4 == 0 and self.rng.random() < 0.08:
                factor = self.rng.choice((2, 4))
                value = f"{size.full // factor} * {factor}"
            lines.append(f"{self.sizes[key]} = {value}")
        return lines

    def _forward(self, state: list[str]) -> list[str]:
        """The lines of `forward`; modules without weights that it uses are added to `state`."""
        ops, names, layout = self.ops, self.names, self.layout
        body: list[str] = []
        value = next(iter(names.values()), "x")
        first = True
        taken = {line.split(" = ")[0].removeprefix("self.") for line in state}
        for position, op in enumerate(ops):
            for line in op.lines:
                name, _, kept = line.partition(" = ")
                body.append(f"{name} = {value}" if kept == "{x}" else replace_names(line, names))
                value = name if kept == "{x}" else value
            expression = replace_names(op.expression, names)
            if op.module and self.modules:
                stem = re.sub(r"\W.*", "", op.module.removeprefix("nn."))
                stem = MODULES.get(stem, stem.lower())
                attribute = next(n for n in (stem, *(f"{stem}{i}" for i in range(2, 9))) if n not in taken)
                taken.add(attribute)
                # Numbers that only the module reads are not kept besides.
                for line in op.state:
                    held = re.fullmatch(r"self\.(\w+) = \1", line)
                    if held and re.search(rf"\b{held[1]}\b", op.module):
                        state.remove(line)
                state.append(f"self.{attribute} = {op.module}")
                expression = f"self.{attribute}({{x}})"
            if expression.count("{x}") > 1 and not value.isidentifier():
                kept = names.get("x", "out")
                later = " ".join(replace_names(o.expression, names) for o in ops[position:])
                kept = f"h{position}" if re.search(rf"\b{re.escape(kept)}\b", later) else kept
                body.append(f"{kept} = {value}")
                value = kept
            expression = _filled(expression, value)
            last = position == len(ops) - 1
            nests = layout == "nested" and len(expression) < 60 and not op.lines
            if (nests and (first or value.isidentifier() or expression.count(value) == 1)) or (
                last and layout != "names" and (layout != "plain" or first)
            ):
                value = expression
            else:
                value = f"h{position + 1}" if layout == "names" else names.get("x", "out")
                if any(
                    re.search(rf"\b{re.escape(value)}\b", replace_names(o.expression, names))
                    for o in ops[position + 1 :]
                ):
                    value = f"h{position + 1}"
                if expression != value:
                    body.append(f"{value} = {expression}")
            first = False
        body.append(f"return {value}")
        return body

    def _given(self, constants: list[str]) -> list[str]:
        """The values of `get_init_inputs`; numbers that get a name are added to `constants`."""
        wanted = list(self.arguments)
        if self.rng.random() < 0.6:
            while wanted and wanted[-1].default:
                wanted.pop()
        taken = {*self.sizes.values(), *self.names.values()}
        found = []
        for argument in wanted:
            value = replace_names(argument.value, self.sizes)
            if self.named and not value.isidentifier() and argument.name not in taken:
                taken.add(argument.name)
                constants.append(f"{argument.name} = {value}")
                value = argument.name
            found.append(value)
        return found

    def _signature(self, argument: Argument) -> str:
        typed = f"{argument.name}: {argument.kind}" if self.typed else argument.name
        if not argument.default:
            return typed
        return f"{typed} = {argument.value}" if self.typed else f"{typed}={argument.value}"

    def _words(self) -> str:
        """What the operators do, in words."""
        known = [op.name.split(":")[0] for op in self.ops if op.name]
        words = [
            WORDS.get(re.sub(r"\dd$", "", name), name.replace("_", " ")) for name in dict.fromkeys(known)
        ]
        return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"

    def _docstring(self) -> list[str]:
        if not self.told:
            return []
        text = self.rng.choice(TOLD).format(ops=self._words())
        text = f"{text[0].upper()}{text[1:]}"
        if self.told == "line":
            return [f'    """{text}"""', ""]
        lines = ['    """', f"    {text}"]
        if self.told == "full" and self.arguments:
            lines += ["", "    Args:"]
            for given in self.arguments:
                meaning = MEANING.get(given.name, f"The {given.name.replace('_', ' ')}.")
                more = f" Defaults to {given.value}." if given.default else ""
                lines.append(
                    f"        {given.name} ({given.kind}{', optional' if more else ''}): {meaning}{more}"
                )
        return [*lines, '    """', ""]

    def _explained(self) -> list[str]:
        if self.told != "full":
            return []
        lines = [f"Applies {self._words()}.", "", "Args:"]
        for name, made in self.inputs:
            shape = re.search(r"torch\.\w+\(([^()]*?)(, dtype=[\w.]+)?\)", replace_names(made, self.sizes))
            of = f" of shape ({shape[1]})" if shape and not re.search(r"\d", shape[1]) else ""
            lines.append(f"    {self.names[name]} (torch.Tensor): Input tensor{of}.")
        lines += ["", "Returns:", "    torch.Tensor: Output tensor."]
        return ['        """', *(f"        {line}".rstrip() for line in lines), '        """']


def _renaming(
    rng: random.Random,
    given: Sequence[str] | Mapping[str, object],
    table: Mapping[str, tuple[str, ...]],
    taken: Collection[str] = (),
) -> dict[str, str]:
    """A new name for each of `given`, of one style, without collisions."""
    style = rng.choice((0, 1, 2, 2, 2, 3, 4, 5))
    found: dict[str, str] = {}
    for name in given:
        options = table.get(name, (name,))
        chosen = options[min(style, len(options) - 1)]
        while chosen in found.values() or chosen in taken:
            chosen = (
                name if chosen != name and name not in found.values() and name not in taken else f"{chosen}_"
            )
        found[name] = chosen
    return found


def replace_names(text: str, names: Mapping[str, str]) -> str:
    """`text` with free names replaced; attributes and keywords stay."""
    if not names:
        return text
    pattern = (
        r"(?<![\w.{])(" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + r")\b(?!=[^=])"
    )
    return re.sub(pattern, lambda match: names[match[1]], text)


def _inputs(
    inputs: Sequence[tuple[str, str]], names: Mapping[str, str], sizes: Mapping[str, str], named: bool
) -> list[str]:
    """The body of `get_inputs`: one list, or a name for each tensor."""
    line = f"return [{', '.join(replace_names(made, sizes) for _, made in inputs)}]"
    if not (named or len(line) > 90 or ";" in line):
        return [line]
    lines = []
    for given, made in inputs:
        name, (first, _, then) = names[given], replace_names(made, sizes).partition("; ")
        lines.append(f"{name} = {first}")
        if then:
            lines.append(f"{name} = {then.replace('{m}', name)}")
    return [*lines, f"return [{', '.join(names[given] for given, _ in inputs)}]"]


def wrapped(line: str) -> list[str]:
    """A call or a signature, broken at its outermost commas where it is long."""
    if len(line) <= 110:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    start, end = line.index("(") + 1, line.rindex(")")
    parts, depth = [""], 0
    for letter in line[start:end]:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    rows = [""]
    for part in (part.strip() for part in parts):
        if rows[-1] and len(rows[-1]) + len(part) > 90:
            rows.append("")
        rows[-1] += f"{' ' if rows[-1] else ''}{part},"
    return [line[:start], *(f"{indent}    {row}" for row in rows), indent + line[end:]]


def _filled(expression: str, value: str) -> str:
    """`expression` with `{x}` filled in, in parentheses where the value is no atom and its place would bind."""
    if "{x}" not in expression:
        return expression
    atomic = isinstance(
        ast.parse(value, mode="eval").body, ast.Name | ast.Attribute | ast.Call | ast.Subscript
    )
    if not atomic and re.search(r"\{x\}( [-+*/@]|\.|\[)|[-+*/@] ?\{x\}", expression):
        value = f"({value})"
    return expression.replace("{x}", value)
