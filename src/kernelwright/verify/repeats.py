"""A keyed hash that maps each index of a long axis to one of a few base indices.

Periodic inputs hide an access that is off by a multiple of the period. With a hash to n base indices, any two indices
hold the same base index with probability 1/n, whatever their distance.

This holds for single pairs only: to find an error with near certainty, check several indices.
"""

from __future__ import annotations

import dataclasses
import random

import numpy as np


@dataclasses.dataclass(frozen=True)
class Repeats:
    """The hash of one axis, the same for axes that belong together, and secret from candidates."""

    count: int
    """Number of base indices."""
    first: int
    """A random odd factor of 64 bits."""
    second: int
    """A random odd factor of 32 bits."""

    @staticmethod
    def drawn(count: int, dice: random.Random) -> Repeats:
        return Repeats(count, dice.getrandbits(64) | 1, dice.getrandbits(32) | 1)

    def __call__(self, indices: np.ndarray) -> np.ndarray:
        """The base index (uint32) of each index. Multiply-shift hashing, with a fold between, since otherwise equal distances
        would stay equal."""
        mixed = (indices.astype(np.uint64) * np.uint64(self.first) >> np.uint64(32)).astype(np.uint32)
        mixed ^= mixed >> np.uint32(15)
        mixed *= np.uint32(self.second)
        found: np.ndarray = (mixed >> np.uint32(16)) * np.uint32(self.count) >> np.uint32(16)
        return found
