"""Complex numbers in a module become pairs of real tensors in its graph, with the same results."""

import copy
import os
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from drop_in.making import counted, made
from torch import Tensor, nn

from kernelwright.errors import UserError
from kernelwright.graph.agree import agree
from kernelwright.graph.capture import capture
from kernelwright.graph.execute import execute
from kernelwright.graph.partition import partition
from kernelwright.graph.stitch import state_of, stitch

FIVE = torch.randn(3, 4, 5, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))
FOUR = torch.randn(4, 5, dtype=torch.complex64, generator=torch.Generator().manual_seed(2))


class Rotated(nn.Module):
    """Rotary positions as in Llama's own code: a table that is a plain attribute, and one that is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(6.0), 10.0 ** -torch.arange(4.0))
        self.freqs_cis = torch.polar(torch.ones_like(angles), angles)
        self.register_buffer("turn", torch.polar(torch.ones(4), torch.arange(4.0)))
        self.gain = nn.Parameter(torch.randn(4, dtype=torch.complex64), requires_grad=False)

    def forward(self, x: Tensor, more: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turned = pairs * self.freqs_cis[: x.shape[1]] * self.turn * more + self.gain
        return torch.view_as_real(turned).flatten(2).type_as(x)


def _written(x: Tensor) -> Tensor:
    z = torch.zeros(3, 4, 5, dtype=torch.complex64)
    z[:, :2] = x[:, 1:3]
    return (z + x.roll(1, 0)).real


RULES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "arithmetic": lambda x, y: torch.view_as_real((x * y - y / x) * 2.0 + 1j * x - 3),
    "with real ones": lambda x, y: torch.view_as_real(x.real * y + y / (1 + x.abs()) - x.imag),
    "conjugates and angles": lambda x, y: (x.conj() * y).angle() + y.conj().imag,
    "exponentials and powers": lambda x, y: (x.exp() + x**3).real + y.reciprocal().imag,
    "products": lambda x, y: torch.view_as_real(x @ y.mT @ y + torch.einsum("bij,ij->bij", x, y)),
    "parts and places": lambda x, y: torch.view_as_real(
        torch.cat([x, y[None].expand(1, 4, 5), x.real[:1]], 0).permute(2, 0, 1)[1:].flip(0)
    ),
    "lists": lambda x, y: torch.stack([one.abs() for one in x.split([2, 3], -1)[0].unbind(1)]).sum(0) + y.abs().sum(),
    "made and written": lambda x, y: _written(x),
    "chosen": lambda x, y: torch.where(x.real > 0, x, y).sum(1).abs(),
    "polar": lambda x, y: torch.polar(x.abs(), y.angle()).to(torch.complex128).real,
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_what_has_a_rule_agrees(name: str) -> None:
    captured = capture(RULES[name], (FIVE, FOUR), breaks=False)
    agree(captured.part, seed=1)
    got = captured.nest(execute(captured.graph, captured.bind((FIVE, FOUR))))
    torch.testing.assert_close(got, RULES[name](FIVE, FOUR))


def test_tables_buffers_weights_and_inputs_may_be_complex() -> None:
    module, x, more = Rotated().eval(), torch.randn(2, 6, 8).bfloat16(), FOUR[:1, :4]
    captured = capture(module, (x, more), breaks=False)
    assert {one.origin for one in captured.graph.arguments if one.complex} == {
        "freqs_cis",
        "turn",
        "gain",
        "more",
    }
    agree(captured.part, seed=1)
    with mock.patch.dict(os.environ, TRITON_INTERPRET="1"):
        fast = made(module, x, more)
        runs = counted(fast)
        for one in (fast, copy.deepcopy(fast)):
            torch.testing.assert_close(one(x, more), module(x, more))
        fast.gain.mul_(2)
        torch.testing.assert_close(fast(x, more), fast.original(x, more))
        assert len(runs) == 2
        with pytest.warns(RuntimeWarning, match="swapped places"):
            torch.testing.assert_close(fast(x, more.real), fast.original(x, more.real))


def test_a_written_file_takes_what_the_module_takes() -> None:
    def turn(self: Any, x: Tensor) -> Tensor:
        self.turn *= 1j
        return (x * self.turn).real

    module = Rotated()
    Turned = type("Turned", (Rotated,), {"forward": turn})
    module.__class__ = Turned
    graph = capture(module, (FOUR[:, :4],)).graph
    found: dict[str, Any] = {}
    exec(stitch(partition(graph), {}, state=state_of(graph)), found)
    new = found["ModelNew"]()
    new.load_state_dict({"turn": module.turn})
    for _ in range(2):
        torch.testing.assert_close((new(FOUR[:, :4]), new.turn), (module(FOUR[:, :4]), module.turn))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: torch.fft.fft(x).abs(), "a Fourier transform has no kernel"),
        (lambda x: x * 2, "it returns a complex tensor; return torch.view_as_real"),
        (lambda x: x.tanh().real, "tanh of complex numbers has no kernel"),
        (lambda x: (x**0.5).real, "a power of complex numbers has no kernel"),
    ],
)
def test_what_has_no_rule_gets_one_line(function: Callable[[Tensor], Tensor], said: str) -> None:
    with pytest.raises(UserError, match=said):
        capture(function, (FOUR,), breaks=False)
