"""Loops whose loads are fetched ahead: `tl.range(..., num_stages=n)` lets the compiler issue a load up to n - 1 rounds early.

It ignores stores on the way, so a round that loads what the loop stored less than n rounds before may find older data.
Not pipelined: loops with a barrier or an inner loop, loads of single numbers, narrow loads. In a loop without `num_stages`
of its own the launch's counts, and only loads that a product takes are fetched ahead.

Not tracked: what such a load becomes on its way to a product, except a transposition.
"""

from __future__ import annotations

import numpy as np

from kernelwright.verify.interpret.memory import spread
from kernelwright.verify.interpret.races import Race

_NARROWEST = 512
"""Smallest block (bytes) that is copied ahead: 4 bytes for each of 128 threads."""


class Pipeline:
    """One such loop of the running instance; `all` loads are fetched ahead, or only those that a product takes."""

    def __init__(self, stages: int, all: bool = True) -> None:
        self.stages, self.whole, self._all, self._round = stages, True, all, 0
        self._stored: list[tuple[int, np.ndarray]] = []
        """(round, addresses stored to in it)."""
        self._met = False
        self._early: list[np.ndarray] = []
        """Blocks loaded in this round from places stored to before; fetched ahead only if a product takes them."""

    def start_round(self) -> None:
        """Begin the next round."""
        self._round += 1
        self._early.clear()
        self._stored = [one for one in self._stored if self._round - one[0] < self.stages]

    def store(self, pointers: np.ndarray, mask: np.ndarray) -> None:
        """Record a plain store."""
        self._stored.append((self._round, pointers[spread(mask, pointers.shape)]))

    def load(self, pointers: np.ndarray, mask: np.ndarray, found: np.ndarray) -> None:
        """Record a plain load and what it found."""
        if not self._stored or pointers.size * found.itemsize < _NARROWEST:
            return
        addresses = pointers[spread(mask, pointers.shape)]
        if any(bool(np.isin(addresses, stored).any()) for _, stored in self._stored):
            self._met |= self._all
            self._early.append(found)

    def multiply(self, *operands: np.ndarray) -> None:
        """Record a product of blocks."""
        for block in self._early:
            self._met |= any(
                np.array_equal(one, operand)
                for operand in operands
                for one in (block, np.swapaxes(block, -1, -2))
            )

    def end(self) -> None:
        """Called after the last round. Raises Race."""
        if self._met and self.whole:
            raise Race(
                f"a loop with num_stages={self.stages} loads what it stored less than {self.stages} rounds before: loads are "
                "fetched ahead of stores"
            )
