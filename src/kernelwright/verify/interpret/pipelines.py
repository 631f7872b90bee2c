"""Loops whose loads are fetched ahead: `tl.range(..., num_stages=n)` lets the compiler issue a load up to n - 1 rounds early.

It minds no store on the way. A round that loads what the loop has stored less than n rounds before may find what was there
earlier. Loops with a barrier or another loop in them are not pipelined, nor loads of single numbers, nor narrow ones.

Not looked at: loads that feed a product in a loop without a number of its own, which the launch's `num_stages` pipelines.
"""

from __future__ import annotations

import numpy as np

from kernelwright.verify.interpret.memory import spread
from kernelwright.verify.interpret.races import Race

_NARROWEST = 512
"""Bytes of a block that each of 128 threads takes 4 bytes of: less is not copied ahead."""


class Pipeline:
    """One such loop of the instance that is running."""

    def __init__(self, stages: int) -> None:
        self.stages, self.whole, self._round = stages, True, 0
        self._stored: list[tuple[int, np.ndarray]] = []
        """Addresses, by the round in which they were stored to."""
        self._met = False

    def start_round(self) -> None:
        """The next round begins."""
        self._round += 1
        self._stored = [one for one in self._stored if self._round - one[0] < self.stages]

    def store(self, pointers: np.ndarray, mask: np.ndarray) -> None:
        """A plain store."""
        self._stored.append((self._round, pointers[spread(mask, pointers.shape)]))

    def load(self, pointers: np.ndarray, mask: np.ndarray, itemsize: int) -> None:
        """A plain load."""
        if not self._stored or pointers.size * itemsize < _NARROWEST:
            return
        addresses = pointers[spread(mask, pointers.shape)]
        self._met |= any(bool(np.isin(addresses, stored).any()) for _, stored in self._stored)

    def end(self) -> None:
        """After the last round. Raises Race."""
        if self._met and self.whole:
            raise Race(
                f"a loop with num_stages={self.stages} loads what it stored less than {self.stages} rounds before: loads are "
                "fetched ahead of stores"
            )
