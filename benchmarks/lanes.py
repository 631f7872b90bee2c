"""Whether two correct candidates differ only in lanes that never reach a result.

The interpreter plays both tapes. At every small size all outputs must agree bit for bit, on every
distribution. There and at all other sizes, in the corners of every grid and in random instances, each access
of the second must cover that of the first: the same address in every unmasked lane of the first, and for a
store no further lane. This distinguishes a mask that another condition makes redundant, or padding that cancels out, from one
that the judged sizes do not exercise.

Not a proof: where masks depend on data, other data may still distinguish the two. Runs accepted kernels
in this process: use it for bugs planted in trusted modules, not for a policy's candidates.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelwright.hardware import Target
from kernelwright.verify.cost import model as cost
from kernelwright.verify.interpret.device import InterpretDevice, summarise
from kernelwright.verify.interpret.interpreter import Engine, TracedLaunch
from kernelwright.verify.messages import Run
from kernelwright.verify.sandbox import channel
from kernelwright.verify.sandbox.service import Failure
from kernelwright.verify.structures import flatten
from kernelwright.verify.traced import Trace

if TYPE_CHECKING:
    import torch

_DRAWN = 16
"""Random instances of a launch to check besides the corners of its grid."""


@dataclasses.dataclass(frozen=True)
class Tapes:
    """Traces recorded in the verification of one candidate."""

    small: Sequence[Trace]
    """One for each of the judge's small shapes."""
    large: Sequence[Trace]
    """One for each other set of sizes; these traces have no data."""


@dataclasses.dataclass(frozen=True)
class _Access:
    what: str
    pointers: np.ndarray
    mask: np.ndarray

    def covers(self, other: _Access) -> bool:
        """Whether this reaches everything that `other` does, and stores nowhere else."""
        if (self.what, self.pointers.shape) != (other.what, other.pointers.shape):
            return False
        if self.what == "read":
            fits = bool((self.mask | ~other.mask).all())
        else:
            fits = np.array_equal(self.mask, other.mask)
        return fits and bool((self.pointers == other.pointers)[other.mask].all())


class _Witness(Engine):
    """Records every access; models the corners of a grid first."""

    def __init__(self, price: Callable[[TracedLaunch], float]) -> None:
        super().__init__(price)
        self.accesses: list[_Access] = []
        self.watching = False

    def _touch(self, pointers: np.ndarray, mask: np.ndarray, itemsize: int, what: str) -> Any:
        if self.watching and not self.benching:
            spread = np.array(np.broadcast_to(mask, pointers.shape), dtype=bool)
            self.accesses.append(_Access(what, pointers.copy(), spread))
        return super()._touch(pointers, mask, itemsize, what)

    def _drawn(self, grid: tuple[int, ...], count: int) -> list[int]:
        corners = {
            x + grid[0] * (y + grid[1] * z)
            for x, y, z in itertools.product(*({0, 1 % extent, extent - 1} for extent in grid))
        }
        return [*sorted(corners), *super()._drawn(grid, min(_DRAWN, math.prod(grid)))]


class _Player(InterpretDevice):
    """A device in this process, for kernels that have already been compiled."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.witness = _Witness(lambda launch: cost.price(summarise(launch), target).ms)
        self.engine = self.witness

    def _compiles(self, launches: list[TracedLaunch]) -> None:
        return

    def answer(
        self, body: dict[str, Any], tensors: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> dict[str, Any]:
        """Answer as the device does, then uninstall the interpreter for the other player."""
        try:
            return super().answer(body, tensors, outputs)
        finally:
            self.engine.uninstall()

    def play(self, shape: Any, trace: Trace) -> tuple[list[bytes], list[_Access]]:
        """The outputs of every case of one shape, and the accesses of the first."""
        tensors = list(trace.blobs)
        state = {name: value for name, value in shape.state.items() if name in trace.traced.state}
        encoded = channel.encode(state, tensors)
        self.answer(
            {"command": "open", "key": shape.name, "trace": trace.answer, "state": encoded}, tensors, []
        )
        found: list[bytes] = []
        accesses: list[_Access] = []
        for number, case in enumerate(shape.cases):
            for call in (*(trace.warm_up() if number == 0 else ()), -1):
                outputs: list[torch.Tensor] = []
                self.witness.accesses, self.witness.watching = [], number == 0
                self.answer(Run(shape.name, call).body(), flatten(case.inputs), outputs)
                found += [channel.tensor_bytes(tensor) for tensor in outputs]
                accesses += self.witness.accesses
        return found, accesses

    def model_once(self, trace: Trace) -> list[_Access]:
        """The accesses at full size. Seeded, so that both players sample the same instances."""
        self.witness.accesses, self.witness.watching = [], True
        self.witness.dice.seed(0)
        self.answer({"command": "model", "trace": trace.answer, "compile": "", "samples": 1}, [], [])
        return self.witness.accesses


def alike(target: Target, shapes: Sequence[object], one: Tapes, two: Tapes) -> bool:
    """Whether candidate `two` does all that `one` does and nothing else that is visible; both were accepted at `shapes`."""
    first, second = _Player(target), _Player(target)
    try:
        # Extra shapes follow for sizes that only one of them may name, hence no strict zip.
        for shape, here, there in zip(shapes, one.small, two.small, strict=False):
            if not _same_launches(here, there):
                return False
            values, accesses = first.play(shape, here)
            others, theirs = second.play(shape, there)
            if values != others or not _covered(accesses, theirs):
                return False
        return bool(one.large) and all(
            _same_launches(here, there) and _covered(first.model_once(here), second.model_once(there))
            for here, there in zip(one.large, two.large, strict=True)
        )
    except Failure:
        return False


def _same_launches(one: Trace, two: Trace) -> bool:
    grids = [[launch.grid for launch in trace.tape.launches()] for trace in (one, two)]
    return grids[0] == grids[1]


def _covered(first: list[_Access], second: list[_Access]) -> bool:
    return len(first) == len(second) and all(b.covers(a) for a, b in zip(first, second, strict=True))
