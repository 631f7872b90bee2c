"""Which orders of atomic operations publish earlier stores."""

import numpy as np
import pytest
import torch

from kernelwright.verify.interpret.memory import Memory
from kernelwright.verify.interpret.races import Race, Races

ALL = np.ones(1, dtype=bool)


def handed_on(*orders: str) -> None:
    """The first program stores, then updates a flag; others update it in turn; the last one updates it and loads."""
    memory = Memory()
    data, flag = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    places = [
        np.array([memory.pointer(one, name)], dtype=np.uint64)
        for one, name in ((data, "data"), (flag, "flag"))
    ]
    races = Races(memory, len(orders), None)
    races.start(0)
    races.write(places[0], ALL, 4, lambda: ALL)
    for program, order in enumerate(orders):
        if program:
            races.start(program)
        races.atomic(places[1], ALL, 4, order, False)
    races.read(places[0], ALL, 4, False)


@pytest.mark.parametrize(
    "orders",
    [
        ("ACQUIRE_RELEASE", "ACQUIRE_RELEASE"),
        ("RELEASE", "ACQUIRE"),
        ("RELEASE", "RELAXED", "ACQUIRE"),
        ("RELEASE", "RELEASE", "ACQUIRE"),
        ("RELEASE", "ACQUIRE_RELEASE", "ACQUIRE"),
    ],
)
def test_a_release_reaches_whoever_acquires_behind_it(orders: tuple[str, ...]) -> None:
    handed_on(*orders)


@pytest.mark.parametrize(
    "orders",
    [
        ("RELEASE", "RELEASE"),
        ("ACQUIRE", "ACQUIRE"),
        ("RELAXED", "ACQUIRE_RELEASE"),
        ("ACQUIRE_RELEASE", "RELAXED"),
        ("ACQUIRE", "RELEASE", "ACQUIRE"),
    ],
)
def test_without_either_nothing_is_known(orders: tuple[str, ...]) -> None:
    with pytest.raises(Race):
        handed_on(*orders)
