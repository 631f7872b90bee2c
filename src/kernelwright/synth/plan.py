"""The grammar of plans: a schedule's decisions on one line, parsed back to the same record.

    g1: linear+gelu  tile 128x256x64  order grouped(8)  stages 4  warps 8  loads descriptor  persistent yes

Fields are separated by two spaces, a name and its value by one. All decisions of the nest are written, default or not, and no
others. Raises UserError for a line that is not a plan, with the legal values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter, ValidationError

from kernelwright.errors import UserError
from kernelwright.synth.program import Decisions, Schedule

_SCHEDULE: TypeAdapter[Any] = TypeAdapter(Schedule)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _tile(value: tuple[int, ...]) -> str:
    return "x".join(map(str, value))


def _read_yes(text: str) -> bool:
    return {"yes": True, "no": False}[text]


def _call_syntax(name: str) -> tuple[Callable[[Any], str], Callable[[str], int]]:
    """Writer and reader of `name(8)` for a number."""

    def read(text: str) -> int:
        head, _, rest = text.partition("(")
        if head != name or not rest.endswith(")"):
            raise ValueError(f"{name}(number)")
        return int(rest[:-1])

    return (lambda value: f"{name}({value})"), read


_FORMS: dict[str, tuple[str, Callable[[Any], str], Callable[[str], Any]]] = {
    **{name: (name, _tile, lambda text: tuple(map(int, text.split("x")))) for name in ("tile", "box")},
    "group": ("order", *_call_syntax("grouped")),
    "persistent": ("persistent", _yes, _read_yes),
    "flat": ("flat", _yes, _read_yes),
    "split_k": ("contraction", *_call_syntax("split")),
    "split": ("row", *_call_syntax("split")),
    "epilogue": ("epilogue", *_call_syntax("split")),
    **{name: (name, str, int) for name in ("stages", "warps", "rows", "block", "products")},
    **{
        name: (name, str, str)
        for name in ("nest", "passes", "algorithm", "layout", "loads", "first", "precision")
    },
}
_FIELDS = {written: field for field, (written, _, _) in _FORMS.items()}


def print_plan(label: str, schedule: Decisions) -> str:
    """The plan on one line. `label` names the operators, joined by `+`."""
    fields = [f"g1: {label}"]
    for name in type(schedule).model_fields:
        written, show, _ = _FORMS[name]
        fields.append(f"{written} {show(getattr(schedule, name))}")
    return "  ".join(fields)


def parse_plan(line: str) -> tuple[str, Any]:
    """(label, schedule) of a line. Raises UserError."""
    head, *fields = line.strip().split("  ")
    group, _, label = head.partition(": ")
    if not group.startswith("g") or not group[1:].isdigit() or not label:
        raise UserError(f"a plan starts with 'g1: operators', not {head[:40]!r}")
    found: dict[str, Any] = {}
    for field in fields:
        name, _, text = field.partition(" ")
        if name not in _FIELDS:
            raise UserError(f"a plan has no decision {name!r}: choose from {', '.join(_FIELDS)}")
        try:
            found[_FIELDS[name]] = _FORMS[_FIELDS[name]][2](text)
        except (ValueError, KeyError):
            raise UserError(f"{text!r} is not a value of {name}") from None
    try:
        return label, _SCHEDULE.validate_python(found)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"][1:])) or "plan"
        raise UserError(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None
