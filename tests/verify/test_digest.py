"""Digests distinguish tensors that differ in any bit."""

import pytest
import torch

from kernelwright.verify.gpu import memory


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.float64, torch.int8])
def test_one_changed_element_changes_it(dtype: torch.dtype) -> None:
    whole = torch.ones(1000).to(dtype)
    changed = whole.clone()
    changed[617] = 0
    assert memory.digest(whole) == memory.digest(whole.clone())
    assert memory.digest(whole) != memory.digest(changed)


def test_places_count_and_not_values_alone() -> None:
    assert memory.digest(torch.tensor([1.0, 2.0])) != memory.digest(torch.tensor([2.0, 1.0]))


def test_pieces_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_DIGESTED", 4)
    one, other = torch.arange(8.0), torch.arange(8.0).roll(4)
    assert memory.digest(one) != memory.digest(other)
