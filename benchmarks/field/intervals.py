"""Exact intervals of shares (Clopper and Pearson, 1934)."""

from __future__ import annotations

import math


def exact(good: int, count: int, miss: float = 0.05) -> tuple[float, float]:
    """The interval of a share, given `good` of `count`: outside it the observation has a probability below `miss / 2`."""

    def at_most(k: int, share: float) -> float:
        return math.fsum(math.comb(count, i) * share**i * (1 - share) ** (count - i) for i in range(k + 1))

    def root(above: bool) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            likely = at_most(good, middle) if above else 1.0 - at_most(good - 1, middle)
            too_far = likely > miss / 2 if above else likely < miss / 2
            low, high = (middle, high) if too_far else (low, middle)
        return low

    return (0.0 if good == 0 else root(False)), (1.0 if good == count else root(True))
