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


@pytest.mark.parametrize("loaded", [[1, 2, 3, 3], [3, 2, 1, 0], [0, 0, 0, 0]])
def test_a_store_to_what_another_lane_loaded_needs_a_barrier(loaded: list[int]) -> None:
    memory = Memory()
    data, mask = torch.zeros(4), np.ones(4, dtype=bool)
    own = memory.pointer(data, "data") + 4 * np.arange(4, dtype=np.uint64)

    def play(warps: int, barrier: bool, places: np.ndarray) -> None:
        races = Races(memory, 1, None, warps)
        races.start(0)
        races.read(places, mask, 4, False)
        if barrier:
            races.barrier()
        races.write(own, mask, 4, lambda: mask)

    play(4, False, own)
    play(4, True, own[loaded])
    play(1, False, own[loaded])
    with pytest.raises(Race, match="other lanes than read it"):
        play(4, False, own[loaded])


@pytest.mark.parametrize("stores_first", [True, False])
def test_a_single_number_is_followed_if_it_is_stored_and_loaded_with_no_barrier(stores_first: bool) -> None:
    memory = Memory()
    data = torch.zeros(2)
    places = memory.pointer(data, "data") + 4 * np.arange(2, dtype=np.uint64)

    def play(warps: int = 4, barrier: bool = False, place: int = 0) -> Races:
        races = Races(memory, 1, None, warps, lambda: 7)
        races.start(0)
        for stores in (stores_first, not stores_first):
            if stores:
                races.write(places[:1], ALL, 4, lambda: ALL)
            else:
                races.read(places[place : place + 1], ALL, 4, False)
            if barrier:
                races.barrier()
        return races

    assert play().crossed
    assert play().early == [(7, "data")]
    assert not play(warps=1).crossed
    assert not play(barrier=True).crossed
    assert not play(place=1).crossed
