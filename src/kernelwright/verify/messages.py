"""What the judge asks of the processes that play tapes, as types: what travels is a dictionary of the same names.

A message is made here and read here, so that a key that one side forgets is an error and no silent default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

HALF_SUMS = "float16 sums"
"""Among the units of arithmetic that a call used: products that are summed in half precision."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One interpreted call, on inputs that come along."""

    key: str
    """Which shape."""
    call: int = -1
    """Which of its calls; -1 for the steady one."""
    ablate: bool = False
    """Kernels do nothing."""
    races: bool = False
    """Program instances run in reverse order, and are watched."""
    after: Sequence[int | str] = ()
    """Inputs (by index) and weights (by name) that the reference changes: restored before, and handed out after."""
    copies: Sequence[int] = ()
    """Numbers of copies of the call: what they made is handed out as well."""
    marks: bool = False
    """Which elements of the outputs kernels made is handed out last."""
    enlarged: bool = False
    """With the constants that the kernels have at full size, which was planned before."""
    believing: bool = False
    """False hints to the compiler are taken at their word."""
    brackets: int = 0
    """Draws how reductions are bracketed: equal ones bracket alike."""
    configuration: int = 0
    """Of those that autotuning may choose among, how many places after the one that the model prices lowest."""

    def body(self) -> dict[str, Any]:
        """As it travels."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"command": "run", **found, "after": list(self.after), "copies": list(self.copies)}

    @staticmethod
    def read(body: dict[str, Any]) -> Run:
        """Raises KeyError for what lacks a field."""
        return Run(**{field.name: body[field.name] for field in dataclasses.fields(Run)})
