"""What the judge asks of the processes that play tapes, as types: what travels is a dictionary of the same names.

A message is made here and read here, so that a key that one side forgets is an error and no silent default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypedDict

TINY = 16
"""Weights of at most so many elements are shown to the host process: kernels take them as scalars."""
ROUNDS = "several rounds"
"""As what is decided in a line: of a loop, at full size more than at any size where values are checked. No reason to doubt by itself."""
ROUNDED = "whole numbers lose digits as floats"
"""Likewise, of a line at full size: a place that is counted so may be off by one there."""
WHOLE_SIZE = "full, whole"
"""Names the full size as a shape set, where all of it is interpreted."""
HALF_SUMS = "float16 sums"
"""Among the units of arithmetic that a call used: products that are summed in half precision."""


class Gradients(TypedDict):
    """Which gradients are asked of a candidate."""

    parameters: list[str]
    """Names of those that learn."""
    positions: list[int]
    """Of the outputs that have one."""


OF_STORAGE = "storage "
"""Begins the name, in place of an argument's, of memory whose address a kernel loads; its number on the tape follows."""
LOADED = "loaded "
"""Begins the name of an amount of bytes that are read of an argument."""


class Launched(TypedDict):
    """What a device says of a launch, as far as the judge reads it (`interpret.device.describe`)."""

    kernel: str
    work: WorkSeen
    written: dict[str, float]
    """By argument: bytes that plain stores write at least once."""
    readers: dict[str, float]
    """By argument: how many program instances read what any does."""
    waits: bool
    """Whether the kernel has a loop in which a program could wait for another."""
    guessed: bool
    """Whether what programs do may hang on loaded numbers that nobody knows where they are modelled."""
    waited: bool
    """Whether a program that is modelled came to an end only where something it asks for again and again was there."""


class WorkSeen(TypedDict):
    """Of a program instance, but for `programs` (`cost.model.Work`)."""

    programs: int
    flops: dict[str, float]
    unique_bytes: dict[str, float]
    sizes: dict[str, int]
    loaded_bytes: dict[str, float]
    stored_bytes: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Building:
    """How a candidate is built and called for one shape set; its arguments and the reference's weights come along."""

    seed: int
    """Of its weights."""
    calls: int
    values: bool
    """Whether weights are drawn. Without, a tape can be priced and not run."""
    affine: bool
    """Whether weights are varied, as the reference's were (`trace/affine.py`)."""
    cast: str
    """What weights were cast to; empty for nothing."""
    gradients: Gradients | None
    """A call is a forward and a backward pass, as `ShapeCases` has them; None: a forward pass."""
    evaluating: bool = False
    """In evaluation mode."""
    second: bool = False
    """After another module of its kind, with other weights, was built and called."""
    copied: bool = False
    """A copy of the module that was built, where that can be copied, with parameters that were replaced by equal ones, after many
    others were built; inputs begin later in their memory."""
    beside: Any = None
    """Inputs of another size, cotangents among them, `describe`d: for passes that come between a forward pass and its backward
    pass; None for some of the same size."""
    optimised: bool = False
    """As `python -OO` has it: without assertions and docstrings."""
    names: Sequence[str] = ()
    """What the reference calls its inputs, in their order; empty where nobody asks for them by name."""
    tied: Sequence[Sequence[str]] = ()
    """Names that are one parameter of the reference, group by group."""
    renumbered: Sequence[Any] = ()
    """Inputs, `describe`d, of which one number of Python's is another: for calls before all others, which may raise."""
    left: Sequence[str] = ()
    """What the reference itself leaves changed (`held.py`), by kind."""
    ways: Sequence[str] = ()
    """Other ways to call it (`trace/ways.py`), a call each, from the second on; those that it raises in are `refused`."""

    def body(self) -> dict[str, Any]:
        """As it travels."""
        found = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        lists = {name: list(found[name]) for name in ("names", "tied", "renumbered", "left", "ways")}
        return {"command": "trace", **found, **lists}

    @staticmethod
    def read(body: dict[str, Any]) -> Building:
        """Raises KeyError for what lacks a field."""
        return Building(**{field.name: body[field.name] for field in dataclasses.fields(Building)})


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
    met: bool = False
    """What was launched and decided wherever values were checked is handed out; where it is `enlarged`, what was so there."""
    believing: bool = False
    """False hints to the compiler are taken at their word."""
    brackets: int = 0
    """Draws how reductions are bracketed: equal ones bracket alike."""
    configuration: int = 0
    """Of those that autotuning may choose among, how many places after the one that the model prices lowest."""
    tuning: bool = False
    """The first call, in which configurations are tried."""
    measured: int = 0
    """Of each launch, how many programs are looked at for what they do: launches are handed out as they are where they are modelled,
    and which share of each input is read."""

    def body(self) -> dict[str, Any]:
        """As it travels."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"command": "run", **found, "after": list(self.after), "copies": list(self.copies)}

    @staticmethod
    def read(body: dict[str, Any]) -> Run:
        """Raises KeyError for what lacks a field."""
        return Run(**{field.name: body[field.name] for field in dataclasses.fields(Run)})
