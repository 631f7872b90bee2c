"""Elementwise ATen operators as Triton expressions: one row an operator, with torch's semantics, in `pointwise.tsv`.

Floats are calculated in float32 (float64 where the graph has it) and rounded where they are stored; integers and booleans
are exact. Operands arrive as names or literals, so a template may repeat them. Does not guarantee NaN payloads.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from pathlib import Path
from typing import Literal, cast

Kind = Literal["float", "same", "compare", "logical"]


@dataclasses.dataclass(frozen=True)
class Rule:
    """`template` with `{0}`, `{1}` ... for operands.

    kind: `float` converts integers to float first, `same` calculates in the result's type, `compare` in the type to which
    the operands promote (the result is boolean), `logical` on truth values.
    """

    template: str
    kind: Kind = "same"
    integer: str = ""
    """The template for integers, where it differs."""
    defaults: tuple[float | int | str | bool | None, ...] = ()
    """Of operands that a call may leave out, from the last backwards."""

    @functools.cached_property
    def operands(self) -> int:
        return 1 + max(map(int, re.findall(r"{(\d)}", self.template)))


def _parse_line(line: str) -> tuple[str, Rule]:
    """(operator, its rule) of a line of `pointwise.tsv`: name, kind, defaults, template, template for integers."""
    name, kind, defaults, template, *integer = line.split("\t")
    return name, Rule(template, cast(Kind, kind), "".join(integer), tuple(json.loads(defaults or "[]")))


RULES = dict(
    _parse_line(line)
    for line in Path(__file__).with_suffix(".tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
)
