"""State that a forward reads through classes, helpers, slots, arrays or torch itself: if it changes, kernels are no longer used."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from drop_in.making import counted, made
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
GAIN = 1.5


@dataclass(slots=True)
class Slotted:
    scale: float = 2.0


class Helper:
    factor = 2.0

    def __init__(self) -> None:
        self.offset = 1.0

    def __call__(self, x: Tensor) -> Tensor:
        return self.scaled(x) + self.offset

    def scaled(self, x: Tensor) -> Tensor:
        return x * self.factor


class Base(nn.Module):
    gain = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.config, self.array, self.helper = Slotted(), np.array([2.0]), Helper()
        self.nested = {"a": {"b": {"c": {"d": {"e": 2.0}}}}}
        self.table, self.layers = torch.ones(8), [nn.Linear(8, 8).requires_grad_(False)]

    @property
    def slope(self) -> float:
        return GAIN * 2

    @staticmethod
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gain


class Derived(Base):
    def forward(self, x: Tensor) -> Tensor:
        x = self.helper(super().forward(x)) * self.config.scale * float(self.array[0])
        x = Base.doubled(x) * self.slope * self.nested["a"]["b"]["c"]["d"]["e"] + self.table
        made: Tensor = self.layers[0](x)
        return made


Change = Callable[[Any, pytest.MonkeyPatch], Any]
CHANGES: dict[str, Change] = {
    "a slot of a configuration": lambda f, m: setattr(f.config, "scale", 5.0),
    "an array": lambda f, m: f.array.__setitem__(0, 5.0),
    "five dictionaries deep": lambda f, m: f.nested["a"]["b"]["c"]["d"].update(e=5.0),
    "a helper's attribute": lambda f, m: setattr(f.helper, "offset", 5.0),
    "a helper's class": lambda f, m: m.setattr(Helper, "factor", 5.0),
    "a helper's method": lambda f, m: m.setattr(Helper, "scaled", lambda self, x: x * 5),
    "a helper's call": lambda f, m: m.setattr(Helper, "__call__", lambda self, x: x * 5),
    "a number of a base class": lambda f, m: m.setattr(Base, "gain", 5.0),
    "the forward of a base class": lambda f, m: m.setattr(Base, "forward", lambda self, x: x * 5),
    "a property": lambda f, m: m.setattr(Base, "slope", property(lambda self: 5.0)),
    "a global that a property reads": lambda f, m: m.setitem(globals(), "GAIN", 5.0),
    "a static method": lambda f, m: m.setattr(Base, "doubled", staticmethod(lambda x: x * 5)),
    "the data of a tensor": lambda f, m: setattr(f.table, "data", torch.full((8,), 5.0)),
    "a layer in a list": lambda f, m: setattr(f.layers[0], "bias", None),
}


@pytest.mark.parametrize("change", CHANGES, ids=list(CHANGES))
def test_what_changes_the_answer_ends_the_kernels(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    fast = made(Derived().eval(), X)
    runs = counted(fast)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = fast(X)
    CHANGES[change](fast, monkeypatch)
    expected = fast.original(X)
    with pytest.warns(RuntimeWarning, match="was changed|was replaced"):
        answer = fast(X)
    torch.testing.assert_close(answer, expected)
    assert not torch.allclose(before, answer)
    assert len(runs) == 1


class Thirds(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.ones(8) / 3


def test_torchs_own_state_ends_the_kernels_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    fast = made(Thirds(), X)
    runs = counted(fast)
    fast(X)
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.warns(RuntimeWarning, match="the default dtype is torch.float64 now"):
            assert fast(X).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    with pytest.warns(RuntimeWarning, match="within a mode"), FlopCounterMode(display=False):
        fast(X)
    assert len(runs) == 1
    fast(X)
    assert len(runs) == 2
