"""Loops whose loads are fetched ahead: `tl.range(..., num_stages=n)` lets the compiler issue a load up to n - 1 rounds early.

It minds no store on the way. A round that loads what the loop has stored less than n rounds before may find what was there
earlier. Loops with a barrier or another loop in them are not pipelined, nor loads of single numbers, nor narrow ones. In a loop
without a number of its own the launch's `num_stages` counts, and only loads that a product takes are fetched ahead.

Not looked at: what such a load becomes on its way to a product, but for a transposition.
"""

from __future__ import annotations

import numpy as np

from kernelwright.verify.interpret.memory import spread
from kernelwright.verify.interpret.races import Race

_NARROWEST = 512
"""Bytes of a block that each of 128 threads takes 4 bytes of: less is not copied ahead."""


class Pipeline:
    """One such loop of the instance that is running; `all` of its loads are fetched ahead, or those that a product takes."""

    def __init__(self, stages: int, all: bool = True) -> None:
        self.stages, self.whole, self._all, self._round = stages, True, all, 0
        self._stored: list[tuple[int, np.ndarray]] = []
        """Addresses, by the round in which they were stored to."""
        self._met = False
        self._early: list[np.ndarray] = []
        """Blocks of this round that were stored to before, where a product must take them to be fetched ahead."""

    def start_round(self) -> None:
        """The next round begins."""
        self._round += 1
        self._early.clear()
        self._stored = [one for one in self._stored if self._round - one[0] < self.stages]

    def store(self, pointers: np.ndarray, mask: np.ndarray) -> None:
        """A plain store."""
        self._stored.append((self._round, pointers[spread(mask, pointers.shape)]))

    def load(self, pointers: np.ndarray, mask: np.ndarray, found: np.ndarray) -> None:
        """A plain load, and what it found."""
        if not self._stored or pointers.size * found.itemsize < _NARROWEST:
            return
        addresses = pointers[spread(mask, pointers.shape)]
        if any(bool(np.isin(addresses, stored).any()) for _, stored in self._stored):
            self._met |= self._all
            self._early.append(found)

    def multiply(self, *operands: np.ndarray) -> None:
        """A product of blocks."""
        for block in self._early:
            self._met |= any(
                np.array_equal(one, operand)
                for operand in operands
                for one in (block, np.swapaxes(block, -1, -2))
            )

    def end(self) -> None:
        """After the last round. Raises Race."""
        if self._met and self.whole:
            raise Race(
                f"a loop with num_stages={self.stages} loads what it stored less than {self.stages} rounds before: loads are "
                "fetched ahead of stores"
            )
