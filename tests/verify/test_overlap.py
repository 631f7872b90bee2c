"""Which tensors share elements: exactly, for any strides."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.verify.trace.overlap import overlaps_itself, share_elements, sharing, view_of

MEMORY = torch.zeros(64)


@pytest.mark.parametrize(
    ("tensor", "overlaps"),
    [
        (MEMORY.view(8, 8), False),
        (MEMORY.view(8, 8).t(), False),
        (MEMORY[:8].expand(3, 8), True),
        (MEMORY[:8].expand(1, 8), False),
        (MEMORY.unfold(0, 4, 2), True),
        (MEMORY.unfold(0, 4, 4), False),
        (MEMORY[:1].expand(1), False),
        (MEMORY[:0].expand(5, 0), False),
    ],
)
def test_a_tensor_overlaps_itself_where_two_indices_name_one_element(
    tensor: torch.Tensor, overlaps: bool
) -> None:
    assert overlaps_itself(view_of(tensor)) is overlaps


def test_interleaved_columns_share_a_storage_and_no_element() -> None:
    even, odd = MEMORY.view(32, 2).unbind(1)
    assert not share_elements(view_of(even), view_of(odd))
    assert share_elements(view_of(even), view_of(MEMORY[62:]))


def test_bytes_count_where_dtypes_differ() -> None:
    halves = MEMORY.view(torch.float16)
    assert share_elements(view_of(MEMORY[:8]), view_of(halves[15:]))
    assert not share_elements(view_of(MEMORY[:8]), view_of(halves[16:]))


def test_other_storages_share_nothing() -> None:
    assert not share_elements(view_of(MEMORY, 0), view_of(torch.zeros(64), 1))


def test_each_output_names_the_first_that_it_shares_with() -> None:
    other = torch.zeros(4)
    assert sharing([MEMORY, other, MEMORY.view(8, 8), other.expand(2, 4)]) == [-1, -1, 0, 3]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), min_size=1, max_size=3), st.integers(0, 8))
def test_strided_views_are_told_as_counting_their_elements_does(dims: list[tuple[int, int]], at: int) -> None:
    shape, stride = zip(*dims, strict=True)
    view = torch.zeros(128).as_strided(shape, stride, at)
    places = torch.arange(128).as_strided(shape, stride, at).reshape(-1)
    assert overlaps_itself(view_of(view)) is (places.unique().numel() < places.numel())
