"""The state that earlier calls leave behind."""

import pytest
import torch

from kernelwright.verify.reference import after_calls


class Counts(torch.nn.Module):
    """Counts calls, up to `most`, beside a maximum over all of them."""

    def __init__(self, most: int = 0) -> None:
        super().__init__()
        self.most = most
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("largest", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        if self.most:
            self.calls.remainder_(self.most)
        self.largest.copy_(torch.maximum(self.largest, x))
        return x / self.largest


def draw(seed: int) -> list[torch.Tensor]:
    return [torch.rand(3, generator=torch.Generator().manual_seed(seed)) + 0.1]


def test_loud_calls_leave_more_than_quiet_ones_reach() -> None:
    state = after_calls.after_loud(Counts(), draw, 4)
    assert state is not None
    assert int(state["calls"]) in (1, 2, 3)
    assert bool((state["largest"] > after_calls.QUIET * draw(4)[0]).all())


def test_a_count_lies_beyond_what_the_reference_names() -> None:
    state = after_calls.long_after(Counts(), draw, (0.5, 20_000.0, 1e9), 4)
    assert state is not None
    assert int(state["calls"]) >= 40_000


def test_a_count_that_wraps_is_one_that_calls_reach() -> None:
    for most in (2, 5, 1000):
        state = after_calls.long_after(Counts(most), draw, (), 4)
        assert state is not None
        assert int(state.get("calls", 0)) < most


def test_a_module_that_keeps_nothing_has_no_such_state() -> None:
    module = torch.nn.Linear(3, 3)
    assert after_calls.after_loud(module, draw, 1) is None
    assert after_calls.long_after(module, draw, (), 1) is None


class Ring(torch.nn.Module):
    """Counts rows up to the length of a buffer; `every` so many calls it keeps them."""

    def __init__(self, length: int, every: int) -> None:
        super().__init__()
        self.every = every
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("rows", torch.zeros(length))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        where = (self.at + torch.arange(3)) % self.rows.shape[0]
        self.rows[where] = torch.where(self.calls % self.every == 0, x, self.rows[where])
        self.at.copy_((self.at + 3) % self.rows.shape[0])
        self.calls.add_(1)
        return x - self.rows.mean()


def test_counts_stand_before_the_end_of_a_buffer() -> None:
    states = list(after_calls.phases(Ring(11, 1), draw, (), 4))
    assert [int(state["at"]) for state in states] == [9]


def test_counts_stand_at_what_shares_a_divisor_with_a_number_that_is_named() -> None:
    states = list(after_calls.phases(Counts(1 << 40), draw, (10.0, 0.5), 4))
    found = [int(state["calls"]) for state in states]
    assert {10, 0} <= {one % 20 for one in found}
    assert any(one % 10 == 5 for one in found)
    assert any(one % 10 in (2, 4, 6, 8) for one in found)


def test_a_count_that_is_only_added_to_has_no_phases_and_is_not_counted_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    own = after_calls._call
    monkeypatch.setattr(after_calls, "_call", lambda *args: (calls.append(1), own(*args))[1])
    module = torch.nn.BatchNorm1d(200)
    rows = lambda seed: [torch.randn(4, 200, generator=torch.Generator().manual_seed(seed))]  # noqa: E731
    assert list(after_calls.phases(module, rows, (10.0,), 4)) == []
    state = after_calls.long_after(module, rows, (10.0,), 4)
    assert state is not None
    assert int(state["num_batches_tracked"]) > 5000
    assert len(calls) < 5
