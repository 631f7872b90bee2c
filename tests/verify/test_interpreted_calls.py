"""How both backends make interpreted calls: brackets drawn, and of two wrong calls the first, whose fresh memory is known."""

import types
from typing import Any

import pytest

from kernelwright.outcomes import Gate, Outcome
from kernelwright.verify.confined import Stop
from kernelwright.verify.gpu.verification import MeasuredVerification
from kernelwright.verify.messages import Run
from kernelwright.verify.verification import Verification

CASE: Any = types.SimpleNamespace(name="small x1", inputs=[], after={}, expected=[])


class Device:
    """Answers every call, and keeps what it was asked."""

    alive = True

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def ask(self, gate: Gate, body: dict[str, Any], tensors: Any) -> tuple[dict[str, Any], list[Any]]:
        self.asked.append(body)
        return {"atomics": False, "units": [], "false_hints": False, "configurations": 1}, []


def verification(kind: type[Verification]) -> Any:
    made: Any = object.__new__(kind)
    made._atomics, made._units, made._brackets = False, set(), 12345
    made._configurations = 1
    made._compared = lambda *_: 0.0
    made.protocol = types.SimpleNamespace(honesty=True)
    return made


@pytest.mark.parametrize("kind", [Verification, MeasuredVerification])
def test_every_case_has_brackets_of_its_own_on_both_backends(kind: type[Verification]) -> None:
    device, judge = Device(), verification(kind)
    for place in ((0, 0), (0, 1), (1, 0), (0, 0)):
        judge._interpret(device, Gate.SMALL, Run("small"), CASE, *place)
    drawn = [body["brackets"] for body in device.asked]
    assert drawn[0] == drawn[3] != 0
    assert drawn[0] != drawn[1]
    assert drawn[0] != drawn[2]


@pytest.mark.parametrize(
    ("calls", "outcome"),
    [
        ([Outcome.UNWRITTEN, Outcome.WRONG_VALUE], Outcome.UNWRITTEN),
        ([Outcome.WRONG_VALUE, None], Outcome.NONDETERMINISTIC),
        ([Outcome.WRONG_VALUE, Outcome.LOW_PRECISION], Outcome.LOW_PRECISION),
        ([Outcome.LOW_PRECISION], Outcome.LOW_PRECISION),
    ],
)
def test_of_two_wrong_calls_the_first_is_told(calls: list[Outcome | None], outcome: Outcome) -> None:
    judge, left = verification(MeasuredVerification), iter(calls)

    def interpret(*_: Any) -> None:
        if (found := next(left)) is not None:
            raise Stop(found, Gate.SMALL, "", where="small x1")

    judge._interpret = interpret
    with pytest.raises(Stop) as stop:
        judge._interpreted(Device(), types.SimpleNamespace(name="small"), CASE, -1, 0)
    assert stop.value.outcome is outcome
