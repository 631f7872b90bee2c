"""The same example with its module's constructor in another hand: options that have their defaults given or not, as
arguments or as numbers, by position or by name; arguments with a default or without.

What the constructor makes is the same module, so what was verified stays so. Only examples whose kernel repeats the
lowered reference's constructor word for word (`data.arrangement`) are touched. A model that sees a layer with two of its
eight options in one hand cannot copy one that is written with all of them.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kernelwright.parsing import called, parse, words
from kernelwright.records import Example

_CONV = "in_channels out_channels kernel_size"
_POOL = "kernel_size stride=None padding=0"
_SIGNATURES = {
    **{f"Conv{n}d": f"{_CONV} stride=1 padding=0 dilation=1 groups=1 bias=True" for n in (1, 2, 3)},
    **{
        f"ConvTranspose{n}d": f"{_CONV} stride=1 padding=0 output_padding=0 groups=1 bias=True dilation=1"
        for n in (1, 2, 3)
    },
    **{f"MaxPool{n}d": f"{_POOL} dilation=1 return_indices=False ceil_mode=False" for n in (1, 2, 3)},
    **{f"AvgPool{n}d": f"{_POOL} ceil_mode=False count_include_pad=True" for n in (1, 2, 3)},
    **{f"BatchNorm{n}d": "num_features eps=1e-05 momentum=0.1" for n in (1, 2, 3)},
    **{f"InstanceNorm{n}d": "num_features eps=1e-05 momentum=0.1" for n in (1, 2, 3)},
    "GroupNorm": "num_groups num_channels eps=1e-05",
    "LayerNorm": "normalized_shape eps=1e-05",
    "Linear": "in_features out_features bias=True",
    "LeakyReLU": "negative_slope=0.01",
    "ELU": "alpha=1.0",
}
"""Options of torch's layers in torch's order, with their defaults."""
_TUPLES = re.compile(r"(?:Conv|ConvTranspose)([23])d")
"""Layers whose 1 and 0 may be given once a dimension."""


@dataclass
class _Argument:
    """One of the constructor's; `default` and `usual` (what torch has) are texts, None where there is none."""

    name: str
    value: Any
    default: str | None
    usual: str | None = None


@dataclass
class _Hand:
    """One constructor as it is being written anew."""

    rng: random.Random
    arguments: list[_Argument]
    taken: set[str] = field(default_factory=set)

    def find(self, name: str) -> _Argument | None:
        return next((one for one in self.arguments if one.name == name), None)


def varied(example: Example, rng: random.Random) -> Example:
    """`example` with another constructor, or itself where there is none of layers, or the verifier's words or the rest of
    the kernel name an argument."""
    found = re.search(
        r"\Aclass Model\(nn\.Module\):\n((?:    .*\n)+)(?:init: (.*)\n)?(?!class |\s)", example.task.lowered
    )
    if found is None:
        return example
    text, given = found[1].rstrip("\n"), found[2]
    shown = [one for one in (example.code, example.kernel) if one]
    if any(one.count(f"{text}\n") != 1 for one in shown):
        return example
    made = _written(text, given, shown, rng)
    if made is None or any(
        re.search(rf"\b{name}\b", example.feedback) for name in words(text) ^ words(made[0])
    ):
        return example
    new, values = made
    rest = example.task.lowered[found.end() :]
    head = f"class Model(nn.Module):\n{new}\n" + (f"init: {values}\n" if values else "")
    return example.model_copy(
        update={
            "task": example.task.model_copy(update={"lowered": head + rest}),
            "code": example.code.replace(f"{text}\n", f"{new}\n"),
            "kernel": example.kernel.replace(f"{text}\n", f"{new}\n"),
        }
    )


def _after(text: str, code: str) -> str:
    """What stands in the constructor besides."""
    return code.partition(f"{text}\n")[2].partition("\n    def ")[0]


def _expression(text: str) -> ast.expr:
    statement = parse(text).body[0]
    assert isinstance(statement, ast.Expr)
    return statement.value


def _written(text: str, given: str | None, shown: list[str], rng: random.Random) -> tuple[str, str] | None:
    """The new constructor and the values of its arguments; None where it cannot be read."""
    try:
        function = parse("class Model:\n" + text).body[0].body[0]  # type: ignore[attr-defined]
        values = ast.literal_eval(f"({given},)") if given else ()
    except (SyntaxError, ValueError, RecursionError):
        return None
    plain = function.args
    if (
        not isinstance(function, ast.FunctionDef)
        or plain.vararg
        or plain.kwarg
        or plain.kwonlyargs
        or plain.posonlyargs
    ):
        return None
    names = [one.arg for one in plain.args[1:]]
    defaults = [None] * (len(names) - len(plain.defaults)) + [ast.unparse(one) for one in plain.defaults]
    if len(values) > len(names) or any(one is None for one in defaults[len(values) :]):
        return None
    arguments = []
    for place, (name, default) in enumerate(zip(names, defaults, strict=True)):
        try:
            value = values[place] if place < len(values) else ast.literal_eval(str(default))
        except ValueError:
            return None
        arguments.append(_Argument(name, value, default))
    hand = _Hand(rng, arguments, words(text))
    layers = list(_layers(function))
    if not layers:
        return None
    used = set().union(*(words(_after(text, one)) for one in shown))
    for layer, options in layers:
        _rewrite(hand, layer, options, function, used)
    _sign(hand, function)
    body = ast.unparse(ast.fix_missing_locations(function))
    count = max((place + 1 for place, one in enumerate(hand.arguments) if _must_be_given(one)), default=0)
    return "\n".join(f"    {line}" for line in body.split("\n")), ", ".join(
        repr(one.value) for one in hand.arguments[:count]
    )


def _must_be_given(argument: _Argument) -> bool:
    return argument.default is None or repr(argument.value) != argument.default


def _layers(function: ast.FunctionDef) -> Iterator[tuple[ast.Call, dict[str, str | None]]]:
    """Calls of torch's layers whose options are all known, with those."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and called(node) in _SIGNATURES:
            options = dict(_option(one) for one in _SIGNATURES[called(node)].split())
            named = [one.arg for one in node.keywords]
            plain = not any(isinstance(one, ast.Starred) for one in node.args)
            if plain and len(node.args) <= len(options) and all(word in options for word in named):
                yield node, options


def _option(text: str) -> tuple[str, str | None]:
    name, _, default = text.partition("=")
    return name, default or None


def _rewrite(
    hand: _Hand, layer: ast.Call, options: dict[str, str | None], function: ast.FunctionDef, used: set[str]
) -> None:
    """One layer's call: more options, some of them numbers, in another form. `used` are names that have to stay."""
    rng, order = hand.rng, list(options)
    given: dict[str, ast.expr] = dict(zip(order, layer.args, strict=False))
    given |= {str(one.arg): one.value for one in layer.keywords}
    style = rng.random()
    for name in order:
        missing = name not in given and options[name] is not None
        if missing and rng.random() < (0.9 if style < 0.3 else 0.25 if style < 0.6 else 0.0):
            default = _spread(rng, called(layer), name, str(options[name]))
            fresh = name not in hand.taken
            if fresh and rng.random() < 0.85:
                given[name] = ast.Name(name, ast.Load())
                hand.taken.add(name)
                _place(hand, _Argument(name, ast.literal_eval(default), default, default), order, given)
            else:
                given[name] = _expression(default)
    inline = rng.random() < 0.2
    for name, value in given.items():
        if not isinstance(value, ast.Name):
            continue
        argument = hand.find(value.id)
        if argument is None:
            continue
        mentions = sum(isinstance(node, ast.Name) and node.id == value.id for node in ast.walk(function))
        if mentions == 1:
            argument.usual = argument.usual or options[name]
        if inline and mentions == 1 and value.id not in used and rng.random() < 0.7:
            given[name] = _expression(repr(argument.value))
            hand.arguments.remove(argument)
    layer.args, layer.keywords = _called_with(rng, order, options, given)


def _spread(rng: random.Random, layer: str, option: str, default: str) -> str:
    many = _TUPLES.fullmatch(layer)
    if many and option != "groups" and default in ("0", "1") and rng.random() < 0.3:
        return repr((int(default),) * int(many[1]))
    return default


def _place(hand: _Hand, new: _Argument, order: list[str], given: dict[str, ast.expr]) -> None:
    """Put a new argument after that of the option before it, or last."""
    for name in reversed(order[: order.index(new.name)]):
        value = given.get(name)
        before = hand.find(value.id) if isinstance(value, ast.Name) else None
        if before is not None:
            hand.arguments.insert(hand.arguments.index(before) + 1, new)
            return
    hand.arguments.append(new)


def _called_with(
    rng: random.Random, order: list[str], options: dict[str, str | None], given: dict[str, ast.expr]
) -> tuple[list[ast.expr], list[ast.keyword]]:
    """The options by position as far as one of three habits goes, then by name."""
    required = [name for name in order if options[name] is None]
    habit = rng.choices(("required", "names", "positions"), (6, 2, 2))[0]
    if len(required) == 3 and rng.random() < 0.2:
        required = required[:2]  # channels by position, kernel_size by name
    by_place: list[str] = []
    for name in order:
        if name not in given or habit == "names" or (habit == "required" and name not in required):
            break
        by_place.append(name)
    named = [ast.keyword(name, given[name]) for name in order if name in given and name not in by_place]
    return [given[name] for name in by_place], named


def _sign(hand: _Hand, function: ast.FunctionDef) -> None:
    """The signature: defaults as they were, torch's wherever an option has one, or none."""
    habit = hand.rng.choices(("as they were", "torch's", "none"), (4, 4, 2))[0]
    for one in hand.arguments:
        if habit == "torch's" and one.usual is not None:
            one.default = one.usual
        elif habit == "none":
            one.default = None
    last = max((place for place, one in enumerate(hand.arguments) if one.default is None), default=-1)
    for one in hand.arguments[:last]:
        one.default = None
    function.args.args = [function.args.args[0], *(ast.arg(one.name) for one in hand.arguments)]
    wanted = [one.default for one in hand.arguments if one.default is not None]
    function.args.defaults = [_expression(text) for text in wanted]
