"""How a module uses its weights, and modules that deviate from that."""

import copy
from typing import Any

import pytest
import torch

from kernelwright.verify.sandbox.service import Failure
from kernelwright.verify.trace.as_a_module import asked_for, copy_module, make_anew, wrap


class Usual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.rand(3))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)


class LeavesOut(Usual):
    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return {}


class Lies(Usual):
    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return {"gain": torch.zeros(3)}


class TakesNothing(Usual):
    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return None


class Itself(Usual):
    def __deepcopy__(self, memo: object) -> Any:
        return self


class Shares(Usual):
    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self._parameters["gain"] = LAST[0]


class ListsNothing(Usual):
    def parameters(self, recurse: bool = True) -> Any:
        return iter(())


class Uncopied(Usual):
    def __deepcopy__(self, memo: object) -> Any:
        raise TypeError("no")


class Packed(Usual):
    """With names of its own, but saved under the reference's."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = torch.nn.Parameter(torch.rand(2))

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return {"gain": self.gain.detach(), "left": self.pair.detach()[:1], "right": self.pair.detach()[1:]}

    def load_state_dict(self, state: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            self.gain.copy_(state["gain"])
            self.pair.copy_(torch.cat([state["left"], state["right"]]))


LAST: list[torch.nn.Parameter] = []


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (LeavesOut, "leaves gain out"),
        (Lies, "something else under gain"),
        (TakesNothing, "does not reach gain"),
        (Itself, "no other module"),
        (Shares, "same memory"),
        (ListsNothing, "parameters"),
    ],
)
def test_what_does_not_behave_as_a_module_is_told(kind: type[Usual], says: str) -> None:
    module = kind()
    LAST[:] = [module.gain]
    with pytest.raises(Failure, match=says), torch.no_grad():
        copy_module(module, {"gain": None})


@pytest.mark.parametrize("kind", [Usual, Uncopied, Packed])
def test_what_does_is_copied_where_it_can_be_and_keeps_its_weights(kind: type[Usual]) -> None:
    module = kind()
    before = copy.copy(module.gain.detach().clone())
    with torch.no_grad():
        made = copy_module(
            module, dict.fromkeys(("gain", "left", "right")) if kind is Packed else {"gain": None}
        )
    assert (made is module) is (kind is Uncopied)
    assert torch.equal(vars(made)["_parameters"]["gain"], before)


class Learns(Usual):
    """With a submodule that has modes of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)


class TurnsAlone(Learns):
    def train(self, mode: bool = True) -> Any:
        self.training = mode
        return self


class GivesNothing(Learns):
    def train(self, mode: bool = True) -> Any:
        super().train(mode)


class KeepsGradients(Learns):
    def zero_grad(self, set_to_none: bool = True) -> None: ...


class StaysWide(Learns):
    def half(self) -> Any:
        return self


class LearnsOn(Learns):
    def requires_grad_(self, requires_grad: bool = True) -> Any:
        return self


class Alone(Learns):
    def apply(self, fn: Any) -> Any:
        fn(self)
        return self


class Freezes(Learns):
    """As in fine-tuning: a frozen norm in single precision."""

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        self.norm.eval()
        return self

    def half(self) -> Any:
        super().half()
        self.norm.float()
        return self

    def cpu(self) -> Any:
        raise RuntimeError("it stays where it is")


@pytest.mark.parametrize("kind", [TurnsAlone, GivesNothing, KeepsGradients, StaysWide, LearnsOn, Alone])
def test_methods_of_its_own_do_what_a_modules_do(kind: Any) -> None:
    with pytest.raises(Failure, match="it does not behave as a module"):
        copy_module(kind(), {})


def test_what_is_frozen_by_a_method_of_its_own_is_no_matter() -> None:
    made = copy_module(Freezes(), {})
    assert made.training
    assert made.gain.dtype == torch.float32


def test_a_weight_is_made_anew_for_whoever_asks_its_part() -> None:
    module = Learns()
    own, beside = module.gain, module.norm.weight
    module.register_buffer("view", beside.detach().view(3))
    module.kept = [module.norm.bias]
    found = make_anew(module, {"gain", "norm.weight", "norm.bias", "other"})
    assert found.keys() == {
        "gain",
        "norm.bias",
    }  # where two are registered in one memory, its owner is unknown
    assert found["gain"] is own
    assert module.gain is not own
    assert module.norm.weight is beside


def test_names_that_a_file_asks_for_and_never_sets_are_hung_on_a_module_of_a_derived_class() -> None:
    code = """
def f(self, x):
    if not hasattr(self, "_mine"):
        self._mine = 1
    for name in ("_one", "_two"):
        if not hasattr(self, name):
            setattr(self, name, 2)
    return hasattr(self, "_theirs") or getattr(x, "peft_config", None) or getattr(self, "width", 3)
"""
    assert asked_for(code) == {"_theirs", "peft_config"}
    module = Usual()
    wrap(module, asked_for(code), Usual.__module__)
    assert type(module) is not Usual
    assert isinstance(module, Usual)
    assert "_theirs" in vars(module)
    assert "_theirs" in vars(module.gain)
