"""Whatever a kernel must not rely on differs between calls, and brackets fall as a GPU may set them."""

import torch

from kernelwright.verify.trace.kernels import Kernels
from kernelwright.verify.trace.replay import Session
from kernelwright.verify.trace.tape import Tape

EMPTY = Tape.read({"operations": [], "output": {"value": None}, "foreign": {}})


def fills(count: int, dtype: str = "float32") -> list[torch.Tensor]:
    """Contents of fresh memory in `count` calls."""
    session, found = Session("cpu", Kernels([])), []
    for _ in range(count):
        session.play(EMPTY)
        memory = torch.zeros(32, dtype=torch.uint8)
        session.poison(memory, dtype)
        found.append(memory.view(getattr(torch, dtype)))
    return found


def test_the_first_call_finds_what_tells_memory_that_nobody_wrote() -> None:
    assert fills(1)[0].isnan().all()


def test_later_calls_find_numbers_as_well_as_none() -> None:
    assert {bool(fill.isnan().any()) for fill in fills(40)} == {True, False}


def test_no_pattern_stays() -> None:
    patterns = {tuple(fill.view(torch.int32).tolist()) for fill in fills(40)}
    assert len(patterns) > 10


def test_integers_are_filled_anew_too() -> None:
    assert len({tuple(fill.tolist()) for fill in fills(20, "int64")}) > 5


def test_without_kernels_memory_stays_recognised() -> None:
    session = Session("cpu", Kernels([]))
    session.ablated = True
    for _ in range(10):
        session.play(EMPTY)
        assert session.fill is None
