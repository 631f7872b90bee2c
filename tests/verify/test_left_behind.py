"""State that a call must leave unchanged is checked; changes that are undone do not count."""

import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelwright.verify.held import INPUTS, LEARNS, MODES, Held
from kernelwright.verify.trace.left_behind import LeftBehind, Weights, switches_same, tensors_held


def view(tensor: torch.Tensor) -> list[Any]:
    return [
        tensor.untyped_storage()._cdata,
        int(tensor.storage_offset()),
        list(tensor.shape),
        list(tensor.stride()),
        str(tensor.dtype),
    ]


class Part(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(3, 3), requires_grad=False)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("own", torch.zeros(3), persistent=False)


def left(change: Callable[[Part], object], copies: Callable[[Part], list[Any]] = lambda part: []) -> None:
    part = Part()
    before = part.weight.data
    weights = Weights(part, ["weight", "mean"], view)
    change(part)
    steps = [
        {"kind": "copy", "target": view(target), "source": view(source)}
        for target, source in (copies(part) and [(copies(part)[0], before.t())])
    ]
    weights.check([{"operations": steps}])


def test_a_switch_that_is_left_on_is_told() -> None:
    was = torch.is_grad_enabled()
    try:
        with pytest.raises(LeftBehind, match="gradient mode"), switches_same():
            torch.set_grad_enabled(not was)
    finally:
        torch.set_grad_enabled(was)


def test_switches_that_are_put_back_are_no_matter() -> None:
    with switches_same(), torch.no_grad(), torch.autocast("cpu"), warnings.catch_warnings():
        warnings.simplefilter("ignore")


def test_a_file_may_say_how_warnings_look_while_it_is_loaded() -> None:
    with warnings.catch_warnings():
        with switches_same(loading=True):
            warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(LeftBehind, match="warnings"), switches_same():
            warnings.simplefilter("ignore", BytesWarning)


def test_held_names_every_part() -> None:
    outer = torch.nn.Sequential(Part())
    found = {name: (learns, kept) for name, _, learns, kept in tensors_held(outer)}
    assert found == {"0.weight": (True, True), "0.mean": (False, True), "0.own": (False, False)}


@pytest.mark.parametrize(
    "change",
    [
        lambda part: setattr(part.weight, "data", part.weight.data.t()),
        lambda part: setattr(part.weight, "data", part.weight.data.t().contiguous()),
        lambda part: setattr(part, "weight", torch.nn.Parameter(part.weight.data, requires_grad=False)),
        lambda part: part.weight.requires_grad_(),
        lambda part: delattr(part, "weight"),
        lambda part: setattr(part, "mean", torch.zeros(4)),
    ],
)
def test_another_weight_is_told(change: Callable[[Part], object]) -> None:
    with pytest.raises(LeftBehind):
        left(change)


def test_buffers_of_the_same_form_and_those_of_its_own_are_its_business() -> None:
    left(lambda part: (setattr(part, "mean", torch.ones(3)), setattr(part, "own", torch.ones(9))))


def test_the_same_weight_laid_out_anew_by_torch_is_the_same() -> None:
    def turn(part: Part) -> None:
        part.weight.data = part.weight.data.t().contiguous().t()

    left(turn, lambda part: [part.weight.data.t()])
    with pytest.raises(LeftBehind):
        left(turn)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda part, given: part.eval(), MODES),
        (lambda part, given: part.weight.requires_grad_(), LEARNS),
        (lambda part, given: given[0].t_(), INPUTS),
        (lambda part, given: given[0].unsqueeze_(0), INPUTS),
        (lambda part, given: setattr(given[0], "data", torch.ones(2, 2)), INPUTS),
        (lambda part, given: given[1].reverse(), INPUTS),
        (lambda part, given: given[1].append(given[0]), INPUTS),
        (lambda part, given: given[1].__setitem__(0, given[0]), INPUTS),
        (lambda part, given: given[2].update(a=given[0]), INPUTS),
        (lambda part, given: given[2].update(b=given[2].pop("b"), a=given[2].pop("a")), INPUTS),
        (lambda part, given: given[0].view(-1), None),
        (lambda part, given: list(reversed(given[1])), None),
    ],
)
def test_what_a_caller_has_is_the_same(change: Callable[[Part, Any], object], kind: str | None) -> None:
    part = Part()
    given = [torch.ones(2, 2), [torch.zeros(1), torch.ones(1)], {"a": torch.ones(1), "b": 2}]
    held = Held(part, given)
    change(part, given)
    assert set(held.changed()) == ({kind} if kind else set())


def test_a_handler_that_a_call_gives_to_a_logger_of_others_is_told() -> None:
    handler = logging.NullHandler()
    try:
        with pytest.raises(LeftBehind, match="handlers"), switches_same():
            logging.root.addHandler(handler)
    finally:
        logging.root.removeHandler(handler)
    with switches_same():
        logging.getLogger("one of its own").addHandler(handler)
