"""Elementwise ATen operators as Triton expressions with torch's semantics, one per row of `pointwise.tsv`.

Floats are computed in float32 (float64 if the graph has it) and rounded when stored; integers and booleans are exact. Operands
are names or literals, so a template may repeat them. NaN payloads are not preserved.
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

    kind: `float` converts integers to float first, `same` computes in the result's type, `compare` in the type to which the
    operands promote (with a boolean result), `logical` on truth values.
    """

    template: str
    kind: Kind = "same"
    integer: str = ""
    """The template for integers, if different."""
    defaults: tuple[float | int | str | bool | None, ...] = ()
    """Defaults of optional operands, from the last backwards."""

    @functools.cached_property
    def operands(self) -> int:
        return 1 + max(map(int, re.findall(r"{(\d)}", self.template)))


def _parse_line(line: str) -> tuple[str, Rule]:
    """(operator, rule) from a line of `pointwise.tsv`: name, kind, defaults, template, template for integers."""
    name, kind, defaults, template, *integer = line.split("\t")
    return name, Rule(template, cast(Kind, kind), "".join(integer), tuple(json.loads(defaults or "[]")))


RULES = dict(
    _parse_line(line)
    for line in Path(__file__).with_suffix(".tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
)
