"""A race of compiled graphs with free sizes, on pretended clocks."""

import functools
from typing import Any

import pytest
import torch
from torch._inductor.compile_fx import compile_fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from kernelwright.compile_backend import race
from kernelwright.compile_backend.race import Race


def free_sizes() -> list[Any]:
    """The arguments of a graph with free sizes as Inductor gets them: (6, 40, 3) and (40,)."""
    found: list[Any] = []

    def keep(module: Any, examples: Any, **options: Any) -> Any:
        found.extend(examples)
        raise RuntimeError("kept")

    torch._dynamo.reset()
    backend = functools.partial(compile_fx, inner_compile=keep)
    with pytest.raises(Exception, match="kept"):
        torch.compile(lambda x, y: x.sum(-1) + y, backend=backend, dynamic=True)(
            torch.ones(6, 40, 3), torch.ones(40)
        )
    return found


def test_smaller_free_sizes_are_drawn() -> None:
    examples = free_sizes()
    with unset_fake_temporarily():
        full = [race.draw_like(one) for one in examples]
        half = [race.draw_like(one, race._smaller(examples)[0]) for one in examples]
    assert [tuple(one.shape) for one in full if isinstance(one, torch.Tensor)] == [(6, 40, 3), (40,)]
    assert [tuple(one.shape) for one in half if isinstance(one, torch.Tensor)] == [(3, 16, 2), (16,)]
    assert sorted(one for one in half if isinstance(one, int)) == [2, 3, 16]


@pytest.mark.parametrize(("at_half", "won"), [(0.4, True), (0.504, True), (0.56, False)])
def test_a_graph_that_loses_at_a_smaller_size_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, at_half: float, won: bool
) -> None:
    def clock(call: Any, arguments: Any) -> float:
        columns = next(one for one in arguments if isinstance(one, torch.Tensor)).shape[1]
        return {"ours": at_half if columns == 16 else 0.9, "inductor": 0.5 if columns == 16 else 1.0}[call]

    monkeypatch.setattr(race, "_clock", clock)
    with unset_fake_temporarily():
        found = race._at_all_sizes("ours", "inductor", free_sizes())  # type: ignore[arg-type]
    assert found == Race(0.9, 1.0, (Race(at_half, 0.5), *[Race(0.9, 1.0)] * (len(found.smaller) - 1)))
    assert len(found.smaller) > 1
    assert found.won == won


def test_fixed_sizes_race_once() -> None:
    assert race._smaller([torch.ones(3, 4), 5]) == []
