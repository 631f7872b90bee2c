"""Types of the judge's messages to worker processes, which are sent as dictionaries with the same keys.

Messages are written and read here only, so a missing key is an error and not a silent default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypedDict

IN_A_KERNEL = "in a kernel: "
"""Begins the message of an exception that a kernel raises in the interpreter and no compiler: it does not refuse, it is wrong
there."""
TINY = 16
"""The host process sees the values of weights with at most this many elements, since kernels take them as scalars."""
ROUNDS = "several rounds"
"""Recorded as the decision of a loop's line that runs more rounds at full size than at any checked size; no reason to reject by
itself."""
ROUNDED = "whole numbers lose digits as floats"
"""Recorded for a line at full size that computes whole numbers in floats too narrow for them: an index may be off by one."""
WHOLE_SIZE = "full, whole"
"""Name of the full size as a shape set, if all of it is interpreted."""
HALF_SUMS = "float16 sums"
"""A unit of arithmetic that a call used: products accumulated in half precision."""


class Gradients(TypedDict):
    """Which gradients we ask of a candidate."""

    parameters: list[str]
    """Names of the parameters that require gradients."""
    positions: list[int]
    """Flat indices of the outputs that have a cotangent."""


OF_STORAGE = "storage "
"""Prefix that names memory whose address a kernel loads, in place of an argument's name; the storage number follows."""
LOADED = "loaded "
"""Prefix that names the bytes read from an argument."""


class Launched(TypedDict):
    """A device process's report on a launch, as far as the judge reads it (`interpret.device.describe`)."""

    kernel: str
    work: WorkSeen
    written: dict[str, float]
    """Argument -> bytes that plain stores write at least once."""
    readers: dict[str, float]
    """Argument -> number of program instances that read each byte read."""
    waits: bool
    """Whether the kernel has a loop in which a program could wait for another."""
    guessed: bool
    """Whether programs' actions may depend on loaded values, which the model does not know."""
    waited: bool
    """Whether a modelled program ended only once a value that it kept polling for was supplied."""


class WorkSeen(TypedDict):
    """Work per program instance, except `programs` (see `cost.model.Work`)."""

    programs: int
    flops: dict[str, float]
    unique_bytes: dict[str, float]
    sizes: dict[str, int]
    loaded_bytes: dict[str, float]
    stored_bytes: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Building:
    """How to build and call a candidate for one shape set; arguments and the reference's weights are sent along."""

    seed: int
    """Seed of its weights."""
    calls: int
    values: bool
    """Whether to draw weights. Without them, a tape can be priced but not run."""
    affine: bool
    """Whether weights are varied, as the reference's were (`trace/affine.py`)."""
    cast: str
    """Dtype that weights are cast to; empty for none."""
    gradients: Gradients | None
    """If given, a call is a forward and a backward pass, as in `ShapeCases`; if None, a forward pass."""
    evaluating: bool = False
    """Call it in evaluation mode."""
    second: bool = False
    """First build and call another module of its class, with other weights."""
    copied: bool = False
    """Build many other modules first; then call a copy of the module, if it can be copied, with parameters replaced by equal ones
    and inputs that begin later in their memory."""
    beside: Any = None
    """Inputs of another size (`describe`d), with cotangents, for passes between a forward pass and its backward pass; None: the
    same size."""
    optimised: bool = False
    """Run as under `python -OO`, without assertions and docstrings."""
    otherwise: Sequence[str] = ()
    """Questions that are answered otherwise (`trace/questions.py`) while the file is loaded and the module built and called."""
    names: Sequence[str] = ()
    """The reference's names of its inputs, in order; empty if they are not to be passed by name."""
    tied: Sequence[Sequence[str]] = ()
    """Groups of names that are one parameter of the reference."""
    renumbered: Sequence[Any] = ()
    """Inputs (`describe`d) with one Python number changed, for calls before all others; these may raise."""
    left: Sequence[str] = ()
    """Kinds of changes that the reference itself makes (`held.py`)."""
    ways: Sequence[str] = ()
    """Other ways to call it (`trace/ways.py`), one call each, from the second on; ways in which it raises are `refused`."""

    def body(self) -> dict[str, Any]:
        """The message as a dictionary."""
        found = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        lists = {
            name: list(found[name]) for name in ("otherwise", "names", "tied", "renumbered", "left", "ways")
        }
        return {"command": "trace", **found, **lists}

    @staticmethod
    def read(body: dict[str, Any]) -> Building:
        """Raises KeyError if a field is missing."""
        return Building(**{field.name: body[field.name] for field in dataclasses.fields(Building)})


@dataclasses.dataclass(frozen=True)
class Run:
    """One interpreted call; its inputs are sent along."""

    key: str
    """The shape's key."""
    call: int = -1
    """Index of the call; -1 for the steady one."""
    ablate: bool = False
    """Let kernels do nothing."""
    races: bool = False
    """Run program instances in reverse order and check for races."""
    switching: int = 0
    """With `races`: interrupt instances after their first atomic operation (1), or after a drawn half of them (2)."""
    after: Sequence[int | str] = ()
    """Inputs (by index) and weights (by name) that the reference changes: restored before the call, returned after it."""
    copies: Sequence[int] = ()
    """Places on the tape of copies whose results are returned, too."""
    marks: bool = False
    """Also return, last, which elements of the outputs kernels wrote."""
    enlarged: bool = False
    """Give kernels the constants that they have at full size, which must have been planned before."""
    met: bool = False
    """Return what was launched and decided in all checked calls; with `enlarged`, in the enlarged ones."""
    believing: bool = False
    """Let false hints to the compiler take effect."""
    following: bool = False
    """With `races`: follow single numbers that a program loads and stores with no barrier between."""
    rounding: bool = False
    """Round factors in sums of products to TF32, as the compiler was seen to do."""
    brackets: int = 0
    """Seed of the order in which reductions add; equal seeds give the same order."""
    configuration: int = 0
    """Which autotuning configuration to use: its rank after the one that the cost model prices lowest."""
    tuning: bool = False
    """Run as the first call, in which autotuning tries configurations."""
    measured: int = 0
    """Number of programs to measure in each launch. The answer then has `launches`, as when modelled, and the share of each input read."""

    def body(self) -> dict[str, Any]:
        """The message as a dictionary."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"command": "run", **found, "after": list(self.after), "copies": list(self.copies)}

    @staticmethod
    def read(body: dict[str, Any]) -> Run:
        """Raises KeyError if a field is missing."""
        return Run(**{field.name: body[field.name] for field in dataclasses.fields(Run)})
