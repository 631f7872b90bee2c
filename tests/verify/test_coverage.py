"""What instances of a launch repeat: honest grids cover everything once, others cover some of it repeatedly."""

import dataclasses
import random

import numpy as np
import pytest

from kernelwright.verify.interpret.coverage import Coverage, Touched, farther

WIDTH = 4
BLOCK = 256


def instance(places: np.ndarray, read: np.ndarray | None = None) -> Touched:
    offsets = np.unique(places).astype(np.uint64) * WIDTH
    loads = offsets if read is None else read.astype(np.uint64) * WIDTH
    return Touched({"out": offsets}, {"x": loads}, {"x": float(loads.size * WIDTH)})


def coverage_of(programs: int, block: object, drawn: int = 4) -> Coverage:
    """Coverage of a grid with one axis, where `block` maps a program to the block it writes."""

    def touched(program: int) -> Touched:
        return instance(block(program) * BLOCK + np.arange(BLOCK))  # type: ignore[operator]

    dice, width = random.Random(3), programs // drawn
    strata = [part * width + dice.randrange(width) for part in range(drawn)]
    others = [touched((strata[0] + step) % programs) for step in (1, programs - 1)]
    return Coverage(
        (programs, 1, 1), [touched(one).written for one in strata], touched(strata[0]), {0: others}
    )


@pytest.mark.parametrize("block", [lambda p: p, lambda p: 4095 - p, lambda p: p % 64 * 64 + p // 64])
def test_who_writes_everything_once_is_believed(block: object) -> None:
    size = 4096 * BLOCK * WIDTH
    assert coverage_of(4096, block, 48).written("out", size, size, WIDTH) > 0.9 * size


@pytest.mark.parametrize(
    ("block", "most"),
    [
        (lambda p: 0, 0.01),
        (lambda p: p // 2 * 2, 0.51),
        (lambda p: p % 7, 0.01),
        (lambda p: p % 1500, 0.45),
        (lambda p: p % 2048, 0.6),
    ],
)
def test_who_writes_some_of_it_again_is_not(block: object, most: float) -> None:
    size = 4096 * BLOCK * WIDTH
    assert coverage_of(4096, block, 4).written("out", size, size, WIDTH) < size
    assert coverage_of(4096, block, 48).written("out", size, size, WIDTH) <= most * size


def test_one_place_for_all_is_one_place() -> None:
    one = coverage_of(64, lambda p: 0)
    assert one.written("out", 64 * BLOCK * WIDTH, BLOCK * WIDTH, WIDTH) == BLOCK * WIDTH


def test_places_that_depend_on_invented_numbers_prove_nothing() -> None:
    """Ranks that instances count from different inventions meet by chance."""
    found = dataclasses.replace(coverage_of(64, lambda p: 0), by_values=frozenset(["out"]))
    assert found.written("out", 64 * BLOCK * WIDTH, BLOCK * WIDTH, WIDTH) == 64 * BLOCK * WIDTH


def test_what_whole_axes_read_counts_once_and_what_neighbours_share_does_not() -> None:
    weights = np.arange(100)
    first = instance(np.arange(8), weights)
    same, other = instance(np.arange(8) + 8, weights), instance(np.arange(8) + 16, weights + 50)
    assert (
        Coverage((32, 4, 1), [first.written], first, {0: [same, same], 1: [same, other]}).readers("x") == 32
    )
    assert Coverage((32, 4, 1), [first.written], first, {0: [same, other, same]}).readers("x") == 1
    assert Coverage((32, 4, 1), [first.written], first, {0: [same, same]}).readers("y") == 1


def test_of_two_images_a_program_of_the_other_is_asked() -> None:
    """Two random programs were sometimes both of the first image, and half of the input seemed unread."""
    for seed in range(100):
        first = seed % 54
        assert any((first + step) % 54 // 27 != first // 27 for step in farther(54, random.Random(seed)))
