"""Program instances that wait for later ones are interleaved; an endless wait is reported."""

from collections.abc import Callable

import numpy as np
import pytest

from kernelwright.verify.interpret.endings import Stuck
from kernelwright.verify.interpret.together import Together

_NOTHING = np.zeros(1)


def nothing() -> Callable[[], None]:
    return lambda: None


def barrier(programs: int, wanted: int) -> tuple[Together, list[int]]:
    came = np.zeros(1, dtype=np.int64)
    left: list[int] = []

    def one(program: int) -> None:
        came[0] += 1
        together.did()
        while came[0] < wanted:
            together.asks(_NOTHING, _NOTHING, came.copy())
        left.append(program)

    together = Together(one, nothing)
    return together, left


def test_a_barrier_opens_when_all_have_come() -> None:
    together, left = barrier(5, 5)
    together.run(range(5))
    assert sorted(left) == [0, 1, 2, 3, 4]
    assert together.waited


def test_who_waits_for_nobody_takes_no_turns() -> None:
    together, left = barrier(3, 1)
    together.run(range(3))
    assert left == [0, 1, 2]
    assert not together.waited


def test_who_waits_for_ever_is_told() -> None:
    together, left = barrier(4, 5)
    with pytest.raises(Stuck, match="4 programs wait for one another for ever"):
        together.run(range(4))
    assert not left


def test_the_first_that_waits_may_give_up_before_others_begin() -> None:
    came, gave_up = np.zeros(1), list[int]()

    def one(program: int) -> None:
        came[0] += 1
        together.did()
        for _ in range(100):
            if came[0] == 3:
                return
            together.asks(_NOTHING, _NOTHING, came.copy())
        gave_up.append(program)

    together = Together(one, nothing)
    together.run(range(3), 100)
    assert gave_up == [0]


def test_an_error_of_one_ends_all() -> None:
    def one(program: int) -> None:
        if program == 2:
            raise ValueError("mine")
        for _ in range(10):
            together.asks(_NOTHING, _NOTHING, _NOTHING)

    together = Together(one, nothing)
    with pytest.raises(ValueError, match="mine"):
        together.run(range(3))
