"""Which of a few base indices stands at each index of a long axis: drawn by a keyed hash.

Inputs that repeat every so many indices hide whatever takes the place of something a multiple of that away. Drawn by a
hash, two indices hold the same base index with odds of one in as many as there are, whatever lies between them.

Does not guarantee more than that of any one pair: who asks of several indices sees what one of them hides.
"""

from __future__ import annotations

import dataclasses
import random

import numpy as np


@dataclasses.dataclass(frozen=True)
class Repeats:
    """One axis. The same for all axes that go together, and kept from candidates."""

    count: int
    """Base indices."""
    first: int
    """An odd factor of 64 bits."""
    second: int
    """An odd factor of 32 bits."""

    @staticmethod
    def drawn(count: int, dice: random.Random) -> Repeats:
        return Repeats(count, dice.getrandbits(64) | 1, dice.getrandbits(32) | 1)

    def __call__(self, indices: np.ndarray) -> np.ndarray:
        """The base index at each index; unsigned, of 32 bits. Multiply and shift, with a fold between, for else equal
        distances stay equal."""
        mixed = (indices.astype(np.uint64) * np.uint64(self.first) >> np.uint64(32)).astype(np.uint32)
        mixed ^= mixed >> np.uint32(15)
        mixed *= np.uint32(self.second)
        found: np.ndarray = (mixed >> np.uint32(16)) * np.uint32(self.count) >> np.uint32(16)
        return found
