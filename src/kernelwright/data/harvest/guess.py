"""Proposals for what a constructor and a `forward` want: sizes by the names of their parameters.

Sizes are the constants that a task's shape sets change (`BATCH`, `DIM`, `LENGTH`, `HEIGHT`, `WIDTH`), or literals
where they are windows, heads and factors. Pure functions on syntax trees; whether a proposal runs, `run` finds out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from kernelwright.tasks.closure import Skip

FULL: Mapping[str, int] = {"BATCH": 16, "DIM": 64, "LENGTH": 256, "HEIGHT": 56, "WIDTH": 56}
SMALL: Mapping[str, int] = {"BATCH": 2, "DIM": 16, "LENGTH": 16, "HEIGHT": 8, "WIDTH": 8}
ODD: tuple[Mapping[str, int], ...] = (
    {"BATCH": 3, "DIM": 24, "LENGTH": 21, "HEIGHT": 9, "WIDTH": 7},
    {"BATCH": 3, "DIM": 24, "LENGTH": 12, "HEIGHT": 12, "WIDTH": 12},
    {"BATCH": 3, "DIM": 16, "LENGTH": 21, "HEIGHT": 9, "WIDTH": 7},
    {"BATCH": 3, "DIM": 16, "LENGTH": 16, "HEIGHT": 8, "WIDTH": 8},
)

_INTEGERS = (
    (r"head_dim|dim_head|key_size", "8"),
    (r"head", "4"),
    (r"kernel|window|^ks$|^k$", "3"),
    (r"stride|dilat|group|depth|layer|num_block|^num_convs|order", "1"),
    (r"pad", "1"),
    (r"ratio|factor|scale|expan|mult|upsc|down", "2"),
    (r"patch", "4"),
    (r"rank|rd_|squeeze|reduc", "8"),
    (r"axis", "-1"),
    (r"seq|length|tokens|max_pos|context", "LENGTH"),
    (r"img|image|resol|input_size|feat_size|height", "HEIGHT"),
    (r"width$", "DIM"),
    (r"dim|feature|chan|chs|hidden|plane|size|embed|width|inp|oup|inner|d_model|filters|units|nf$|^c\d?$|^n$|in$|out$|classes|vocab", "DIM"),
)  # fmt: skip
_FLOATS = ((r"eps", "1e-05"), (r"drop|prob|^p$|rate", "0.0"), (r"", "0.5"))
_CLASSES = ((r"norm", "nn.LayerNorm"), (r"act", "nn.GELU"))
_NOT_TENSORS = re.compile(
    r"size|shape|^h$|^w$|idx|index|dim$|flag|return|config|name|mode|length|grid_?thw|cu_seq|labels?|targets?"
)
_CONFIG = {"hidden_act": "'gelu'", "activation_function": "'gelu'", "hidden_activation": "'silu'"}


def arguments(init: ast.FunctionDef | None) -> tuple[str, str]:
    """(constructor's arguments, lines that make a config object) as text. Raises Skip for what cannot be guessed."""
    if init is None:
        return "", ""
    spec = init.args
    required = spec.args[1 : len(spec.args) - len(spec.defaults)]
    required += [a for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is None]
    words, config = [], ""
    for argument in required:
        name = argument.arg
        if name == "config" or name.endswith("_config"):
            config = _config(init, name)
            sizes = [size for size in FULL if re.search(rf"\b{size.lower()}\b", config.split("\n")[1])]
            words.append(f"{name}=Config({', '.join(sizes)})")
        else:
            words.append(f"{name}={value(name, _hint(argument))}")
    return ", ".join(words), config


def value(name: str, hint: str) -> str:
    """A value for a parameter, as text."""
    low = name.lower()
    if hint == "bool" or low.startswith(("use_", "is_", "with_", "has_", "bias")):
        return "True" if low.startswith(("bias", "use_bias")) else "False"
    if hint == "float":
        return next(text for pattern, text in _FLOATS if re.search(pattern, low))
    pair = re.match(r"(typing\.)?[Tt]uple\[int, int\]$", hint)
    if pair:
        return "(HEIGHT, WIDTH)" if re.search(r"size|resol|img", low) and "window" not in low else "(3, 3)"
    if re.match(r"(typing\.)?(Optional\[)?(typing\.)?(Union\[)?int\b", hint):
        hint = "int"
    if hint in ("", "int"):
        for pattern, text in _FLOATS[:2]:
            if not hint and re.search(pattern, low):
                return text
        for pattern, text in _CLASSES:
            if not hint and re.search(pattern, low):
                return text
        found = next((text for pattern, text in _INTEGERS if re.search(pattern, low)), None)
        if found:
            return found
        if hint:
            return "4"
    for pattern, text in _CLASSES:
        if re.search(pattern, low):
            return text
    raise Skip(f"constructor: {name}: {hint or 'no type'}"[:60])


def inputs(forward: ast.FunctionDef, source: str) -> Iterator[str]:
    """Texts of `get_inputs`' list, likelier ones first. Raises Skip for arguments that are no tensors."""
    spec = forward.args
    required = [a.arg for a in spec.args[1 : len(spec.args) - len(spec.defaults)]]
    if spec.vararg or not required or any(d is None for d in spec.kw_defaults):
        raise Skip("forward: its arguments are not plain")
    for name in required:
        if _NOT_TENSORS.search(name.lower()):
            raise Skip(f"forward: {name} is no plain tensor")
    if len(required) > 3:
        raise Skip("forward: more than three tensors")
    image = "torch.randn(BATCH, DIM, HEIGHT, WIDTH)"
    tokens = "torch.randn(BATCH, LENGTH, DIM)"
    shapes = [tokens, image] if not re.search(r"2d\b|interpolate|pixel", source) else [image, tokens]
    if re.search(r"1d\b", source):
        shapes.insert(0, "torch.randn(BATCH, DIM, LENGTH)")
    if re.search(r"3d\b", source):
        shapes.insert(0, "torch.randn(BATCH, DIM, 4, HEIGHT, WIDTH)")
    shapes += [
        "torch.randn(BATCH, HEIGHT, WIDTH, DIM)",
        "torch.randn(BATCH, DIM)",
        "torch.randn(BATCH, DIM, LENGTH)",
    ]
    shapes += ["torch.randn(BATCH, 3, HEIGHT, WIDTH)", "torch.randn(BATCH, 4, LENGTH, 8)"]
    shapes.append("torch.randint(0, 16, (BATCH, LENGTH))")
    for shape in dict.fromkeys(shapes):
        yield ", ".join([shape] * len(required))


def _config(init: ast.FunctionDef, name: str) -> str:
    """A class with every attribute of the config that the constructor reads; sizes are its arguments."""
    found: dict[str, str] = {}
    for node in ast.walk(init):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            found[node.attr] = _CONFIG.get(node.attr) or value(node.attr, _typed(node.attr))
        elif isinstance(node, ast.Call) and any(isinstance(a, ast.Name) and a.id == name for a in node.args):
            raise Skip("constructor: hands its config on")
    if not found:
        return "class Config:\n    pass"
    sizes = [size for size in FULL if any(re.search(rf"\b{size}\b", text) for text in found.values())]
    taken = ", ".join(["self", *(size.lower() for size in sizes)])
    lines = [f"        self.{key} = {_lowered(text, sizes)}" for key, text in found.items()]
    return "\n".join(["class Config:", f"    def __init__({taken}):", *lines])


def _lowered(text: str, sizes: Iterable[str]) -> str:
    """Constants as the arguments of the same name."""
    for size in sizes:
        text = re.sub(rf"\b{size}\b", size.lower(), text)
    return text


def _typed(name: str) -> str:
    if re.search(r"eps|drop|prob|alpha|beta|theta|momentum|scal", name):
        return "float"
    return "bool" if re.search(r"^use_|^is_|bias|_bias$|^do_", name) else "int"


def _hint(argument: ast.arg) -> str:
    return ast.unparse(argument.annotation).strip("'\"") if argument.annotation else ""
