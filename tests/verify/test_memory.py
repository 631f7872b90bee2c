"""Fake addresses and counted sectors, by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.verify.interpret.memory import REGION_BITS, SECTOR_BYTES, Memory, OutOfBounds, Traffic

ALL = np.ones(1, dtype=bool)


def pointers(base: int, offsets: list[int], itemsize: int = 4) -> np.ndarray:
    return np.array([(base + offset * itemsize) % 2**64 for offset in offsets], dtype=np.uint64)


def test_tensors_live_far_apart() -> None:
    memory = Memory()
    a, b = torch.empty(4), torch.empty(4)
    assert memory.pointer(b, "b") - memory.pointer(a, "a") in (1 << REGION_BITS, -(1 << REGION_BITS))


def test_views_of_one_storage_share_a_region() -> None:
    memory = Memory()
    whole = torch.empty(16)
    assert memory.pointer(whole[3:], "v") - memory.pointer(whole, "w") == 12
    assert len(memory.regions) == 1


@given(st.integers(1, 40), st.integers(-100, 100), st.integers(1, 30))
def test_exactly_the_elements_of_the_storage_are_inside(size: int, first: int, count: int) -> None:
    memory = Memory()
    base = memory.pointer(torch.empty(size), "x")
    touched = pointers(base, list(range(first, first + count)))
    mask = np.ones(touched.shape, dtype=bool)
    if first >= 0 and first + count <= size:
        assert memory.check(touched, mask, 4, "read") is memory.regions[0]
    else:
        with pytest.raises(OutOfBounds, match="read out of bounds: `x` element"):
            memory.check(touched, mask, 4, "read")


def test_the_message_names_the_first_wrong_element() -> None:
    memory = Memory()
    base = memory.pointer(torch.empty(8), "x_ptr")
    with pytest.raises(OutOfBounds, match=r"write out of bounds: `x_ptr` element 8, valid 0\.\.7"):
        memory.check(pointers(base, [6, 7, 8, 9]), np.ones(4, dtype=bool), 4, "write")
    with pytest.raises(OutOfBounds, match=r"element -1, valid 0\.\.7"):
        memory.check(pointers(base, [-1]), ALL, 4, "write")


def test_half_an_element_past_the_end_is_outside() -> None:
    memory = Memory()
    base = memory.pointer(torch.empty(8), "x")
    with pytest.raises(OutOfBounds):
        memory.check(np.array([base + 30], dtype=np.uint64), ALL, 4, "read")
    assert memory.check(np.array([base + 30], dtype=np.uint64), ALL, 2, "read") is not None


def test_masked_pointers_are_not_looked_at() -> None:
    memory = Memory()
    base = memory.pointer(torch.empty(8), "x")
    touched = pointers(base, [0, 1, 999, -999])
    assert memory.check(touched, np.array([True, True, False, False]), 4, "read") is memory.regions[0]
    assert memory.check(touched, np.zeros(4, dtype=bool), 4, "read") is None


def test_the_null_pointer_belongs_to_nobody() -> None:
    memory = Memory()
    memory.pointer(torch.empty(8), "x")
    with pytest.raises(OutOfBounds, match="belongs to no tensor"):
        memory.check(np.array([0], dtype=np.uint64), ALL, 4, "read")


def test_translation_gives_real_addresses() -> None:
    memory = Memory()
    a, b = torch.arange(4.0), torch.arange(4.0)
    base_a, base_b = memory.pointer(a, "a"), memory.pointer(b, "b")
    one = memory.translate(pointers(base_a, [2]), memory.regions[0])
    assert int(one[0]) == a.data_ptr() + 8
    both = np.concatenate([pointers(base_a, [1]), pointers(base_b, [3])])
    assert memory.check(both, np.ones(2, dtype=bool), 4, "read") is None  # two regions, each access in one
    assert memory.translate(both, None).tolist() == [a.data_ptr() + 4, b.data_ptr() + 12]


# sectors


def touch(
    offsets: list[int], itemsize: int = 4, masked: list[bool] | None = None, what: str = "read"
) -> Traffic:
    memory, traffic = Memory(), Traffic()
    base = memory.pointer(torch.empty(1 << 16, dtype=torch.uint8), "x")
    mask = np.array(masked if masked is not None else [True] * len(offsets))
    traffic.access(memory.regions[0], pointers(base, offsets, itemsize), mask, itemsize, what)
    return traffic


@pytest.mark.parametrize(
    ("offsets", "itemsize", "sectors"),
    [
        (list(range(32)), 4, 4),  # 128 bytes, aligned
        (list(range(1, 33)), 4, 5),  # the same, one element further
        (list(range(0, 256, 8)), 4, 32),  # a stride of one sector: each lane its own
        (list(range(0, 64, 2)), 4, 8),  # every other element: twice the sectors
        ([0] * 32, 4, 1),  # a broadcast
        (list(range(32)), 2, 2),  # half precision: half the sectors
        (list(range(32)), 8, 8),
        (list(range(32)), 1, 1),
        ([7, 8], 4, 2),  # on both sides of a boundary
    ],
)
def test_sectors_by_hand(offsets: list[int], itemsize: int, sectors: int) -> None:
    traffic = touch(offsets, itemsize)
    assert traffic.unique_sectors() == {"x": sectors}
    assert traffic.touched_bytes == sectors * SECTOR_BYTES
    assert traffic.loaded == {"x": len(offsets) * itemsize}
    assert traffic.steps == 1


def test_masked_lanes_cost_nothing() -> None:
    traffic = touch(list(range(0, 256, 8)), masked=[True] * 4 + [False] * 28)
    assert traffic.unique_sectors() == {"x": 4}
    assert traffic.loaded == {"x": 16}


def test_a_store_is_not_a_load_and_an_atomic_is_both() -> None:
    assert touch([0], what="write").loaded == {}
    assert touch([0], what="write").stored == {"x": 4}
    both = touch([0], what="atomic access")
    assert (both.loaded, both.stored) == ({"x": 4}, {"x": 4})


def test_repeats_are_touched_twice_and_unique_once() -> None:
    memory, traffic = Memory(), Traffic()
    base = memory.pointer(torch.empty(64), "x")
    for _ in range(2):
        traffic.access(memory.regions[0], pointers(base, list(range(32))), np.ones(32, dtype=bool), 4, "read")
    assert traffic.unique_sectors() == {"x": 4}
    assert traffic.touched_bytes == 8 * SECTOR_BYTES


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=64))
def test_sectors_lie_between_one_and_the_number_of_lanes(offsets: list[int]) -> None:
    (count,) = touch(offsets).unique_sectors().values()
    assert 1 <= count <= len(set(offsets))
    assert count * SECTOR_BYTES >= 4 * len(set(offsets))
