"""No distance between two indices hides what takes the other's place."""

import random

import numpy as np
import pytest

from kernelwright.verify.repeats import Repeats

INDICES = np.arange(70_000, 74_096)


@pytest.mark.parametrize("count", [2, 3, 5, 11, 47])
def test_every_base_index_stands_somewhere(count: int) -> None:
    for seed in range(20):
        found = Repeats.drawn(count, random.Random(seed))(INDICES)
        assert set(found.tolist()) == set(range(count))


@pytest.mark.parametrize("count", [3, 5, 11])
def test_no_distance_is_hidden(count: int) -> None:
    for seed in range(20):
        repeats = Repeats.drawn(count, random.Random(seed))
        for distance in (1, 3, 5, 15, 64, 105, 1024, 30_030, 1 << 20):
            alike = (repeats(INDICES) == repeats(INDICES + distance)).mean()
            assert alike < 1.5 / count + 0.15


def test_indices_beyond_32_bits_are_others() -> None:
    repeats = Repeats.drawn(5, random.Random(2))
    assert (repeats(INDICES) != repeats(INDICES + (1 << 32))).mean() > 0.5
