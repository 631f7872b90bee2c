"""Values of a kernel called as the lowered reference calls them: `h3 = h2 + acc` where that says `h3 = add(h2, h1)`.

A small model that writes `acc = acc + acc` line after line has to remember how far it has come, and which of the earlier
values a step meant; it writes one step twice, or none of two alike. With a name of its own a step stands beside the line
that it answers, in both texts, and an earlier value can still be named.

The library marks the lines that are a reference's steps; here the marks become names. What they mean stays what it was:
a step gets a name in place of its variable, and so does what reads it until that variable is written again.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kernelwright.data.operators import POINTWISE, ROWS
from kernelwright.parsing import words
from kernelwright.records import Task
from kernelwright.tasks import lowered

_MARK = "  #= "
_STEP = re.compile(r"^(\s*)(\w+) = (.+)  #= (\S*):(\w+)$")
_WRITTEN = re.compile(r"^\s*(\w+) ([-+*/]?=) ")
_LINE = re.compile(r"^(h\d+) = (\w+)\((.*)\) -> ", re.MULTILINE)
KEPT = "kept"
"""Marks a line that keeps a value for later under another name."""


def marked(line: str, tag: str, operator: str) -> str:
    """A line of a kernel, `NAME = EXPRESSION`, that does the step `tag`, an operator of `operators.POINTWISE` or ROWS."""
    return f"{line}{_MARK}{tag}:{operator}"


def plain(code: str) -> str:
    """`code` without marks."""
    return re.sub(r"  #= \S*$", "", code, flags=re.MULTILINE)


def numbered(code: str, reference: str) -> str:
    """Marked `code` with the steps called as in `reference`, a lowered one; without names of that kind, but also without
    marks, where the two do not go together."""
    names = _names(code, reference) if _MARK in code else None
    if names is None or not words(code).isdisjoint(names.values()):
        return plain(code)
    try:
        return _written(code, names)
    except _Mixed:
        return plain(code)


class _Line(NamedTuple):
    """An operator of a lowered reference."""

    value: str
    operator: str
    arguments: str


class _Mixed(Exception):
    """A variable means a step and something else at once."""


def _steps(reference: str) -> list[_Line]:
    """The lines of the forward but for those that only turn a weight or an input."""
    every = [_Line(*found) for found in _LINE.findall(reference)]
    return [one for one in every if one.operator != "reshape" or re.match(r"h\d", one.arguments)]


def _names(code: str, reference: str) -> dict[str, str] | None:
    """The value of each marked step, by its tag. None where the steps are not found one after the other."""
    lines, at, chain = _steps(reference), 0, ""
    attributes = {name for line in lines for name in re.findall(r"\bself\.(\w+)(?!\.)\b", line.arguments)}
    found: dict[str, str] = {}
    for _, _, expression, tag, operator in _marks(code):
        if tag in found or operator == KEPT:
            continue
        meant = [f"self.{name}" for name in re.findall(r"(?<![.\w])\w+", expression) if name in attributes]
        before, chain = chain, tag.rpartition(".")[0]
        places = range(at, at + 1 if chain == before else len(lines))
        place = next((end for start in places if (end := _end(lines, start, operator, meant))), 0)
        if not place:
            return None
        found[tag], at = lines[place - 1].value, place
    return found


def _marks(code: str) -> Iterable[tuple[str, ...]]:
    return (step.groups() for line in code.splitlines() if (step := _STEP.match(line)))


def _end(lines: Sequence[_Line], start: int, operator: str, meant: Sequence[str]) -> int:
    """The place after the lines from `start` that spell the operator with those attributes, or 0."""
    for spelled in _spelled(operator):
        part = lines[start : start + len(spelled)]
        if tuple(one.operator for one in part) == spelled and all(
            any(re.search(rf"{re.escape(name)}\b", one.arguments) for one in part) for name in meant
        ):
            return start + len(spelled)
    return 0


@functools.cache
def _spelled(operator: str) -> tuple[tuple[str, ...], ...]:
    """What the spellings of an operator are when they are lowered, the longest first."""
    known = POINTWISE.get(operator) or ROWS[operator]
    found = set()
    for spelling in (*known.spellings, *[f"{known.module}({{x}})"] * bool(known.module)):
        expression = spelling.format(x="x", y="y", c=0.375, d=0.75)
        source = (
            "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
            f"class Model(nn.Module):\n    def forward(self, x, y):\n        return {expression}\n"
            "def get_inputs():\n    return [torch.rand(4), torch.rand(4)]\ndef get_init_inputs():\n    return []\n"
        )
        found.add(tuple(one.operator for one in _steps(lowered(Task(id="spelled", source=source)))))
    return tuple(sorted(found - {()}, key=len, reverse=True))


def _written(code: str, names: dict[str, str]) -> str:
    """`code` with its steps under their names. Raises _Mixed."""
    current: dict[str, str] = {}
    """What a variable is called now, in the kernel at hand."""
    found = []

    def called(text: str) -> str:
        return (
            re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda at: current.get(at[0], at[0]), text) if current else text
        )

    for line in code.split("\n"):
        if line.startswith(("def ", "class ", "@")):
            current = {}
        step = _STEP.match(line)
        if step is not None and step[5] == KEPT:
            current[step[2]] = called(step[3])
            continue
        if step is not None:
            indent, value, expression, tag, _ = step.groups()
            found.append(f"{indent}{names[tag]} = {called(expression)}")
            current[value] = names[tag]
            continue
        write = _WRITTEN.match(line)
        if write is None or write[1] not in current:
            found.append(called(line))
        elif write[2] == "=":
            head, _, expression = line.partition(" = ")
            found.append(f"{head} = {called(expression)}")
            del current[write[1]]
        else:
            raise _Mixed
    return "\n".join(found)
